// SPDX-License-Identifier: MIT
// tests/cpp/rt_virtual.cpp: virtual memory: its granularity, reserved addresses, and memory mapped to them.
#include "rt_support.hpp"

namespace {

constexpr auto kMinimum = rt::MemAllocationGranularity::Minimum;
constexpr auto kRecommended = rt::MemAllocationGranularity::Recommended;
constexpr Location kFirst{LocationType::Device, 0};

bool is_power_of_two(std::size_t value) { return value != 0 && (value & (value - 1)) == 0; }

bool no_virtual_memory() { return no_device() || !has(rt::DeviceAttr::VirtualMemoryManagementSupported); }

std::size_t granularity() {
    std::size_t nbytes = 0;
    REQUIRE(rt::MemGetAllocationGranularity(&nbytes, kFirst, kRecommended) == Success);
    return nbytes;
}

// Reserved addresses, which have to have no memory at the end.
struct Range {
    void* ptr = nullptr;
    std::size_t nbytes;
    explicit Range(std::size_t size) : nbytes(size) {
        REQUIRE(rt::MemAddressReserve(&ptr, nbytes, 0, nullptr) == Success);
    }
    ~Range() { CHECK(rt::MemAddressFree(ptr, nbytes) == Success); }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
    char* at(std::size_t offset) const { return static_cast<char*>(ptr) + offset; }
};

struct PhysicalMemory {
    rt::MemGenericAllocationHandle_t handle{};
    explicit PhysicalMemory(std::size_t nbytes) { REQUIRE(rt::MemCreate(&handle, nbytes, kFirst) == Success); }
    ~PhysicalMemory() { CHECK(rt::MemRelease(handle) == Success); }
    PhysicalMemory(const PhysicalMemory&) = delete;
    PhysicalMemory& operator=(const PhysicalMemory&) = delete;
};

Error_t give_access(void* ptr, std::size_t nbytes) {
    return rt::MemSetAccess(ptr, nbytes, kFirst, rt::MemAccessFlags::ReadWrite);
}

}  // namespace

TEST_CASE("rt: the granularity of virtual memory is asked of a device") {
    std::size_t bytes = 0;
    CHECK(rt::MemGetAllocationGranularity(nullptr, kFirst, kMinimum) == Error_t::InvalidValue);
    CHECK(rt::MemGetAllocationGranularity(&bytes, {LocationType::Host, 0}, kMinimum) == Error_t::InvalidValue);
    CHECK(rt::MemGetAllocationGranularity(&bytes, {LocationType::Device, -1}, kMinimum) == Error_t::InvalidDevice);
    CHECK(bytes == 0);
}

TEST_CASE("rt: the recommended granularity is a multiple of the least") {
    if (no_device()) return;
    std::size_t least = 0;
    std::size_t best = 0;
    const Error_t error = rt::MemGetAllocationGranularity(&least, kFirst, kMinimum);
    CHECK(error == rt::MemGetAllocationGranularity(&best, kFirst, kRecommended));
    if (has(rt::DeviceAttr::VirtualMemoryManagementSupported)) {
        REQUIRE(error == Success);
        CHECK(is_power_of_two(least));
        CHECK(is_power_of_two(best));
        CHECK(least >= 4096);
        CHECK(best % least == 0);
    }
    if (error == Error_t::NotSupported) CHECK_FALSE(has(rt::DeviceAttr::VirtualMemoryManagementSupported));
    CHECK(rt::MemGetAllocationGranularity(&least, {LocationType::Device, -1}, kMinimum) == Error_t::InvalidDevice);
}

TEST_CASE("rt: memory is mapped to reserved addresses piece by piece, and used as one range") {
    if (no_virtual_memory()) return;
    const std::size_t unit = granularity();
    const Range range(4 * unit);
    {
        const PhysicalMemory first(unit), second(2 * unit);
        REQUIRE(rt::MemMap(range.at(0), unit, 0, first.handle) == Success);
        REQUIRE(rt::MemMap(range.at(unit), 2 * unit, 0, second.handle) == Success);
    }  // a mapping holds its memory
    REQUIRE(give_access(range.at(0), 3 * unit) == Success);
    auto access = rt::MemAccessFlags::None;
    CHECK(rt::MemGetAccess(&access, kFirst, range.at(unit)) == Success);
    CHECK(access == rt::MemAccessFlags::ReadWrite);
    CHECK(keeps_bytes(range.at(0), 3 * unit, 1));
    CHECK(keeps_bytes(range.at(unit - 100), 200, 2));
    CHECK(rt::Memset(range.at(unit - 5), 7, 10) == Success);
    CHECK(contents(range.at(unit - 5), 10) == Bytes(10, 7));
    CHECK(rt::MemUnmap(range.at(unit), 2 * unit) == Success);
    CHECK(contents(range.at(unit - 5), 5) == Bytes(5, 7));
    const PhysicalMemory other(unit);
    REQUIRE(rt::MemMap(range.at(unit), unit, 0, other.handle) == Success);
    REQUIRE(give_access(range.at(0), 2 * unit) == Success);
    CHECK(keeps_bytes(range.at(unit), unit, 3));
    CHECK(contents(range.at(unit - 5), 5) == Bytes(5, 7));
    CHECK(rt::MemUnmap(range.at(unit), unit) == Success);
    CHECK(rt::MemUnmap(range.at(0), unit) == Success);
}

