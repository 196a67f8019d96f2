// SPDX-License-Identifier: MIT
// tests/cpp/host_managed.cpp: managed memory of the CPU runtime: what was asked for its pages.
#include <sys/mman.h>

#include <cstring>

#include "host_child.hpp"

using namespace host_tests;

namespace {

constexpr std::size_t size = 64 * KiB, half = size / 2;
constexpr pmhMemLocation device0{pmhMemLocationTypeDevice, 0}, device1{pmhMemLocationTypeDevice, 1};
constexpr pmhMemLocation host{pmhMemLocationTypeHost, 0};

int ask(int attribute, const void* ptr, std::size_t bytes) {
    int value = 77;
    HOST_OK(pmhMemRangeGetAttribute(&value, sizeof value, attribute, ptr, bytes));
    return value;
}

std::vector<int> accessors(const void* ptr, std::size_t bytes) {
    std::vector<int> devices(3, 77);
    HOST_OK(pmhMemRangeGetAttribute(devices.data(), devices.size() * sizeof(int), pmhMemRangeAttributeAccessedBy, ptr,
                                    bytes));
    return devices;
}

}  // namespace

TEST_CASE("host managed: the CPU and the runtime see the same bytes") {
    ManagedMemory managed(size);
    const Bytes bytes = pattern(size, 1);
    std::memcpy(managed, bytes.data(), size);
    DeviceMemory device(size);
    HOST_OK(pmhMemcpy(device, managed, size, pmhMemcpyDefault));
    HOST_OK(pmhMemset(managed, 0, size));
    HOST_OK(pmhMemcpy(managed, device, size, pmhMemcpyDefault));
    CHECK(std::memcmp(managed, bytes.data(), size) == 0);
}

TEST_CASE("host managed: fresh memory has no advice") {
    ManagedMemory managed(size);
    CHECK(ask(pmhMemRangeAttributeReadMostly, managed, size) == 0);
    CHECK(ask(pmhMemRangeAttributePreferredLocation, managed, size) == pmhInvalidDeviceId);
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, managed, size) == pmhInvalidDeviceId);
    CHECK(accessors(managed, size) == std::vector<int>(3, pmhInvalidDeviceId));
}

TEST_CASE("host managed: prefetch is kept for each range") {
    ManagedMemory managed(size);
    HOST_OK(pmhMemPrefetchAsync(managed, half, device1, 0, nullptr));
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, managed, half) == 1);
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, managed, size) == pmhInvalidDeviceId);
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, managed.at(half), half) == pmhInvalidDeviceId);
    HOST_OK(pmhMemPrefetchAsync(managed.at(half), half, host, 0, nullptr));
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, managed.at(half), half) == pmhCpuDeviceId);
    HOST_OK(pmhMemPrefetchAsync(managed, size, device0, 0, nullptr));
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, managed, size) == 0);
    HOST_OK(pmhMemPrefetchAsync(managed, size, {pmhMemLocationTypeHostNumaCurrent, 0}, 0, nullptr));
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, managed.at(1), 1) == pmhCpuDeviceId);
}

TEST_CASE("host managed: advice reaches whole pages, and is undone") {
    ManagedMemory managed(size);
    HOST_OK(pmhMemAdvise(managed, 100, pmhMemAdviseSetReadMostly, device0));
    CHECK(ask(pmhMemRangeAttributeReadMostly, managed, 4096) == 1);
    CHECK(ask(pmhMemRangeAttributeReadMostly, managed, 4097) == 0);
    HOST_OK(pmhMemAdvise(managed, size, pmhMemAdviseUnsetReadMostly, {}));
    CHECK(ask(pmhMemRangeAttributeReadMostly, managed, 4096) == 0);

    HOST_OK(pmhMemAdvise(managed, size, pmhMemAdviseSetPreferredLocation, host));
    CHECK(ask(pmhMemRangeAttributePreferredLocation, managed, size) == pmhCpuDeviceId);
    HOST_OK(pmhMemAdvise(managed, half, pmhMemAdviseSetPreferredLocation, device1));
    CHECK(ask(pmhMemRangeAttributePreferredLocation, managed, half) == 1);
    CHECK(ask(pmhMemRangeAttributePreferredLocation, managed, size) == pmhInvalidDeviceId);
    HOST_OK(pmhMemAdvise(managed, size, pmhMemAdviseUnsetPreferredLocation, {}));
    CHECK(ask(pmhMemRangeAttributePreferredLocation, managed, half) == pmhInvalidDeviceId);

    HOST_OK(pmhMemAdvise(managed, size, pmhMemAdviseSetAccessedBy, host));
    HOST_OK(pmhMemAdvise(managed, half, pmhMemAdviseSetAccessedBy, device1));
    CHECK(accessors(managed, half) == std::vector<int>{pmhCpuDeviceId, 1, pmhInvalidDeviceId});
    CHECK(accessors(managed, size) == std::vector<int>{pmhCpuDeviceId, pmhInvalidDeviceId, pmhInvalidDeviceId});
    HOST_OK(pmhMemAdvise(managed, size, pmhMemAdviseUnsetAccessedBy, host));
    CHECK(accessors(managed, half) == std::vector<int>{1, pmhInvalidDeviceId, pmhInvalidDeviceId});
}

