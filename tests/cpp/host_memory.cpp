// SPDX-License-Identifier: MIT
// tests/cpp/host_memory.cpp: allocation, capacity, registration and the pointer query of the CPU runtime.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "host_support.hpp"

using namespace host_tests;

namespace {

bool aligned(const void* ptr, std::size_t alignment) { return reinterpret_cast<std::uintptr_t>(ptr) % alignment == 0; }

}  // namespace

TEST_CASE("host memory: alignment and pitch") {
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, 5 * KiB, 3 * MiB}) {
        DeviceMemory device(size);
        PinnedMemory pinned(size);
        void* pooled = nullptr;
        HOST_OK(pmhMallocAsync(&pooled, size, nullptr));
        CHECK(aligned(device, 256));
        CHECK(aligned(pooled, 256));
        CHECK(aligned(pinned, 4096));
        HOST_OK(pmhFreeAsync(pooled, nullptr));
    }
    void* ptr = nullptr;
    std::size_t pitch = 0;
    HOST_OK(pmhMallocPitch(&ptr, &pitch, 513, 7));
    CHECK(pitch == 1024);
    CHECK(attributes_of(ptr).size == 7 * 1024);
    HOST_OK(pmhFree(ptr));
    HOST_OK(pmhExtMallocWithFlags(&ptr, KiB, pmhDeviceMallocFinegrained));
    CHECK(attributes_of(ptr).type == pmhMemoryTypeDevice);
    HOST_OK(pmhFree(ptr));
    CHECK(pmhExtMallocWithFlags(&ptr, KiB, 3) == pmhErrorInvalidValue);
    CHECK(pmhHostMalloc(&ptr, KiB, 64) == pmhErrorInvalidValue);
}

TEST_CASE("host memory: the capacity is a limit, and all works again after a free") {
    const Knobs knobs;
    HOST_OK(pmhStreamSynchronize(nullptr));
    HOST_OK(pmhKnobSetCapacity(0, 8 * MiB));
    const std::size_t before = free_bytes();
    CHECK(before == 8 * MiB);
    void *first = nullptr, *second = nullptr;
    HOST_OK(pmhMalloc(&first, 5 * MiB));
    CHECK(free_bytes() == 3 * MiB);
    CHECK(pmhMalloc(&second, 4 * MiB) == pmhErrorOutOfMemory);
    CHECK(detail() == "4194304 bytes asked for; device 0 has 5242880 of 8388608 reserved");
    CHECK(pmhMallocAsync(&second, 4 * MiB, nullptr) == pmhErrorOutOfMemory);
    CHECK(pmhMalloc(&second, SIZE_MAX) == pmhErrorOutOfMemory);
    CHECK(pmhMallocAsync(&second, SIZE_MAX, nullptr) == pmhErrorOutOfMemory);
    CHECK(free_bytes() == 3 * MiB);
    HOST_OK(pmhMalloc(&second, 3 * MiB));
    CHECK(free_bytes() == 0);
    HOST_OK(pmhFree(first));
    HOST_OK(pmhFree(second));
    CHECK(free_bytes() == before);
    HOST_OK(pmhMalloc(&first, 8 * MiB));
    put(first, pattern(8 * MiB, 1));
    HOST_OK(pmhFree(first));
}

TEST_CASE("host memory: idle memory of pools makes room for a plain allocation") {
    const Knobs knobs;
    HOST_OK(pmhKnobSetCapacity(0, 8 * MiB));
    Pool pool;
    pool.set(pmhMemPoolAttrReleaseThreshold, UINT64_MAX);
    void* pooled = pool.allocate(6 * MiB, nullptr);
    void* plain = nullptr;
    CHECK(pmhMalloc(&plain, 4 * MiB) == pmhErrorOutOfMemory);
    HOST_OK(pmhFreeAsync(pooled, nullptr));
    CHECK(pool.reserved() == 6 * MiB);
    HOST_OK(pmhMalloc(&plain, 4 * MiB));
    CHECK(pool.reserved() == 0);
    HOST_OK(pmhFree(plain));
}

