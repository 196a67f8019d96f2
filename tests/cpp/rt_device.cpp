// SPDX-License-Identifier: MIT
// tests/cpp/rt_device.cpp: devices on a machine that has one: current device, attributes, identity, limits, peers.
#include <cctype>
#include <set>

#include "rt_support.hpp"

namespace {

int current_device() {
    int device = -1;
    REQUIRE(rt::GetDevice(&device) == Success);
    return device;
}

/// The device on which a plain allocation of this thread ends up.
int device_of_allocation() {
    rt::PointerAttributes attributes;
    const DeviceMemory memory(4096);
    REQUIRE(rt::PointerGetAttributes(&attributes, memory.ptr) == Success);
    return attributes.device;
}

}  // namespace

TEST_CASE("rt: the current device is set and got") {
    if (no_device()) return;
    const int before = current_device();
    for (int device = 0; device < device_count(); ++device) {
        CHECK(rt::SetDevice(device) == Success);
        CHECK(current_device() == device);
        CHECK(device_of_allocation() == device);
    }
    CHECK(rt::SetDevice(device_count()) == Error_t::InvalidDevice);
    CHECK(rt::SetDevice(-1) == Error_t::InvalidDevice);
    CHECK(current_device() == device_count() - 1);
    CHECK(rt::SetDevice(before) == Success);
}

TEST_CASE("rt: a failure leaves the last-error slot clean") {
    if (no_device()) return;
    (void)rt::GetLastError();
    CHECK(rt::SetDevice(-1) == Error_t::InvalidDevice);
    CHECK(rt::PeekAtLastError() == Success);
    CHECK(rt::GetLastError() == Success);
}

TEST_CASE("rt: PushDevice and PopDevice on a thread that has not touched a device") {
    if (no_device()) return;
    const int last = device_count() - 1;
    std::thread([last] {
        rt::DeviceState_t saved{};
        const int before = current_device();
        CHECK(rt::PushDevice(last, &saved) == Success);
        CHECK(current_device() == last);
        CHECK(device_of_allocation() == last);
        CHECK(rt::PopDevice(saved) == Success);
        CHECK(current_device() == before);
        CHECK(device_of_allocation() == before);
    }).join();
}

TEST_CASE("rt: PushDevice and PopDevice nest, and refuse a device that is not there") {
    if (no_device()) return;
    const int last = device_count() - 1;
    const int before = current_device();
    rt::DeviceState_t outer{};
    rt::DeviceState_t inner{};
    rt::DeviceState_t refused{};
    CHECK(rt::SetDevice(last) == Success);
    CHECK(rt::PushDevice(0, &outer) == Success);
    CHECK(device_of_allocation() == 0);
    CHECK(rt::PushDevice(last, &inner) == Success);
    CHECK(device_of_allocation() == last);
    CHECK(rt::PushDevice(device_count(), &refused) == Error_t::InvalidDevice);
    CHECK(current_device() == last);
    CHECK(rt::PopDevice(inner) == Success);
    CHECK(current_device() == 0);
    CHECK(rt::PopDevice(outer) == Success);
    CHECK(current_device() == last);
    CHECK(device_of_allocation() == last);
    CHECK(rt::SetDevice(before) == Success);
}

TEST_CASE("rt: an attribute has a value or is not supported") {
    if (no_device()) return;
    for (int device = 0; device < device_count(); ++device) {
        for (int attr = 0; attr <= static_cast<int>(rt::DeviceAttr::MallocHeapKind); ++attr) {
            int value = -12345;
            const Error_t error = rt::DeviceGetAttribute(&value, static_cast<rt::DeviceAttr>(attr), device);
            CAPTURE(attr);
            CHECK((error == Success || error == Error_t::NotSupported));
            CHECK((value == -12345) == (error == Error_t::NotSupported));
        }
    }
    int value = 0;
    CHECK(rt::DeviceGetAttribute(&value, rt::DeviceAttr::MultiProcessorCount, 0) == Success);
    CHECK(value > 0);
    CHECK(rt::DeviceGetAttribute(&value, rt::DeviceAttr::WarpSize, 0) == Success);
    CHECK(value > 0);
    for (const auto boolean : {rt::DeviceAttr::Integrated, rt::DeviceAttr::ManagedMemory,
                               rt::DeviceAttr::MemoryPoolsSupported, rt::DeviceAttr::PageableMemoryAccess}) {
        REQUIRE(rt::DeviceGetAttribute(&value, boolean, 0) == Success);
        CHECK((value == 0 || value == 1));
    }
    CHECK(rt::DeviceGetAttribute(&value, rt::DeviceAttr::WarpSize, device_count()) == Error_t::InvalidDevice);
    CHECK(rt::DeviceGetAttribute(&value, rt::DeviceAttr::WarpSize, -1) == Error_t::InvalidDevice);
}

