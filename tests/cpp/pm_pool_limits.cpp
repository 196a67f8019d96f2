// SPDX-License-Identifier: MIT
// tests/cpp/pm_pool_limits.cpp: a pool's limit that changes, and its initial size.
#include <memory>

#include "pm_support.hpp"

namespace {

StreamPtr on() { return pm::Stream::default_stream(0); }

}  // namespace

TEST_CASE("pm pool limits: a limit is changed on a living pool") {
    if (no_device()) return;
    const auto resource = pm::PoolMemoryResource::create(device_resource());
    CHECK(resource->limit() == 0);
    void* const first = resource->allocate(16 * MiB, on());
    resource->set_limit(20 * MiB);
    CHECK(resource->limit() == 20 * MiB);
    CHECK(contains(refusal<pm::OutOfMemory>([&] { resource->allocate(16 * MiB, on()); }), "limit of 20971520 bytes"));
    resource->set_limit(64 * MiB);
    void* const second = resource->allocate(16 * MiB, on());
    CHECK(keeps_bytes(second, 4096, 6));
    resource->set_limit(8 * MiB);  // below what is out
    CHECK_THROWS_AS(resource->allocate(16 * MiB, on()), pm::OutOfMemory);
    resource->deallocate(first, on());
    resource->deallocate(second, on());
    resource->trim(resource->limit());
    CHECK(resource->reserved() <= 8 * MiB);
    resource->deallocate(resource->allocate(4 * MiB, on()), on());
    CHECK_THROWS_AS(resource->allocate(16 * MiB, on()), pm::OutOfMemory);
    resource->set_limit(0);
    resource->deallocate(resource->allocate(32 * MiB, on()), on());
    resource->close();
}

TEST_CASE("pm pool limits: the initial size is there before the first allocation") {
    if (no_device()) return;
    pm::PoolOptions options;
    options.initial_size = 48 * MiB;
    const auto upstream = device_resource();
    {
        const auto resource = pm::PoolMemoryResource::create(upstream, options);
        CHECK(resource->reserved() >= 48 * MiB);
        CHECK(resource->reserved() <= 56 * MiB);
        CHECK(resource->live_buffers() == 0);
        const auto reserved = resource->reserved();
        const auto stream = pm::Stream::create(0);
        void* const ptr = resource->allocate(48 * MiB, stream);
        CHECK(keeps_bytes(ptr, 4096, 2));
        CHECK(resource->reserved() == reserved);
        resource->deallocate(ptr, stream);
        resource->trim();
        CHECK(resource->reserved() == 0);
    }
    options.limit = 32 * MiB;
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::PoolMemoryResource::create(upstream, options); }),
                   "larger than its limit"));
    options.limit = 0;
    options.initial_size = std::size_t{1} << 50;
    CHECK_THROWS_AS(pm::PoolMemoryResource::create(upstream, options), pm::OutOfMemory);
    CHECK(eventually([&] { return upstream->live_buffers() == 0; }));
    CHECK(upstream.use_count() == 1);
}