TEST_CASE("rt: the bytes of physical memory follow its handle to other addresses") {
    if (no_virtual_memory()) return;
    const std::size_t unit = granularity();
    const Range range(unit), other(unit);
    const PhysicalMemory memory(unit);
    REQUIRE(rt::MemMap(range.ptr, unit, 0, memory.handle) == Success);
    REQUIRE(give_access(range.ptr, unit) == Success);
    REQUIRE(keeps_bytes(range.ptr, unit, 4));
    CHECK(rt::MemUnmap(range.ptr, unit) == Success);
    REQUIRE(rt::MemMap(other.ptr, unit, 0, memory.handle) == Success);
    REQUIRE(give_access(other.ptr, unit) == Success);
    CHECK(contents(other.ptr, unit) == pattern(unit, 4));
    CHECK(rt::MemUnmap(other.ptr, unit) == Success);
}

TEST_CASE("rt: virtual memory that cannot be is refused, and nothing is changed") {
    if (no_virtual_memory()) return;
    const std::size_t unit = granularity();
    void* ptr = nullptr;
    rt::MemGenericAllocationHandle_t handle{};
    auto access = rt::MemAccessFlags::None;
    CHECK(rt::MemAddressReserve(nullptr, unit, 0, nullptr) == Error_t::InvalidValue);
    CHECK(rt::MemAddressReserve(&ptr, 0, 0, nullptr) == Error_t::InvalidValue);
    CHECK(rt::MemCreate(nullptr, unit, kFirst) == Error_t::InvalidValue);
    CHECK(rt::MemCreate(&handle, 0, kFirst) == Error_t::InvalidValue);
    CHECK(rt::MemCreate(&handle, unit + 1, kFirst) == Error_t::InvalidValue);
    CHECK(rt::MemCreate(&handle, unit, {LocationType::Host, 0}) == Error_t::InvalidValue);
    CHECK(rt::MemCreate(&handle, unit, {LocationType::Device, -1}) == Error_t::InvalidDevice);
    CHECK(rt::MemGetAccess(nullptr, kFirst, &ptr) == Error_t::InvalidValue);
    const Range range(2 * unit);
    const PhysicalMemory memory(unit);
    CHECK(give_access(range.ptr, unit) == Error_t::InvalidValue);
    const Error_t unmapped = rt::MemUnmap(range.ptr, unit);
    CHECK((unmapped == Error_t::InvalidValue || unmapped == Success));
    REQUIRE(rt::MemMap(range.ptr, unit, 0, memory.handle) == Success);
    const PhysicalMemory other(unit);
    CHECK(rt::MemMap(range.ptr, unit, 0, other.handle) == Error_t::InvalidValue);
    CHECK(rt::MemAddressFree(range.ptr, 2 * unit) == Error_t::InvalidValue);
    CHECK(rt::MemSetAccess(range.ptr, unit, {LocationType::Host, 0}, rt::MemAccessFlags::ReadWrite) ==
          Error_t::InvalidValue);
    REQUIRE(give_access(range.ptr, unit) == Success);
    CHECK(rt::MemGetAccess(&access, kFirst, range.ptr) == Success);
    CHECK(keeps_bytes(range.ptr, unit, 5));
    CHECK(rt::MemUnmap(range.ptr, unit) == Success);
}

TEST_CASE("rt: memory that is mapped comes off what the device has free, until nothing holds it") {
    if (no_virtual_memory()) return;
    const std::size_t unit = granularity();
    const std::size_t nbytes = (64 * MiB + unit - 1) / unit * unit;
    const auto free_bytes = [] {
        std::size_t free = 0;
        std::size_t total = 0;
        REQUIRE(rt::MemGetInfo(&free, &total) == Success);
        return free;
    };
    const Range range(nbytes);
    (void)free_bytes();  // the context exists from here on
    std::size_t held = 0;
    {
        const std::size_t before = free_bytes();
        const PhysicalMemory memory(nbytes);
        REQUIRE(rt::MemMap(range.ptr, nbytes, 0, memory.handle) == Success);
        held = before - free_bytes();
    }
    const std::size_t mapped = free_bytes();
    CHECK(rt::MemUnmap(range.ptr, nbytes) == Success);
    const std::size_t after = free_bytes();
    // Other processes may use the device meanwhile.
    if (rt::BackendId == PORTAMEM_BACKEND_HOST) {
        CHECK(held == nbytes);
        CHECK(after - mapped == nbytes);
    } else {
        CHECK(held >= nbytes / 2);
        CHECK(after >= mapped);
    }
}

TEST_CASE("rt without a device: its granularity and its pointers") {
    if (device_count() > 0) return;
    const auto means_no_device = [](Error_t error) {
        return error == Error_t::InsufficientDriver || error == Error_t::NoDevice || error == Error_t::InvalidDevice;
    };
    unsigned char plain[64] = {};
    std::size_t bytes = 0;
    int value = -1;
    CHECK(means_no_device(rt::MemGetAllocationGranularity(&bytes, kFirst, kMinimum)));
    CHECK(means_no_device(rt::PointerGetAttribute(&value, rt::PointerAttr::IsLegacyIpcCapable, plain)));
    CHECK(bytes == 0);
    CHECK(value == -1);
}
