// SPDX-License-Identifier: MIT
// tests/cpp/rt_managed.cpp: managed memory: both sides see it, and it goes where it is sent.
#include <algorithm>

#include "rt_support.hpp"

namespace {

constexpr Location FirstDevice{LocationType::Device, 0};
constexpr Location Host{LocationType::Host, 0};

struct ManagedMemory {
    void* ptr = nullptr;
    explicit ManagedMemory(std::size_t nbytes, rt::MemAttach attach = rt::MemAttach::Global) {
        REQUIRE(rt::MallocManaged(&ptr, nbytes, attach) == Success);
    }
    ~ManagedMemory() { CHECK(rt::Free(ptr) == Success); }
    ManagedMemory(const ManagedMemory&) = delete;
    ManagedMemory& operator=(const ManagedMemory&) = delete;
    unsigned char* bytes() const { return static_cast<unsigned char*>(ptr); }
};

bool no_managed_memory() { return no_device() || !has(rt::DeviceAttr::ManagedMemory); }

/// Prefetches and advice are promised only where the device and the host may touch the memory at once.
bool no_migration() { return no_managed_memory() || !has(rt::DeviceAttr::ConcurrentManagedAccess); }

int range_attribute(rt::MemRangeAttribute attribute, const ManagedMemory& memory, std::size_t nbytes) {
    int value = -99;
    REQUIRE(rt::MemRangeGetAttribute(&value, sizeof value, attribute, memory.ptr, nbytes) == Success);
    return value;
}

/// True for a vendor's refusal of memory that is not managed.
bool refuses_unmanaged(Error_t error) { return error == Error_t::InvalidValue || error == Error_t::NotSupported; }

}  // namespace

TEST_CASE("rt: managed memory is one for host and device") {
    if (no_managed_memory()) return;
    for (const auto attach : {rt::MemAttach::Global, rt::MemAttach::Host}) {
        const ManagedMemory memory(3 * MiB, attach);
        const Bytes bytes = pattern(3 * MiB, 21);
        std::copy(bytes.begin(), bytes.end(), memory.bytes());
        const DeviceMemory device(3 * MiB);
        CHECK(rt::Memcpy(device.ptr, memory.ptr, 3 * MiB, MemcpyKind::Default) == Success);
        CHECK(contents(device.ptr, 3 * MiB) == bytes);
        if (attach == rt::MemAttach::Global) CHECK(rt::Memset(memory.ptr, 0x33, MiB) == Success);
        CHECK(rt::DeviceSynchronize() == Success);
        if (attach == rt::MemAttach::Global) CHECK(Bytes(memory.bytes(), memory.bytes() + MiB) == Bytes(MiB, 0x33));
        CHECK(std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(MiB), bytes.end(), memory.bytes() + MiB));
    }
}

TEST_CASE("rt: the pointer query knows managed memory") {
    if (no_managed_memory()) return;
    const ManagedMemory memory(10000);
    rt::PointerAttributes attributes;
    REQUIRE(rt::PointerGetAttributes(&attributes, memory.bytes() + 100) == Success);
    CHECK(attributes.type == rt::MemoryType::Managed);
    CHECK(attributes.host_pointer == memory.bytes() + 100);
    CHECK(attributes.device_pointer == memory.bytes() + 100);
    CHECK(attributes.base == memory.ptr);
    CHECK(attributes.nbytes >= 10000);
}