TEST_CASE("host memory: a smaller capacity leaves what there is") {
    const Knobs knobs;
    DeviceMemory device(4 * MiB);
    HOST_OK(pmhKnobSetCapacity(0, 1 * MiB));
    CHECK(free_bytes() == 0);
    put(device, pattern(4 * MiB, 2));
    void* ptr = nullptr;
    CHECK(pmhMalloc(&ptr, 1) == pmhErrorOutOfMemory);
    CHECK(pmhKnobSetCapacity(7, MiB) == pmhErrorInvalidDevice);
}

TEST_CASE("host memory: what a pointer is") {
    const bool open = has(pmhDevAttrDirectDeviceMemAccessFromHost);
    DeviceMemory device(1000);
    PinnedMemory pinned(1000);
    ManagedMemory managed(1000);
    Bytes bytes(1000);
    void* pooled = nullptr;
    HOST_OK(pmhMallocAsync(&pooled, 1000, nullptr));
    for (void* base : {device.ptr, pooled}) {
        char* inside = static_cast<char*>(base) + 999;
        const auto found = attributes_of(inside);
        CHECK(found.type == pmhMemoryTypeDevice);
        CHECK(found.device == 0);
        CHECK(found.base == base);
        CHECK(found.size == 1000);
        CHECK(found.devicePointer == inside);
        CHECK(found.hostPointer == (open ? inside : nullptr));
        CHECK(found.flags == 0);
    }
    const auto of_pinned = attributes_of(pinned.bytes() + 1);
    CHECK(of_pinned.type == pmhMemoryTypeHost);
    CHECK(of_pinned.base == pinned.ptr);
    CHECK(of_pinned.hostPointer == pinned.bytes() + 1);
    CHECK(of_pinned.devicePointer == pinned.bytes() + 1);
    const auto of_managed = attributes_of(managed);
    CHECK(of_managed.type == pmhMemoryTypeManaged);
    CHECK(of_managed.hostPointer == managed.ptr);
    CHECK(of_managed.devicePointer == managed.ptr);

    const auto of_pageable = attributes_of(bytes.data());
    CHECK(of_pageable.type == pmhMemoryTypeUnregistered);
    CHECK(of_pageable.device == pmhInvalidDeviceId);
    CHECK(of_pageable.base == nullptr);
    CHECK(of_pageable.hostPointer == bytes.data());
    CHECK((of_pageable.devicePointer != nullptr) == has(pmhDevAttrPageableMemoryAccess));
    CHECK(attributes_of(nullptr).type == pmhMemoryTypeUnregistered);

    HOST_OK(pmhFreeAsync(pooled, nullptr));
    CHECK(attributes_of(pooled).type == pmhMemoryTypeUnregistered);
    HOST_OK(pmhSetDevice(1));
    {
        DeviceMemory other(16);
        CHECK(attributes_of(other).device == 1);
    }
    HOST_OK(pmhSetDevice(0));
}

TEST_CASE("host memory: flags and addresses of pinned memory") {
    void* ptr = nullptr;
    HOST_OK(pmhHostMalloc(&ptr, KiB, pmhHostMallocPortable | pmhHostMallocWriteCombined));
    unsigned flags = 0;
    HOST_OK(pmhHostGetFlags(&flags, static_cast<char*>(ptr) + 5));
    CHECK(flags == (pmhHostMallocPortable | pmhHostMallocWriteCombined | pmhHostMallocMapped));
    CHECK(attributes_of(ptr).flags == (pmhHostMallocPortable | pmhHostMallocWriteCombined));
    void* seen = nullptr;
    HOST_OK(pmhHostGetDevicePointer(&seen, static_cast<char*>(ptr) + 5, 0));
    CHECK(seen == static_cast<char*>(ptr) + 5);
    HOST_OK(pmhHostFree(ptr));
    CHECK(pmhHostGetFlags(&flags, ptr) == pmhErrorInvalidValue);
    CHECK(pmhHostGetDevicePointer(&seen, ptr, 0) == pmhErrorInvalidValue);
    DeviceMemory device(KiB);
    ManagedMemory managed(KiB);
    CHECK(pmhHostGetDevicePointer(&seen, device, 0) == pmhErrorInvalidValue);
    CHECK(pmhHostGetDevicePointer(&seen, managed, 0) == pmhErrorInvalidValue);
    CHECK(pmhHostGetFlags(&flags, device) == pmhErrorInvalidValue);
}

