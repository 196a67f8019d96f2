// SPDX-License-Identifier: MIT
// tests/cpp/rt_virtual.cpp: virtual memory: its granularity.
#include "rt_support.hpp"

namespace {

constexpr auto kMinimum = rt::MemAllocationGranularity::Minimum;
constexpr auto kRecommended = rt::MemAllocationGranularity::Recommended;
constexpr Location kFirst{LocationType::Device, 0};

bool is_power_of_two(std::size_t value) { return value != 0 && (value & (value - 1)) == 0; }

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
