// SPDX-License-Identifier: MIT
// tests/cpp/pm_async.cpp: stream-ordered memory of the driver's pools.
#include <atomic>
#include <thread>
#include <vector>

#include "pm_support.hpp"

using rt::MemPoolAttr;

namespace {

constexpr std::size_t kBytes = 64 << 10;

bool no_pools() { return no_device() || !has_pools(); }

}  // namespace

TEST_CASE("pm async: a pool of its own keeps what it has until it is trimmed") {
    if (no_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto stream = pm::Stream::create(0);
    CHECK(pool->owns_pool());
    CHECK(pool->get(MemPoolAttr::ReleaseThreshold) == pm::AsyncMemoryResource::kKeepAll);
    pm::Buffer(pool, kBytes, stream).close();
    stream->synchronize();
    CHECK(pool->get(MemPoolAttr::UsedMemCurrent) == 0);
    CHECK(pool->get(MemPoolAttr::ReservedMemCurrent) >= kBytes);
    pool->trim();
    CHECK(pool->get(MemPoolAttr::ReservedMemCurrent) == 0);
}

TEST_CASE("pm async: high-water marks and policies") {
    if (no_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0, 0);
    const auto stream = pm::Stream::create(0);
    CHECK(pool->get(MemPoolAttr::ReleaseThreshold) == 0);
    {
        const pm::Buffer first(pool, kBytes, stream);
        const pm::Buffer second(pool, kBytes, stream);
    }
    stream->synchronize();
    CHECK(pool->get(MemPoolAttr::UsedMemHigh) >= 2 * kBytes);
    pool->reset_high();
    CHECK(pool->get(MemPoolAttr::UsedMemHigh) == 0);
    for (const auto policy : {MemPoolAttr::ReuseFollowEventDependencies, MemPoolAttr::ReuseAllowOpportunistic,
                              MemPoolAttr::ReuseAllowInternalDependencies}) {
        CHECK(pool->get(policy) == 1);
        pool->set(policy, 0);
        CHECK(pool->get(policy) == 0);
    }
    CHECK_THROWS_AS(pool->set(MemPoolAttr::UsedMemCurrent, 0), pm::Error);
}

TEST_CASE("pm async: a stream has its memory again at once") {
    if (no_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto stream = pm::Stream::create(0);
    pm::Buffer(pool, kBytes, stream).close();
    stream->synchronize();
    const auto reserved = pool->get(MemPoolAttr::ReservedMemCurrent);
    const Gate gate(stream);
    for (int i = 0; i < 50; ++i) {
        const pm::Buffer buffer(pool, kBytes, stream);
        pm::fill(pm::Span::of(buffer), 1, stream);
    }
    CHECK_FALSE(gate.is_open());
    gate.open();
    stream->synchronize();
    CHECK(pool->get(MemPoolAttr::ReservedMemCurrent) == reserved);
}

TEST_CASE("pm async: what one stream still uses, another does not overwrite") {
    if (no_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto first = pm::Stream::create(0);
    const auto second = pm::Stream::create(0);
    const pm::Buffer result(pinned_resource(), kBytes);
    pm::Buffer source(pool, kBytes, first);
    pm::fill(pm::Span::of(source), 1, first)->synchronize();
    const Gate gate(first);
    pm::copy(result, source, first);
    source.close();
    const pm::Buffer intruder(pool, kBytes, second);
    const auto filled = pm::fill(pm::Span::of(intruder), 2, second);
    gate.open();
    first->synchronize();
    filled->synchronize();
    CHECK(get(result) == Bytes(kBytes, 1));
    CHECK(get(intruder) == Bytes(kBytes, 2));
}

TEST_CASE("pm async: the device's own pool is used as it is and never destroyed") {
    if (no_pools()) return;
    const auto pool = pm::AsyncMemoryResource::default_pool(0);
    CHECK_FALSE(pool->owns_pool());
    const auto threshold = pool->get(MemPoolAttr::ReleaseThreshold);
    {
        const pm::Buffer buffer(pool, kBytes);
        put(buffer, 3);
        CHECK(get(buffer) == pattern(kBytes, 3));
    }
    const auto handle = pool->pool_handle();
    pool->close();
    CHECK_THROWS_AS(pool->pool_handle(), std::invalid_argument);
    CHECK_THROWS_AS(pool->trim(), std::invalid_argument);
    const auto again = pm::AsyncMemoryResource::default_pool(0);
    CHECK(again->pool_handle() == handle);
    CHECK(again->get(MemPoolAttr::ReleaseThreshold) == threshold);
}

TEST_CASE("pm async: somebody else's pool is kept alive and never destroyed") {
    if (no_pools()) return;
    rt::MemPool_t theirs{};
    REQUIRE(rt::MemPoolCreate(&theirs, {{rt::LocationType::Device, 0}, 0}) == Success);
    const auto owner = std::make_shared<int>(0);
    {
        const auto pool = pm::AsyncMemoryResource::from_handle(theirs, 0, owner);
        const pm::Buffer buffer(pool, kBytes);
        CHECK(owner.use_count() == 2);
        put(buffer, 4);
        CHECK(get(buffer) == pattern(kBytes, 4));
    }
    CHECK(owner.use_count() == 1);
    pm::Device(0).synchronize();
    CHECK(rt::MemPoolTrimTo(theirs, 0) == Success);
    CHECK(rt::MemPoolDestroy(theirs) == Success);
}

TEST_CASE("pm async: memory of a pool outlives every other holder of it") {
    if (no_pools()) return;
    auto pool = pm::AsyncMemoryResource::create(0);
    const auto stream = pm::Stream::create(0);
    pm::Buffer buffer(pool, kBytes, stream);
    pool.reset();
    const Gate gate(stream);
    pm::fill(pm::Span::of(buffer), 6, stream);
    buffer.close();
    gate.open();
    stream->synchronize();
}

TEST_CASE("pm async: access of devices") {
    if (no_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    CHECK(pool->access(0) == rt::MemAccessFlags::ReadWrite);
    if (pm::device_count() < 2 || !pm::Device(1).can_access_peer(pm::Device(0))) return;
    CHECK(pool->access(1) == rt::MemAccessFlags::None);
    pool->set_access(1, rt::MemAccessFlags::ReadWrite);
    CHECK(pool->access(1) == rt::MemAccessFlags::ReadWrite);
    pool->set_access(1, rt::MemAccessFlags::None);
    CHECK_THROWS_AS(pool->set_access(1000, rt::MemAccessFlags::ReadWrite), pm::Error);
}

TEST_CASE("pm async: out of memory tells what the pool has cached") {
    if (no_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    pm::Buffer(pool, 8 * MiB).close();
    pm::Device(0).synchronize();
    try {
        const pm::Buffer buffer(pool, std::size_t{1} << 50);
        FAIL("no exception");
    } catch (const pm::OutOfMemory& e) {
        REQUIRE(e.figures().cached.has_value());
        CHECK(contains(e.what(), "cached in this resource"));
        // A driver may have given the cache back while it looked for memory.
        CHECK(contains(e.what(), "trim()") == (*e.figures().cached > 0));
    }
}

TEST_CASE("pm async: a pool is given up with frees that have not run, and comes back as new") {
    if (no_device() || !has_pools()) return;
    // A size of its own, so that no other test's pool is taken.
    constexpr std::size_t kMaxSize = std::size_t{48} << 20;
    const auto stream = pm::Stream::create(0);
    auto pool = pm::AsyncMemoryResource::create(0, pm::AsyncMemoryResource::kKeepAll, kMaxSize);
    const rt::MemPool_t handle = pool->pool_handle();
    pool->set(rt::MemPoolAttr::ReuseAllowOpportunistic, 0);
    const Gate gate(stream);
    { const pm::Buffer buffer(pool, kBytes, stream); }
    pool->close();
    CHECK(pool->is_closed());
    const auto other = pm::AsyncMemoryResource::create(0, 0, kMaxSize);
    CHECK(other->pool_handle() != handle);  // its memory is still out
    gate.open();
    stream->synchronize();
    std::shared_ptr<pm::AsyncMemoryResource> again;
    std::vector<std::shared_ptr<pm::AsyncMemoryResource>> others;  // kept: the one looked for may lie below theirs
    CHECK(eventually([&] {
        if (again) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        again = pm::AsyncMemoryResource::create(0, 12345, kMaxSize);
        others.push_back(again);
        return again->pool_handle() == handle;
    }));
    CHECK(again->get(rt::MemPoolAttr::ReleaseThreshold) == 12345);
    CHECK(again->get(rt::MemPoolAttr::ReuseAllowOpportunistic) == 1);
    CHECK(again->get(rt::MemPoolAttr::ReservedMemCurrent) == 0);
    CHECK(again->get(rt::MemPoolAttr::UsedMemHigh) == 0);
    CHECK(again->get(rt::MemPoolAttr::ReservedMemHigh) == 0);
    const pm::Buffer buffer(again, kBytes, stream);
    put(buffer, 3);
    CHECK(get(buffer) == pattern(kBytes, 3));
}

TEST_CASE("pm async: pools come and go while others wait for streams") {
    if (no_device() || !has_pools()) return;
    std::atomic<bool> ended{false};
    std::vector<std::thread> waiting;
    for (int i = 0; i < 2; ++i) {
        waiting.emplace_back([&] {
            const auto stream = pm::Stream::default_stream(0);
            while (!ended) {
                if (const auto tail = stream->tail()) tail->synchronize();
            }
        });
    }
    const auto stream = pm::Stream::default_stream(0);
    Bytes bytes = pattern(kBytes, 9);
    for (int i = 0; i < 300; ++i) {
        const auto pool = pm::AsyncMemoryResource::create(0);
        const pm::Buffer buffer(pool, kBytes, stream);
        pm::copy(pm::Span::of(buffer), pm::Span::host(bytes.data(), bytes.size()), stream);
    }
    ended = true;
    for (std::thread& thread : waiting) thread.join();
    settle();
}