TEST_CASE("host memory: registration") {
    Bytes bytes(8 * KiB);
    unsigned char* middle = bytes.data() + 2 * KiB;
    HOST_OK(pmhHostRegister(middle, 4 * KiB, pmhHostRegisterPortable | pmhHostRegisterReadOnly));
    const auto found = attributes_of(middle + 100);
    CHECK(found.type == pmhMemoryTypeHost);
    CHECK(found.base == middle);
    CHECK(found.size == 4 * KiB);
    CHECK(found.flags == (pmhHostRegisterPortable | pmhHostRegisterReadOnly));
    void* seen = nullptr;
    HOST_OK(pmhHostGetDevicePointer(&seen, middle, 0));
    CHECK(seen == middle);

    CHECK(pmhHostRegister(middle, 4 * KiB, 0) == pmhErrorHostMemoryAlreadyRegistered);
    CHECK(pmhHostRegister(middle + 1, 1, 0) == pmhErrorHostMemoryAlreadyRegistered);
    CHECK(pmhHostRegister(bytes.data(), 2 * KiB + 1, 0) == pmhErrorHostMemoryAlreadyRegistered);
    CHECK(pmhHostRegister(bytes.data(), 8 * KiB, 0) == pmhErrorHostMemoryAlreadyRegistered);
    HOST_OK(pmhHostRegister(bytes.data(), 2 * KiB, 0));
    HOST_OK(pmhHostUnregister(bytes.data()));

    CHECK(pmhHostUnregister(middle + 1) == pmhErrorInvalidValue);
    HOST_OK(pmhHostUnregister(middle));
    CHECK(pmhHostUnregister(middle) == pmhErrorHostMemoryNotRegistered);
    CHECK(attributes_of(middle).type == pmhMemoryTypeUnregistered);

    CHECK(pmhHostUnregister(nullptr) == pmhErrorInvalidValue);
    CHECK(pmhHostRegister(nullptr, KiB, 0) == pmhErrorInvalidValue);
    CHECK(pmhHostRegister(bytes.data(), 0, 0) == pmhErrorInvalidValue);
    CHECK(pmhHostRegister(bytes.data(), KiB, 64) == pmhErrorInvalidValue);
    CHECK(pmhHostRegister(bytes.data(), SIZE_MAX, 0) == pmhErrorInvalidValue);
    PinnedMemory pinned(KiB);
    DeviceMemory device(KiB);
    CHECK(pmhHostRegister(pinned, KiB, 0) == pmhErrorInvalidValue);
    CHECK(pmhHostRegister(device, KiB, 0) == pmhErrorInvalidValue);
    CHECK(pmhHostUnregister(pinned) == pmhErrorInvalidValue);
}

