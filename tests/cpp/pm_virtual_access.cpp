// SPDX-License-Identifier: MIT
// tests/cpp/pm_virtual_access.cpp: virtual memory that is open to another device, or not.
#include <memory>

#include "pm_support.hpp"

TEST_CASE("pm virtual access: another device has the access that was set, to memory of then and of later") {
    if (no_device()) return;
    if (!has_virtual()) return;
    const auto resource = pm::VirtualMemoryResource::create(0);
    using Access = rt::MemAccessFlags;
    CHECK(resource->access(0) == Access::ReadWrite);
    resource->set_access(0, Access::ReadWrite);
    CHECK_THROWS_AS(resource->set_access(0, Access::None), std::invalid_argument);
    CHECK_THROWS_AS(resource->set_access(0, Access::Read), std::invalid_argument);
    CHECK_THROWS_AS(resource->set_access(1000, Access::ReadWrite), std::invalid_argument);
    CHECK_THROWS_AS((void)resource->access(1000), std::invalid_argument);
    if (pm::device_count() < 2) return;
    CHECK(resource->access(1) == Access::None);
    resource->set_access(1, Access::None);
    if (!pm::Device(1).can_access_peer(pm::Device(0))) {
        CHECK_THROWS_AS(resource->set_access(1, Access::ReadWrite), std::invalid_argument);
        return;
    }
    const std::size_t unit = resource->granularity();
    pm::GrowableBuffer growing(resource, unit, 8 * unit);
    const auto seen = [&](const pm::Buffer& buffer) {
        auto flags = Access::Read;
        char* const last = static_cast<char*>(buffer.ptr()) + buffer.nbytes() - 1;
        REQUIRE(rt::MemGetAccess(&flags, {rt::LocationType::Device, 1}, last) == rt::Error_t::Success);
        return flags;
    };
    CHECK(seen(growing) == Access::None);
    resource->set_access(1, Access::ReadWrite);
    CHECK(resource->access(1) == Access::ReadWrite);
    CHECK(seen(growing) == Access::ReadWrite);
    growing.resize(5 * unit);
    CHECK(seen(growing) == Access::ReadWrite);
    const pm::Buffer later(resource, 1000);
    CHECK(seen(later) == Access::ReadWrite);
    resource->sleep();
    resource->set_access(1, Access::None);
    CHECK(resource->mapped() == 0);
    resource->wake();
    CHECK(seen(growing) == Access::None);
    resource->sleep();
    resource->set_access(1, Access::ReadWrite);
    resource->wake();
    CHECK(seen(growing) == Access::ReadWrite);
    CHECK(seen(later) == Access::ReadWrite);

    // Copies between the two carry the bytes, and of a pool over it too.
    const auto pool = pm::PoolMemoryResource::create(resource);
    const auto stream = pm::Stream::create(0);
    pm::Buffer far(std::make_shared<pm::DeviceMemoryResource>(1), 5000);
    pm::Buffer near(pool, 5000, stream);
    put(near, 3);
    pm::copy(pm::Span::of(far), pm::Span::of(near));
    CHECK(get(far) == pattern(5000, 3));
    pm::fill(pm::Span::of(near), 0);
    pm::copy(pm::Span::of(near), pm::Span::of(far), stream)->synchronize();
    CHECK(get(near) == pattern(5000, 3));
    resource->set_access(1, Access::None);
    CHECK(seen(growing) == Access::None);
    growing.resize(7 * unit);
    CHECK(seen(growing) == Access::None);
    CHECK(resource->access(1) == Access::None);
    const auto closed = pm::VirtualMemoryResource::create(0);
    closed->close();
    CHECK_THROWS_AS(closed->set_access(1, Access::ReadWrite), std::invalid_argument);
    CHECK_THROWS_AS((void)closed->access(1), std::invalid_argument);
}