TEST_CASE("host managed: refusals") {
    ManagedMemory managed(size);
    DeviceMemory device(size);
    Bytes bytes(size);
    const bool reaches_pageable = has(pmhDevAttrPageableMemoryAccess);
    for (void* ptr : {device.ptr, static_cast<void*>(bytes.data())}) {
        int value = 0;
        CHECK(pmhStreamAttachMemAsync(nullptr, ptr, 0, pmhMemAttachGlobal) == pmhErrorInvalidValue);
        if (ptr == bytes.data() && reaches_pageable) continue;
        CHECK(pmhMemPrefetchAsync(ptr, KiB, device0, 0, nullptr) == pmhErrorInvalidValue);
        CHECK(pmhMemAdvise(ptr, KiB, pmhMemAdviseSetReadMostly, device0) == pmhErrorInvalidValue);
        CHECK(pmhMemRangeGetAttribute(&value, sizeof value, 1, ptr, KiB) == pmhErrorInvalidValue);
    }
    CHECK(pmhMemPrefetchAsync(managed, 0, device0, 0, nullptr) == pmhErrorInvalidValue);
    CHECK(pmhMemPrefetchAsync(managed, size + 1, device0, 0, nullptr) == pmhErrorInvalidValue);
    CHECK(detail() == "65537 bytes at offset 0 leave the allocation of 65536 bytes");
    CHECK(pmhMemPrefetchAsync(managed, KiB, {pmhMemLocationTypeDevice, 9}, 0, nullptr) == pmhErrorInvalidDevice);
    CHECK(pmhMemPrefetchAsync(managed, KiB, {pmhMemLocationTypeDevice, -1}, 0, nullptr) == pmhErrorInvalidDevice);
    CHECK(pmhMemPrefetchAsync(managed, KiB, {pmhMemLocationTypeNone, 0}, 0, nullptr) == pmhErrorInvalidValue);
    CHECK(pmhMemPrefetchAsync(managed, KiB, device0, 1, nullptr) == pmhErrorInvalidValue);
    CHECK(pmhMemAdvise(managed, KiB, 50, device0) == pmhErrorInvalidValue);
    CHECK(pmhMemAdvise(managed, KiB, pmhMemAdviseSetAccessedBy, {pmhMemLocationTypeDevice, 9}) ==
          pmhErrorInvalidDevice);
    CHECK(pmhMemAdvise(managed, KiB, pmhMemAdviseSetReadMostly, {pmhMemLocationTypeDevice, 9}) == pmhSuccess);
    long wide = 0;
    CHECK(pmhMemRangeGetAttribute(&wide, sizeof wide, 1, managed, KiB) == pmhErrorInvalidValue);
    CHECK(pmhMemRangeGetAttribute(&wide, 3, pmhMemRangeAttributeAccessedBy, managed, KiB) == pmhErrorInvalidValue);
    void* ptr = nullptr;
    CHECK(pmhMallocManaged(&ptr, KiB, pmhMemAttachSingle) == pmhErrorInvalidValue);
    CHECK(pmhMallocManaged(&ptr, KiB, 0) == pmhErrorInvalidValue);
}

