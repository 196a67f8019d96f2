// SPDX-License-Identifier: MIT
// tests/cpp/rt_support.hpp: what the tests of the ground floor share.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "portamem/rt/rt.hpp"

namespace portamem {
namespace rt {
/// doctest prints a code by its name.
inline doctest::String toString(Error_t error) { return GetErrorName(error); }
}  // namespace rt
}  // namespace portamem

namespace rt = portamem::rt;
using rt::Error_t;
using rt::Location;
using rt::LocationType;
using rt::MemcpyKind;

inline constexpr Error_t Success = Error_t::Success;
inline constexpr rt::Stream_t NullStream = nullptr;
inline constexpr std::size_t MiB = std::size_t{1} << 20;

inline int device_count() {
    int count = 0;
    (void)rt::GetDeviceCount(&count);
    return count;
}

/// True where a test that needs a device is to be left out. PORTAMEM_REQUIRE makes that an error.
inline bool no_device() {
    if (device_count() > 0) return false;
    const char* required = std::getenv("PORTAMEM_REQUIRE");
    if (required != nullptr && (required == std::string("gpu") || required == std::string(rt::BackendName))) {
        FAIL("PORTAMEM_REQUIRE=" << required << ", and there is no device");
    }
    return true;
}

/// True where the first device has a capability. One that the vendor does not have counts as absent.
inline bool has(rt::DeviceAttr attr) {
    int value = 0;
    return rt::DeviceGetAttribute(&value, attr, 0) == Success && value != 0;
}

using Bytes = std::vector<unsigned char>;

/// Bytes that differ from place to place and from seed to seed.
inline Bytes pattern(std::size_t nbytes, unsigned seed) {
    Bytes bytes(nbytes);
    for (std::size_t i = 0; i < nbytes; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + (i >> 8) * 7 + seed);
    return bytes;
}

/// The bytes at an address, fetched by the runtime.
inline Bytes contents(const void* ptr, std::size_t nbytes) {
    Bytes bytes(nbytes);
    REQUIRE(rt::Memcpy(bytes.data(), ptr, nbytes, MemcpyKind::Default) == Success);
    return bytes;
}

/// Writes a pattern through the runtime and reads it back.
inline bool keeps_bytes(void* ptr, std::size_t nbytes, unsigned seed) {
    const Bytes bytes = pattern(nbytes, seed);
    return rt::Memcpy(ptr, bytes.data(), nbytes, MemcpyKind::Default) == Success && contents(ptr, nbytes) == bytes;
}

struct DeviceMemory {
    void* ptr = nullptr;
    explicit DeviceMemory(std::size_t nbytes) { REQUIRE(rt::Malloc(&ptr, nbytes) == Success); }
    ~DeviceMemory() { CHECK(rt::Free(ptr) == Success); }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
};

struct PinnedMemory {
    void* ptr = nullptr;
    explicit PinnedMemory(std::size_t nbytes) {
        REQUIRE(rt::HostMalloc(&ptr, nbytes, rt::HostMallocDefault, rt::Coherence::Default) == Success);
    }
    ~PinnedMemory() { CHECK(rt::HostFree(ptr) == Success); }
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;
    unsigned char* bytes() const { return static_cast<unsigned char*>(ptr); }
};

struct TestStream {
    rt::Stream_t handle{};
    explicit TestStream(unsigned flags = rt::StreamNonBlocking) {
        REQUIRE(rt::StreamCreateWithPriority(&handle, flags, 0) == Success);
    }
    ~TestStream() { CHECK(rt::StreamDestroy(handle) == Success); }
    TestStream(const TestStream&) = delete;
    TestStream& operator=(const TestStream&) = delete;
};

struct TestEvent {
    rt::Event_t handle{};
    explicit TestEvent(unsigned flags = rt::EventDisableTiming) {
        REQUIRE(rt::EventCreateWithFlags(&handle, flags) == Success);
    }
    ~TestEvent() { CHECK(rt::EventDestroy(handle) == Success); }
    TestEvent(const TestEvent&) = delete;
    TestEvent& operator=(const TestEvent&) = delete;
};

/// The time that a test waits for what has to come: by then it has failed, however busy the machine is.
constexpr std::chrono::seconds kPatience{60};

/// Holds a stream at a host function until it is released. A test that fails while it holds does not hang: it opens
/// by itself after kPatience. The stream may still be in the function when the test has ended, so both own the flag.
class Latch {
  public:
    void hold(rt::Stream_t stream) {
        auto flag = std::make_unique<Flag>(open_);
        REQUIRE(rt::LaunchHostFunc(stream, &Latch::wait, flag.get()) == Success);
        (void)flag.release();
    }
    void release() { *open_ = true; }
    ~Latch() { release(); }

  private:
    using Flag = std::shared_ptr<std::atomic<bool>>;
    static void wait(void* argument) {
        const std::unique_ptr<Flag> flag(static_cast<Flag*>(argument));
        const auto give_up = std::chrono::steady_clock::now() + kPatience;
        while (!**flag && std::chrono::steady_clock::now() < give_up) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    }
    Flag open_ = std::make_shared<std::atomic<bool>>(false);
};
