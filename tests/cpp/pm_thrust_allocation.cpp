// SPDX-License-Identifier: MIT
// tests/cpp/pm_thrust_allocation.cpp: how Thrust's allocator takes memory and gives it back. Thrust itself is in
// tests/packaging/test_adaptors.py.
#include <portamem/adaptors/thrust_allocation.hpp>

#include "pm_support.hpp"

namespace {

using System = pm::ThrustAllocation::System;

/// Frees as Thrust does: where nothing may be thrown. Gives how many refusals an embedding language was told of.
int told_of_freeing(const pm::ThrustAllocation& from, void* ptr, std::size_t nbytes) {
    static std::atomic<int> told{0};
    told = 0;
    auto& hook = pm::detail::embedder().lost_failure;
    const auto before = hook.exchange([](const std::exception_ptr&) noexcept { ++told; });
    from.deallocate(ptr, nbytes);
    hook = before;
    return told;
}

}  // namespace

TEST_CASE("pm thrust allocation: kernels take memory that the device reaches, threads what the host reaches") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        for (const System system : {System::Device, System::Host}) {
            const bool is_reached =
                system == System::Host ? resource->is_host_accessible() : resource->is_device_accessible();
            if (!is_reached) {
                CHECK_THROWS_WITH_AS(pm::ThrustAllocation(system, resource), doctest::Contains("does not reach"),
                                     std::invalid_argument);
                continue;
            }
            const pm::ThrustAllocation from(system, resource);
            CHECK(from.stream() == pm::Stream::default_stream(0));
            void* const ptr = from.allocate(1000, 8);
            CHECK(reinterpret_cast<std::uintptr_t>(ptr) % 256 == 0);
            CHECK(resource->live_bytes() == 1000);
            CHECK(told_of_freeing(from, ptr, 1000) == 0);
            from.deallocate(from.allocate(0, 8), 0);
            CHECK(resource->live_buffers() == 0);
        }
    }
    CHECK_THROWS_WITH_AS(pm::ThrustAllocation(System::Device, nullptr), doctest::Contains("not null"),
                         std::invalid_argument);
}

TEST_CASE("pm thrust allocation: in the order of its stream, and threads of the host wait for that") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto pool = pm::PoolMemoryResource::create(device_resource());
    const pm::ThrustAllocation from(System::Device, pool, stream);
    void* const ptr = from.allocate(4096, 8);
    if (!pool->is_host_accessible()) {
        const Gate gate(stream);
        from.deallocate(ptr, 4096);
        CHECK(from.allocate(4096, 8) == ptr);  // neither the free nor the allocation waits for the stream
        CHECK_FALSE(gate.is_open());
    }
    from.deallocate(ptr, 4096);
    CHECK(pool->live_buffers() == 0);

    // Stream-ordered and no pool itself, so its memory may still be in use by earlier work of the stream.
    const auto ordered = pm::StatisticsAdaptor::create(pm::PoolMemoryResource::create(pinned_resource()));
    const pm::ThrustAllocation on_host(System::Host, ordered, stream);
    const Gate gate(stream);
    gate.open_soon();
    void* const idle = on_host.allocate(100, 8);
    CHECK(gate.is_open());
    on_host.deallocate(idle, 100);
}

TEST_CASE("pm thrust allocation: a large alignment, equality, and frees that are refused") {
    if (no_device()) return;
    const auto pool = pm::PoolMemoryResource::create(device_resource());
    const pm::ThrustAllocation from(System::Device, pool);
    void* const wide = from.allocate(100, 4096);
    CHECK(reinterpret_cast<std::uintptr_t>(wide) % 4096 == 0);
    CHECK(told_of_freeing(from, wide, 101) == 1);
    CHECK(pool->live_buffers() == 1);
    CHECK(told_of_freeing(from, wide, 100) == 0);
    CHECK_THROWS_AS((void)pm::ThrustAllocation(System::Device, device_resource()).allocate(100, 4096),
                    std::invalid_argument);

    CHECK(from == pm::ThrustAllocation(System::Device, pool));
    CHECK(from != pm::ThrustAllocation(System::Device, pool, pm::Stream::create(0)));
    CHECK(from != pm::ThrustAllocation(System::Device, device_resource()));
}
