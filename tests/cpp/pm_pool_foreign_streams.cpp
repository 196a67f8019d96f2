// SPDX-License-Identifier: MIT
// Pools on foreign streams: the pool is told of their end, is promised to be told, or never hears of it.
#include "pm_pool_support.hpp"

#include <algorithm>
#include <vector>

TEST_CASE("pm pool: a foreign handle that nobody tells the end of is marked at each free") {
    if (no_device()) return;
    for (const bool pinned : {false, true}) {
        CAPTURE(pinned);
        const Pool pool = pool_over(pinned ? pinned_resource() : device_resource(), 8 * MiB);
        const StreamPtr other = pm::Stream::create(0);
        void* ptr = nullptr;
        const Gate gate;
        {
            const TestStream native;
            const StreamPtr foreign = pm::Stream::from_handle(native.handle, 0);
            ptr = pool->allocate(2 * MiB, foreign);
            gate.hold(foreign);
            pool->deallocate(ptr, 2 * MiB, foreign);
            CHECK(pool->live_buffers() == 0);
            if (pinned) gate.open();
            const StreamPtr same = pm::Stream::from_handle(native.handle, 0);
            void* small = pool->allocate(100, same);
            CHECK(small != nullptr);
            pool->deallocate(small, 100, same);
            gate.open();
        }
        void* taken = pool->allocate(2 * MiB, other);
        other->synchronize();
        pool->deallocate(taken, 2 * MiB, other);
    }
}

TEST_CASE("pm pool: a foreign handle whose end was promised to be announced needs no event at a free" *
          ends_a_held_stream()) {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource(), 2 * MiB);
    if (reaches_host(pool)) return;
    const StreamPtr other = pm::Stream::create(0);
    const Gate gate;
    {
        const TestStream native;
        const StreamPtr unknown = pm::Stream::from_handle(native.handle, 0);
        const StreamPtr foreign = pm::Stream::from_handle(native.handle, 0, nullptr, true);
        CHECK_FALSE(unknown->tells_its_end());
        CHECK(foreign->tells_its_end());
        void* const ptr = pool->allocate(2 * MiB, foreign);
        gate.hold(foreign);
        pool->deallocate(ptr, 2 * MiB, foreign);
        void* const again = pool->allocate(2 * MiB, foreign);  // in the stream's order, with no event before it
        CHECK(again == ptr);
        pool->deallocate(again, 2 * MiB, foreign);
        foreign->close();
    }
    void* const all = pool->allocate(2 * MiB, other);  // behind that stream's last work
    CHECK_FALSE(other->query());
    gate.open();
    CHECK(keeps_bytes(all, 2 * MiB, 3));
    pool->deallocate(all, 2 * MiB, other);
    other->synchronize();
    pool->close();
}

TEST_CASE("pm pool: a foreign handle that nobody tells the end of takes over what other streams have freed" *
          ends_a_held_stream()) {
    if (no_device()) return;
    for (const std::size_t nbytes : {std::size_t{1000}, std::size_t{48} << 10, 2 * MiB, 24 * MiB}) {
        for (const bool is_ended : {false, true}) {
            CAPTURE(nbytes);
            CAPTURE(is_ended);
            const Pool pool = pool_over(device_resource(), std::max(4 * MiB, 4 * nbytes));
            if (reaches_host(pool)) return;
            const TestStream native;
            const StreamPtr foreign = pm::Stream::from_handle(native.handle, 0);
            StreamPtr first = pm::Stream::create(0);
            std::vector<void*> all;
            try {
                while (true) all.push_back(pool->allocate(nbytes, first));
            } catch (const pm::OutOfMemory&) {
                REQUIRE(all.size() >= 3);
            }
            const auto before = pool->stats();
            const Gate gate;
            gate.hold(first);
            for (void* const ptr : all) pool->deallocate(ptr, nbytes, first);
            if (is_ended) first->close();
            std::vector<void*> taken;
            for (int i = 0; i < 3; ++i) taken.push_back(pool->allocate(nbytes, foreign));
            CHECK_FALSE(foreign->query());  // behind what the first stream does, for which the host did not wait
            gate.open();
            const auto after = pool->stats();
            CHECK(after.reserved == before.reserved);
            CHECK(after.misses == before.misses);
            CHECK(after.steals > before.steals);
            for (std::size_t i = 0; i < taken.size(); ++i) {
                CHECK(std::count(taken.begin(), taken.end(), taken[i]) == 1);
                CHECK(keeps_bytes(taken[i], nbytes, static_cast<unsigned>(i)));
                pool->deallocate(taken[i], nbytes, foreign);
            }
            // The call's own arena loses nothing: the pool has all of it again, whole.
            foreign->synchronize();
            pool->trim();
            CHECK(pool->stats().reserved == 0);
            pool->close();
        }
    }
}