TEST_CASE("rt: attributes without a number of the vendor's are of a device too") {
    if (no_device()) return;
    for (const auto attr : {rt::DeviceAttr::ManagedMemoryMigrates, rt::DeviceAttr::HostMallocCoherent,
                            rt::DeviceAttr::HostMallocNonCoherent, rt::DeviceAttr::MallocHeapKind}) {
        CAPTURE(static_cast<int>(attr));
        int value = -12345;
        CHECK(rt::DeviceGetAttribute(&value, attr, 0) == Success);
        CHECK(value >= 0);
        CHECK(value <= 2);
        CHECK(rt::DeviceGetAttribute(&value, attr, device_count()) == Error_t::InvalidDevice);
        CHECK(rt::DeviceGetAttribute(&value, attr, -1) == Error_t::InvalidDevice);
        CHECK(rt::DeviceGetAttribute(nullptr, attr, 0) == Error_t::InvalidValue);
    }
    if (has(rt::DeviceAttr::ManagedMemoryMigrates)) CHECK(has(rt::DeviceAttr::ConcurrentManagedAccess));
    if (has(rt::DeviceAttr::Integrated)) CHECK_FALSE(has(rt::DeviceAttr::ManagedMemoryMigrates));
}

TEST_CASE("rt: XNACK is what the architecture's name says, and unknown where it says nothing") {
    if (no_device()) return;
    rt::DeviceProperties properties;
    REQUIRE(rt::GetDeviceProperties(&properties, 0) == Success);
    const std::string arch = properties.arch;
    int value = -1;
    const Error_t error = rt::DeviceGetAttribute(&value, rt::DeviceAttr::Xnack, 0);
    if (arch.find(":xnack") == std::string::npos) {
        CHECK(error == Error_t::NotSupported);
    } else {
        CHECK(error == Success);
        CHECK((value != 0) == (arch.find(":xnack+") != std::string::npos));
    }
}

TEST_CASE("rt: the kind of the device heap agrees with whether its limit can be read") {
    if (no_device()) return;
    int kind = -1;
    REQUIRE(rt::DeviceGetAttribute(&kind, rt::DeviceAttr::MallocHeapKind, 0) == Success);
    if (kind != static_cast<int>(rt::MallocHeapKind::Limit)) return;
    std::size_t value = 0;
    CHECK(rt::DeviceGetLimit(&value, rt::Limit::MallocHeapSize) == Success);
    CHECK(value > 0);
}

TEST_CASE("rt: handles of pools are a set of the known ones") {
    if (no_device()) return;
    int types = 0;
    const Error_t error = rt::DeviceGetAttribute(&types, rt::DeviceAttr::MemoryPoolSupportedHandleTypes, 0);
    if (error == Error_t::NotSupported) return;
    REQUIRE(error == Success);
    constexpr unsigned known = rt::MemHandleTypePosixFileDescriptor | rt::MemHandleTypeWin32 |
                               rt::MemHandleTypeWin32Kmt | rt::MemHandleTypeFabric;
    CHECK((static_cast<unsigned>(types) & ~known) == 0);
}

TEST_CASE("rt: properties agree with attributes and memory") {
    if (no_device()) return;
    rt::DeviceProperties properties;
    REQUIRE(rt::GetDeviceProperties(&properties, 0) == Success);
    CHECK(std::string(properties.name) != "");
    CHECK(std::string(properties.arch) != "");
    int value = 0;
    CHECK(rt::DeviceGetAttribute(&value, rt::DeviceAttr::MultiProcessorCount, 0) == Success);
    CHECK(properties.multi_processor_count == value);
    CHECK(rt::DeviceGetAttribute(&value, rt::DeviceAttr::WarpSize, 0) == Success);
    CHECK(properties.warp_size == value);
    std::size_t free = 0;
    std::size_t total = 0;
    CHECK(rt::MemGetInfo(&free, &total) == Success);
    CHECK(free > 0);
    CHECK(free <= total);
    CHECK(properties.total_global_mem >= total / 2);
    CHECK(rt::GetDeviceProperties(&properties, device_count()) == Error_t::InvalidDevice);
}