TEST_CASE("host memory: what is not there is not registered") {
    constexpr std::size_t page = 4 * KiB;
    const auto map = [](std::size_t size, int access) {
        void* ptr = mmap(nullptr, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(ptr != MAP_FAILED);
        return static_cast<char*>(ptr);
    };
    const auto is_refused = [](void* ptr, std::size_t size) {
        const bool refused = pmhHostRegister(ptr, size, 0) == pmhErrorInvalidValue;
        return refused && pmhHostUnregister(ptr) == pmhErrorHostMemoryNotRegistered;
    };
    char* const memory = map(8 * page, PROT_READ | PROT_WRITE);
    REQUIRE(munmap(memory + 2 * page, page) == 0);
    REQUIRE(mprotect(memory + 5 * page, page, PROT_NONE) == 0);
    REQUIRE(mprotect(memory + 7 * page, page, PROT_READ) == 0);
    CHECK(is_refused(reinterpret_cast<void*>(8), 8));
    CHECK(is_refused(reinterpret_cast<void*>(UINTPTR_MAX - 15), 8));
    CHECK(is_refused(memory + 2 * page, page));
    CHECK(detail().find("not registered") != std::string::npos);
    CHECK(is_refused(memory + 2 * page + 100, 8));
    CHECK(is_refused(memory + page, page + 1));       // its last byte
    CHECK(is_refused(memory + 3 * page - 1, 2));      // its first byte
    CHECK(is_refused(memory, 8 * page));              // its middle
    CHECK(is_refused(memory + 4 * page, 2 * page));   // pages that may not be read
    CHECK(is_refused(memory, std::size_t{1} << 45));  // far beyond
    for (const auto& [first, count] : {std::pair{0, 2}, {3, 2}, {6, 2}}) {
        char* const ptr = memory + static_cast<std::size_t>(first) * page;
        HOST_OK(pmhHostRegister(ptr + 1, static_cast<std::size_t>(count) * page - 2, 0));
        HOST_OK(pmhHostUnregister(ptr + 1));
    }
    REQUIRE(munmap(memory, 2 * page) == 0);
    CHECK(is_refused(memory, page));
    CHECK(pmhHostRegister(memory, page, 0) == pmhErrorInvalidValue);
    CHECK(detail().find("not all of the 4096 bytes") != std::string::npos);
    REQUIRE(munmap(memory + 3 * page, 5 * page) == 0);
}

TEST_CASE("host memory: no more is page-locked than the machine has") {
    const auto machine =
        static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* ptr = nullptr;
    for (const std::size_t size : {machine + 1, 10 * machine, SIZE_MAX}) {
        CHECK(pmhHostMalloc(&ptr, size, 0) == pmhErrorOutOfMemory);
    }
    CHECK(pmhHostMalloc(&ptr, 10 * machine, 0) == pmhErrorOutOfMemory);
    CHECK(detail().find("are page-locked, of") != std::string::npos);

    // The test finds by halving how much there can be; untouched, it takes no memory.
    std::size_t most = 0;
    for (std::size_t step = std::size_t{1} << 46; step >= MiB; step /= 2) {
        if (pmhHostMalloc(&ptr, most + step, 0) != pmhSuccess) continue;
        HOST_OK(pmhHostFree(ptr));
        most += step;
    }
    REQUIRE(most >= MiB);
    CHECK(most <= machine);
    PinnedMemory much(most / 2);
    CHECK(pmhHostMalloc(&ptr, most - most / 2 + 2 * MiB, 0) == pmhErrorOutOfMemory);
    void* const own = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(own != MAP_FAILED);
    CHECK(pmhHostRegister(own, most, 0) == pmhErrorOutOfMemory);
    HOST_OK(pmhHostRegister(own, most / 4, 0));
    CHECK(pmhHostMalloc(&ptr, most / 2, 0) == pmhErrorOutOfMemory);
    HOST_OK(pmhHostUnregister(own));
    HOST_OK(pmhHostMalloc(&ptr, most / 2 - MiB, 0));
    HOST_OK(pmhHostFree(ptr));
    REQUIRE(munmap(own, most) == 0);
}

TEST_CASE("host memory: unregistering waits for the copies that use the memory") {
    Stream stream;
    DeviceMemory device(MiB);
    auto bytes = std::make_unique<Bytes>(pattern(MiB, 3));
    HOST_OK(pmhHostRegister(bytes->data(), MiB, 0));
    Latch latch;
    latch.hold(stream);
    HOST_OK(pmhMemcpyAsync(device, bytes->data(), MiB, pmhMemcpyHostToDevice, stream));
    Blocked unregister([&] { return pmhHostUnregister(bytes->data()); });
    CHECK(unregister.still());
    latch.open();
    CHECK(unregister.join() == pmhSuccess);
    bytes.reset();
    CHECK(get(device, MiB) == pattern(MiB, 3));
}
