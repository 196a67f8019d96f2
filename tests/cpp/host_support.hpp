// SPDX-License-Identifier: MIT
// tests/cpp/host_support.hpp: what the tests of the CPU runtime share.
//
// They pass in every model of the machine and with guarded device memory: device memory is read by copying it back.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "portamem/host/runtime_api.h"

namespace host_tests {

#define HOST_OK(call) REQUIRE_MESSAGE((call) == pmhSuccess, std::string(pmhGetLastErrorDetail()))

using Bytes = std::vector<unsigned char>;

inline constexpr std::size_t KiB = 1024;
inline constexpr std::size_t MiB = 1024 * KiB;

inline Bytes pattern(std::size_t size, unsigned seed) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<unsigned char>((i * 131 + (i >> 7) + seed * 29) & 0xff);
    return bytes;
}

inline void put(void* device, const Bytes& bytes) {
    HOST_OK(pmhMemcpy(device, bytes.data(), bytes.size(), pmhMemcpyDefault));
}

inline Bytes get(const void* memory, std::size_t size) {
    Bytes bytes(size);
    HOST_OK(pmhMemcpy(bytes.data(), memory, size, pmhMemcpyDefault));
    return bytes;
}

/// The bytes at an address, fetched on a stream that waits for none. For pinned, managed and device memory.
inline Bytes peek(const void* memory, std::size_t size) {
    pmhStream_t stream = nullptr;
    HOST_OK(pmhStreamCreateWithPriority(&stream, pmhStreamNonBlocking, 0));
    Bytes bytes(size);
    HOST_OK(pmhMemcpyAsync(bytes.data(), memory, size, pmhMemcpyDefault, stream));
    HOST_OK(pmhStreamDestroy(stream));
    return bytes;
}

struct Stream {
    pmhStream_t handle = nullptr;
    explicit Stream(unsigned flags = pmhStreamNonBlocking) { HOST_OK(pmhStreamCreateWithPriority(&handle, flags, 0)); }
    ~Stream() { (void)pmhStreamDestroy(handle); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    operator pmhStream_t() const { return handle; }
};

struct Event {
    pmhEvent_t handle = nullptr;
    explicit Event(unsigned flags = pmhEventDefault) { HOST_OK(pmhEventCreateWithFlags(&handle, flags)); }
    ~Event() { (void)pmhEventDestroy(handle); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    operator pmhEvent_t() const { return handle; }
};

struct DeviceMemory {
    void* ptr = nullptr;
    explicit DeviceMemory(std::size_t size) { HOST_OK(pmhMalloc(&ptr, size)); }
    ~DeviceMemory() { (void)pmhFree(ptr); }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    char* at(std::size_t offset) const { return static_cast<char*>(ptr) + offset; }
    operator void*() const { return ptr; }
};

struct PinnedMemory {
    void* ptr = nullptr;
    explicit PinnedMemory(std::size_t size) { HOST_OK(pmhHostMalloc(&ptr, size, pmhHostMallocDefault)); }
    ~PinnedMemory() { (void)pmhHostFree(ptr); }
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;
    unsigned char* bytes() const { return static_cast<unsigned char*>(ptr); }
    operator void*() const { return ptr; }
};

struct ManagedMemory {
    void* ptr = nullptr;
    explicit ManagedMemory(std::size_t size) { HOST_OK(pmhMallocManaged(&ptr, size, pmhMemAttachGlobal)); }
    ~ManagedMemory() { (void)pmhFree(ptr); }
    ManagedMemory(const ManagedMemory&) = delete;
    ManagedMemory& operator=(const ManagedMemory&) = delete;
    char* at(std::size_t offset) const { return static_cast<char*>(ptr) + offset; }
    operator void*() const { return ptr; }
};

struct Pool {
    pmhMemPool_t handle = nullptr;
    explicit Pool(std::size_t max_size = 0, int device = 0) {
        const pmhMemPoolProps props{{pmhMemLocationTypeDevice, device}, max_size};
        HOST_OK(pmhMemPoolCreate(&handle, &props));
    }
    ~Pool() { (void)pmhMemPoolDestroy(handle); }
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    operator pmhMemPool_t() const { return handle; }

    std::uint64_t get(int attribute) const {
        std::uint64_t value = 0;
        HOST_OK(pmhMemPoolGetAttribute(handle, attribute, &value));
        return value;
    }
    void set(int attribute, std::uint64_t value) const { HOST_OK(pmhMemPoolSetAttribute(handle, attribute, value)); }
    std::uint64_t reserved() const { return get(pmhMemPoolAttrReservedMemCurrent); }
    std::uint64_t used() const { return get(pmhMemPoolAttrUsedMemCurrent); }

    void* allocate(std::size_t size, pmhStream_t stream) const {
        void* ptr = nullptr;
        HOST_OK(pmhMallocFromPoolAsync(&ptr, size, handle, stream));
        return ptr;
    }
};

/// Holds streams up at a host function until it is opened.
class Latch {
  public:
    Latch() = default;
    ~Latch() {
        open();
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return held_ == 0; });
    }
    Latch(const Latch&) = delete;
    Latch& operator=(const Latch&) = delete;

    void hold(pmhStream_t stream) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ++held_;
        }
        HOST_OK(pmhLaunchHostFunc(stream, wait, this));
    }

    void open() {
        const std::lock_guard<std::mutex> lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }

  private:
    static void wait(void* self) {
        Latch& latch = *static_cast<Latch*>(self);
        std::unique_lock<std::mutex> lock(latch.mutex_);
        latch.changed_.wait(lock, [&] { return latch.open_; });
        --latch.held_;
        latch.changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
    int held_ = 0;
};

/// A call that blocks, on a thread of its own.
class Blocked {
  public:
    template <class Call>
    explicit Blocked(Call&& call)
        : thread_([this, call] {
              answer_ = call();
              returned_ = true;
          }) {}
    ~Blocked() {
        if (thread_.joinable()) thread_.join();
    }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;

    bool still() const {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        return !returned_;
    }
    /// Patient, for a machine that is busy with other things.
    bool returns() const {
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!returned_ && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
        return returned_;
    }
    pmhError_t join() {
        thread_.join();
        return answer_;
    }

  private:
    std::atomic<bool> returned_{false};
    pmhError_t answer_ = pmhErrorUnknown;
    std::thread thread_;
};

inline std::string detail() { return pmhGetLastErrorDetail(); }

inline bool has(int attribute) {
    int value = 0;
    HOST_OK(pmhDeviceGetAttribute(&value, attribute, 0));
    return value != 0;
}

inline std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    HOST_OK(pmhMemGetInfo(&free, &total));
    return free;
}

inline pmhPointerAttributes attributes_of(const void* ptr) {
    pmhPointerAttributes attributes{};
    HOST_OK(pmhPointerGetAttributes(&attributes, ptr));
    return attributes;
}

/// Puts the machine back as it was.
struct Knobs {
    Knobs() = default;
    ~Knobs() { (void)pmhKnobReset(); }
    Knobs(const Knobs&) = delete;
    Knobs& operator=(const Knobs&) = delete;
};

}  // namespace host_tests