TEST_CASE("rt: a device is known by its uuid and its place on the bus") {
    if (no_device()) return;
    std::set<std::string> uuids;
    for (int device = 0; device < device_count(); ++device) {
        unsigned char uuid[16] = {};
        CHECK(rt::DeviceGetUuid(uuid, device) == Success);
        CHECK(uuids.insert(std::string(reinterpret_cast<char*>(uuid), sizeof uuid)).second);
        CHECK(uuids.count(std::string(16, '\0')) == 0);
        char bus[16] = {};
        CHECK(rt::DeviceGetPCIBusId(bus, sizeof bus, device) == Success);
        const std::string place = bus;
        REQUIRE(place.size() == 12);
        for (std::size_t i = 0; i < place.size(); ++i) {
            const char separator = i == 4 || i == 7 ? ':' : i == 10 ? '.' : '\0';
            CHECK((separator != '\0' ? place[i] == separator : std::isxdigit(place[i]) != 0));
        }
        CHECK(rt::DeviceGetPCIBusId(bus, 4, device) == Error_t::InvalidValue);
    }
    unsigned char uuid[16] = {};
    CHECK(rt::DeviceGetUuid(uuid, device_count()) == Error_t::InvalidDevice);
}

TEST_CASE("rt: free memory falls by what is allocated") {
    if (no_device()) return;
    const std::size_t nbytes = 64 * MiB;
    bool fell = false;
    // The figures are the whole device's: what another process frees meanwhile hides the fall, but not every time.
    for (int attempt = 0; attempt < 50 && !fell; ++attempt) {
        std::size_t before = 0;
        std::size_t during = 0;
        std::size_t total = 0;
        CHECK(rt::MemGetInfo(&before, &total) == Success);
        if (before < 4 * nbytes) return;
        const DeviceMemory memory(nbytes);
        CHECK(rt::MemGetInfo(&during, &total) == Success);
        fell = before >= during + nbytes;
    }
    CHECK(fell);
}

TEST_CASE("rt: limits") {
    if (no_device()) return;
    std::size_t before = 0;
    const Error_t got = rt::DeviceGetLimit(&before, rt::Limit::MallocHeapSize);
    CHECK((got == Success || got == Error_t::UnsupportedLimit));
    const Error_t set = rt::DeviceSetLimit(rt::Limit::MallocHeapSize, 32 * MiB);
    CHECK((set == Success || set == Error_t::UnsupportedLimit || set == Error_t::NotSupported));
    if (set == Success) {
        std::size_t after = 0;
        CHECK(rt::DeviceGetLimit(&after, rt::Limit::MallocHeapSize) == Success);
        CHECK(after >= 32 * MiB);
        CHECK(rt::DeviceSetLimit(rt::Limit::MallocHeapSize, before) == Success);
    }
    for (const auto limit : {rt::Limit::StackSize, rt::Limit::PrintfFifoSize}) {
        const Error_t other = rt::DeviceGetLimit(&before, limit);
        CHECK((other == Success || other == Error_t::UnsupportedLimit));
    }
}

TEST_CASE("rt: a device is no peer of its own") {
    if (no_device()) return;
    int can_access = 99;
    CHECK(rt::DeviceCanAccessPeer(&can_access, 0, 0) == Success);
    CHECK(can_access == 0);
    CHECK(rt::DeviceCanAccessPeer(&can_access, 0, device_count()) == Error_t::InvalidDevice);
    const Error_t own = rt::DeviceEnablePeerAccess(current_device());
    CHECK((own == Error_t::PeerAccessUnsupported || own == Error_t::InvalidDevice));
    CHECK(rt::DeviceEnablePeerAccess(device_count()) == Error_t::InvalidDevice);
}

TEST_CASE("rt: peer access is enabled and disabled once") {
    if (no_device() || device_count() < 2) return;
    int can_access = 0;
    REQUIRE(rt::DeviceCanAccessPeer(&can_access, 0, 1) == Success);
    if (can_access == 0) return;
    rt::DeviceState_t saved{};
    REQUIRE(rt::PushDevice(0, &saved) == Success);
    CHECK(rt::DeviceEnablePeerAccess(1) == Success);
    CHECK(rt::DeviceEnablePeerAccess(1) == Error_t::PeerAccessAlreadyEnabled);
    CHECK(rt::DeviceDisablePeerAccess(1) == Success);
    CHECK(rt::DeviceDisablePeerAccess(1) == Error_t::PeerAccessNotEnabled);
    CHECK(rt::PopDevice(saved) == Success);
}

TEST_CASE("rt: a device is waited for, and tells its range of priorities") {
    if (no_device()) return;
    CHECK(rt::DeviceSynchronize() == Success);
    int least = -99;
    int greatest = 99;
    CHECK(rt::DeviceGetStreamPriorityRange(&least, &greatest) == Success);
    CHECK(least >= greatest);
}