TEST_CASE("host child: pageable memory is advised" * doctest::skip()) {
    void* own = mmap(nullptr, 3 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(own != MAP_FAILED);
    char* const ptr = static_cast<char*>(own);
    CHECK(ask(pmhMemRangeAttributeReadMostly, ptr, size) == 0);
    CHECK(ask(pmhMemRangeAttributePreferredLocation, ptr, size) == pmhInvalidDeviceId);
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, ptr, size) == pmhInvalidDeviceId);
    CHECK(accessors(ptr, size) == std::vector<int>(3, pmhInvalidDeviceId));
    HOST_OK(pmhMemPrefetchAsync(ptr + 1, half, device1, 0, nullptr));
    HOST_OK(pmhMemPrefetchAsync(ptr + size, size, host, 0, nullptr));
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, ptr, half) == 1);
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, ptr, size) == pmhInvalidDeviceId);
    CHECK(ask(pmhMemRangeAttributeLastPrefetchLocation, ptr + size, size) == pmhCpuDeviceId);
    HOST_OK(pmhMemAdvise(ptr, size, pmhMemAdviseSetPreferredLocation, device0));
    HOST_OK(pmhMemAdvise(ptr, 2 * size, pmhMemAdviseSetReadMostly, device0));
    HOST_OK(pmhMemAdvise(ptr, size, pmhMemAdviseSetAccessedBy, device1));
    CHECK(ask(pmhMemRangeAttributePreferredLocation, ptr, size) == 0);
    CHECK(ask(pmhMemRangeAttributeReadMostly, ptr, 2 * size) == 1);
    CHECK(ask(pmhMemRangeAttributeReadMostly, ptr, 3 * size) == 0);
    CHECK(accessors(ptr, size) == std::vector<int>{1, pmhInvalidDeviceId, pmhInvalidDeviceId});
    HOST_OK(pmhMemAdvise(ptr, size, pmhMemAdviseUnsetPreferredLocation, device0));
    HOST_OK(pmhMemAdvise(ptr, 3 * size, pmhMemAdviseUnsetReadMostly, device0));
    HOST_OK(pmhMemAdvise(ptr, size, pmhMemAdviseUnsetAccessedBy, device1));
    CHECK(ask(pmhMemRangeAttributePreferredLocation, ptr, size) == pmhInvalidDeviceId);
    CHECK(ask(pmhMemRangeAttributeReadMostly, ptr, size) == 0);
    CHECK(accessors(ptr, size) == std::vector<int>(3, pmhInvalidDeviceId));
    CHECK(pmhMemPrefetchAsync(ptr, size, {pmhMemLocationTypeDevice, 9}, 0, nullptr) == pmhErrorInvalidDevice);
    CHECK(pmhMemPrefetchAsync(ptr, 0, device0, 0, nullptr) == pmhErrorInvalidValue);
    CHECK(pmhMemPrefetchAsync(ptr, SIZE_MAX, device0, 0, nullptr) == pmhErrorInvalidValue);
    CHECK(pmhMemAdvise(ptr, size, 50, device0) == pmhErrorInvalidValue);

    // Memory that the runtime gave keeps its own rules, and what is not there is no memory.
    DeviceMemory device(size);
    PinnedMemory pinned(size);
    for (void* other : {device.ptr, pinned.ptr, static_cast<void*>(nullptr), reinterpret_cast<void*>(8)}) {
        CHECK(pmhMemPrefetchAsync(other, KiB, device0, 0, nullptr) == pmhErrorInvalidValue);
        CHECK(pmhMemAdvise(other, KiB, pmhMemAdviseSetReadMostly, device0) == pmhErrorInvalidValue);
    }
    REQUIRE(munmap(ptr + 2 * size, size) == 0);
    CHECK(pmhMemAdvise(ptr, 3 * size, pmhMemAdviseSetReadMostly, device0) == pmhErrorInvalidValue);
    HOST_OK(pmhHostRegister(ptr + size, size, 0));
    CHECK(pmhMemAdvise(ptr, 2 * size, pmhMemAdviseSetReadMostly, device0) == pmhErrorInvalidValue);
    HOST_OK(pmhHostUnregister(ptr + size));
    REQUIRE(munmap(ptr, 2 * size) == 0);
}

TEST_CASE("host managed: pageable memory is advised in the models that reach it") {
    for (const char* model : {"apu", "coherent"})
        CHECK(succeeded(run_child("pageable memory is advised", {{"PORTAMEM_HOST_MODEL", model}})));
}

TEST_CASE("host managed: attachment") {
    Stream stream;
    ManagedMemory managed(size);
    CHECK(pmhStreamAttachMemAsync(stream, managed, 0, pmhMemAttachSingle) == pmhSuccess);
    CHECK(pmhStreamAttachMemAsync(stream, managed, size, pmhMemAttachHost) == pmhSuccess);
    CHECK(pmhStreamAttachMemAsync(nullptr, managed, 0, pmhMemAttachGlobal) == pmhSuccess);
    CHECK(pmhStreamAttachMemAsync(nullptr, managed, 0, pmhMemAttachSingle) == pmhErrorInvalidValue);
    CHECK(pmhStreamAttachMemAsync(stream, managed, 64, pmhMemAttachGlobal) == pmhErrorInvalidValue);
    CHECK(pmhStreamAttachMemAsync(stream, managed.at(4096), 0, pmhMemAttachGlobal) == pmhErrorInvalidValue);
    CHECK(pmhStreamAttachMemAsync(stream, managed, 0, 3) == pmhErrorInvalidValue);
}