TEST_CASE("rt: a prefetch moves managed memory and keeps its bytes") {
    if (no_migration()) return;
    const std::size_t nbytes = 4 * MiB;
    const ManagedMemory memory(nbytes);
    const Bytes bytes = pattern(nbytes, 22);
    std::copy(bytes.begin(), bytes.end(), memory.bytes());
    const TestStream stream;
    CHECK(rt::MemPrefetchAsync(memory.ptr, nbytes, FirstDevice, stream.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    CHECK(range_attribute(rt::MemRangeAttribute::LastPrefetchLocation, memory, nbytes) == 0);
    CHECK(rt::MemPrefetchAsync(memory.ptr, nbytes, Host, stream.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    CHECK(range_attribute(rt::MemRangeAttribute::LastPrefetchLocation, memory, nbytes) == rt::CpuDeviceId);
    for (const auto type : {LocationType::HostNuma, LocationType::HostNumaCurrent}) {
        CHECK(rt::MemPrefetchAsync(memory.ptr, nbytes, {type, 0}, stream.handle) == Success);
    }
    CHECK(rt::MemPrefetchAsync(memory.ptr, 0, FirstDevice, stream.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    CHECK(std::equal(bytes.begin(), bytes.end(), memory.bytes()));
}

TEST_CASE("rt: a prefetch to nowhere or of other memory is refused") {
    if (no_migration()) return;
    const ManagedMemory memory(MiB);
    const DeviceMemory device(MiB);
    Bytes plain(MiB);
    const auto prefetch = [](void* ptr, Location location) {
        return rt::MemPrefetchAsync(ptr, MiB, location, NullStream);
    };
    CHECK(prefetch(memory.ptr, {LocationType::Device, -1}) == Error_t::InvalidDevice);
    CHECK(prefetch(memory.ptr, {LocationType::Device, device_count()}) == Error_t::InvalidDevice);
    CHECK(prefetch(memory.ptr, {LocationType::None, 0}) == Error_t::InvalidValue);
    CHECK(refuses_unmanaged(prefetch(device.ptr, FirstDevice)));
    // Where the device reaches pageable memory a prefetch may take that as well.
    if (!has(rt::DeviceAttr::PageableMemoryAccess)) CHECK(refuses_unmanaged(prefetch(plain.data(), FirstDevice)));
}

TEST_CASE("rt: advice is remembered and taken back") {
    if (no_migration()) return;
    using rt::MemoryAdvise;
    using rt::MemRangeAttribute;
    const ManagedMemory memory(2 * MiB);
    const auto advise = [&](MemoryAdvise advice, Location location) {
        return rt::MemAdvise(memory.ptr, 2 * MiB, advice, location);
    };
    const auto value = [&](MemRangeAttribute attribute) { return range_attribute(attribute, memory, 2 * MiB); };

    CHECK(value(MemRangeAttribute::ReadMostly) == 0);
    CHECK(advise(MemoryAdvise::SetReadMostly, {LocationType::None, 0}) == Success);
    CHECK(value(MemRangeAttribute::ReadMostly) == 1);
    CHECK(advise(MemoryAdvise::UnsetReadMostly, FirstDevice) == Success);
    CHECK(value(MemRangeAttribute::ReadMostly) == 0);

    CHECK(value(MemRangeAttribute::PreferredLocation) == rt::InvalidDeviceId);
    CHECK(advise(MemoryAdvise::SetPreferredLocation, FirstDevice) == Success);
    CHECK(value(MemRangeAttribute::PreferredLocation) == 0);
    CHECK(advise(MemoryAdvise::SetPreferredLocation, Host) == Success);
    CHECK(value(MemRangeAttribute::PreferredLocation) == rt::CpuDeviceId);
    CHECK(advise(MemoryAdvise::UnsetPreferredLocation, {LocationType::None, 0}) == Success);
    CHECK(value(MemRangeAttribute::PreferredLocation) == rt::InvalidDeviceId);
    CHECK(advise(MemoryAdvise::SetPreferredLocation, {LocationType::Device, -1}) == Error_t::InvalidDevice);

    int accessed_by[3] = {};
    const auto accessors = [&] {
        return rt::MemRangeGetAttribute(accessed_by, sizeof accessed_by, MemRangeAttribute::AccessedBy, memory.ptr,
                                        2 * MiB);
    };
    CHECK(advise(MemoryAdvise::SetAccessedBy, FirstDevice) == Success);
    CHECK(accessors() == Success);
    CHECK(accessed_by[0] == 0);
    CHECK(accessed_by[1] == rt::InvalidDeviceId);
    CHECK(advise(MemoryAdvise::UnsetAccessedBy, FirstDevice) == Success);
    CHECK(accessors() == Success);
    CHECK(accessed_by[0] == rt::InvalidDeviceId);
}

TEST_CASE("rt: advice on other memory is refused, and AMD's own advice works or is not supported") {
    if (no_migration()) return;
    const ManagedMemory memory(MiB);
    const DeviceMemory device(MiB);
    CHECK(refuses_unmanaged(rt::MemAdvise(device.ptr, MiB, rt::MemoryAdvise::SetReadMostly, FirstDevice)));
    const Error_t coarse = rt::MemAdvise(memory.ptr, MiB, rt::MemoryAdvise::SetCoarseGrain, FirstDevice);
    CHECK((coarse == Success || coarse == Error_t::NotSupported));
    CHECK(rt::MemAdvise(memory.ptr, MiB, rt::MemoryAdvise::UnsetCoarseGrain, FirstDevice) == coarse);
    int mode = 0;
    const Error_t coherency =
        rt::MemRangeGetAttribute(&mode, sizeof mode, rt::MemRangeAttribute::CoherencyMode, memory.ptr, MiB);
    CHECK(coherency == coarse);
}

TEST_CASE("rt: managed memory is tied to a stream and freed for all") {
    if (no_managed_memory()) return;
    const ManagedMemory memory(MiB);
    const TestStream stream;
    CHECK(rt::StreamAttachMemAsync(stream.handle, memory.ptr, 0, rt::MemAttach::Single) == Success);
    CHECK(rt::MemsetAsync(memory.ptr, 0x44, MiB, stream.handle) == Success);
    CHECK(rt::StreamAttachMemAsync(stream.handle, memory.ptr, 0, rt::MemAttach::Global) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    CHECK(Bytes(memory.bytes(), memory.bytes() + MiB) == Bytes(MiB, 0x44));
}
