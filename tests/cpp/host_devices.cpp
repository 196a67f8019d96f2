// SPDX-License-Identifier: MIT
// tests/cpp/host_devices.cpp: identity, attributes, limits and peers of the CPU runtime's devices.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "host_support.hpp"

using namespace host_tests;

namespace {

int attribute(int number) {
    int value = 77;
    HOST_OK(pmhDeviceGetAttribute(&value, number, 0));
    return value;
}

std::string environment(const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
}

}  // namespace

TEST_CASE("host devices: each has an identity") {
    int count = 0;
    HOST_OK(pmhGetDeviceCount(&count));
    REQUIRE(count >= 2);
    std::set<std::string> uuids, pci_ids;
    for (int device = 0; device < count; ++device) {
        pmhDeviceProp properties;
        HOST_OK(pmhGetDeviceProperties(&properties, device));
        CHECK(properties.name == std::string("portamem host device"));
        CHECK(properties.archName == std::string("host"));
        CHECK(properties.totalGlobalMem > 0);
        unsigned char uuid[16], again[16];
        HOST_OK(pmhDeviceGetUuid(uuid, device));
        HOST_OK(pmhDeviceGetUuid(again, device));
        CHECK(std::equal(uuid, uuid + 16, again));
        uuids.emplace(reinterpret_cast<char*>(uuid), 16);
        char pci[16];
        HOST_OK(pmhDeviceGetPCIBusId(pci, 13, device));
        pci_ids.insert(pci);
        CHECK(pmhDeviceGetPCIBusId(pci, 12, device) == pmhErrorInvalidValue);
    }
    CHECK(uuids.size() == static_cast<std::size_t>(count));
    CHECK(pci_ids.size() == static_cast<std::size_t>(count));
    CHECK(pci_ids.count("ffff:00:01.0") == 1);
}

TEST_CASE("host devices: the model is told by attributes") {
    const std::string model = environment("PORTAMEM_HOST_MODEL");
    const bool apu = model == "apu", coherent = model == "coherent";
    const bool open = environment("PORTAMEM_HOST_OPEN") == "1";
    CHECK(attribute(pmhDevAttrIntegrated) == apu);
    CHECK(attribute(pmhDevAttrPageableMemoryAccess) == (apu || coherent));
    CHECK(attribute(pmhDevAttrPageableMemoryAccessUsesHostPageTables) == (apu || coherent));
    CHECK(attribute(pmhDevAttrDirectDeviceMemAccessFromHost) == (apu || open));
    CHECK(attribute(pmhDevAttrDirectManagedMemAccessFromHost) == coherent);
    CHECK(attribute(pmhDevAttrManagedMemory) == 1);
    CHECK(attribute(pmhDevAttrConcurrentManagedAccess) == 1);
    CHECK(attribute(pmhDevAttrMemoryPoolsSupported) == 1);
    CHECK(attribute(pmhDevAttrStreamPrioritiesSupported) == 0);
    CHECK(attribute(pmhDevAttrHostNumaId) == -1);
    int value = 0;
    CHECK(pmhDeviceGetAttribute(&value, 9999, 0) == pmhErrorInvalidValue);
    CHECK(pmhDeviceGetAttribute(&value, pmhDevAttrWarpSize, 9) == pmhErrorInvalidDevice);
}

TEST_CASE("host devices: memory that the CPU may touch") {
    if (!has(pmhDevAttrDirectDeviceMemAccessFromHost)) return;
    DeviceMemory device(KiB);
    const Bytes bytes = pattern(KiB, 5);
    put(device, bytes);
    CHECK(std::equal(bytes.begin(), bytes.end(), static_cast<unsigned char*>(device.ptr)));
}

TEST_CASE("host devices: the current device is the thread's own") {
    int device = 9;
    HOST_OK(pmhSetDevice(1));
    std::thread([] {
        int other = 9;
        HOST_OK(pmhGetDevice(&other));
        CHECK(other == 0);
    }).join();
    HOST_OK(pmhGetDevice(&device));
    CHECK(device == 1);
    CHECK(pmhSetDevice(64) == pmhErrorInvalidDevice);
    CHECK(pmhSetDevice(-1) == pmhErrorInvalidDevice);
    HOST_OK(pmhGetDevice(&device));
    CHECK(device == 1);
    HOST_OK(pmhSetDevice(0));
}

TEST_CASE("host devices: memory is counted on its device") {
    std::size_t free = 0, total = 0, after = 0;
    HOST_OK(pmhMemGetInfo(&free, &total));
    CHECK(free <= total);
    HOST_OK(pmhSetDevice(1));
    void* ptr = nullptr;
    HOST_OK(pmhMalloc(&ptr, MiB));
    std::size_t other_free = 0;
    HOST_OK(pmhMemGetInfo(&other_free, &total));
    CHECK(other_free == total - MiB);
    HOST_OK(pmhSetDevice(0));
    HOST_OK(pmhMemGetInfo(&after, &total));
    CHECK(after == free);
    HOST_OK(pmhFree(ptr));
}

TEST_CASE("host devices: limits") {
    std::size_t value = 0;
    HOST_OK(pmhDeviceGetLimit(&value, pmhLimitStackSize));
    CHECK(value == 1024);
    HOST_OK(pmhDeviceGetLimit(&value, pmhLimitPrintfFifoSize));
    CHECK(value == MiB);
    HOST_OK(pmhDeviceGetLimit(&value, pmhLimitMallocHeapSize));
    CHECK(value == 8 * MiB);
    HOST_OK(pmhDeviceSetLimit(pmhLimitMallocHeapSize, 32 * MiB));
    HOST_OK(pmhDeviceGetLimit(&value, pmhLimitMallocHeapSize));
    CHECK(value == 32 * MiB);
    HOST_OK(pmhSetDevice(1));
    HOST_OK(pmhDeviceGetLimit(&value, pmhLimitMallocHeapSize));
    CHECK(value == 8 * MiB);
    HOST_OK(pmhSetDevice(0));
    HOST_OK(pmhDeviceSetLimit(pmhLimitMallocHeapSize, 8 * MiB));
    CHECK(pmhDeviceSetLimit(pmhLimitMallocHeapSize, SIZE_MAX) == pmhErrorInvalidValue);
    CHECK(pmhDeviceGetLimit(&value, 5) == pmhErrorUnsupportedLimit);
    CHECK(pmhDeviceSetLimit(-1, 1) == pmhErrorUnsupportedLimit);
}

TEST_CASE("host devices: peers") {
    int can = 9;
    HOST_OK(pmhDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can == 1);
    HOST_OK(pmhDeviceCanAccessPeer(&can, 1, 1));
    CHECK(can == 0);
    CHECK(pmhDeviceCanAccessPeer(&can, 0, 64) == pmhErrorInvalidDevice);
    CHECK(pmhDeviceDisablePeerAccess(1) == pmhErrorPeerAccessNotEnabled);
    HOST_OK(pmhDeviceEnablePeerAccess(1, 0));
    CHECK(pmhDeviceEnablePeerAccess(1, 0) == pmhErrorPeerAccessAlreadyEnabled);
    HOST_OK(pmhDeviceDisablePeerAccess(1));
    CHECK(pmhDeviceEnablePeerAccess(0, 0) == pmhErrorPeerAccessUnsupported);
    CHECK(pmhDeviceEnablePeerAccess(64, 0) == pmhErrorInvalidDevice);
    CHECK(pmhDeviceDisablePeerAccess(64) == pmhErrorInvalidDevice);
    int least = 9, greatest = 9;
    HOST_OK(pmhDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(least == 0);
    CHECK(greatest == 0);
}
