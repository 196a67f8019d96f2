// SPDX-License-Identifier: MIT
// The machinery of pools over streams that portamem does not own: raw handles, and streams whose end is not told.
#include <vector>

#include "core_pool_fakes.hpp"

using namespace fakes;

TEST_CASE("core pool: a stream that is gone without a word is waited for with its device, or with what is told late") {
    for (const bool is_told : {false, true}) {
        for (const bool host_accessible : {false, true}) {
            CAPTURE(is_told);
            CAPTURE(host_accessible);
            FakeStream gone;
            FakeStream other;
            FakePool fake(host_accessible, 2048 * KiB);
            void* ptr = fake.take(1500 * KiB, gone);
            CHECK(fake.give(ptr, 1500 * KiB, gone) == PORTAMEM_POOL_OK);
            gone.is_gone = true;
            if (is_told) {
                void* large = fake.take(64 * KiB, other);  // another stream looks before it is told
                CHECK(large != nullptr);
                ++fake.owner.events;
                portamem_pool_stream_ended(fake.pool, gone.identity, new FakeEvent{&gone, gone.submitted});
                CHECK(fake.give(large, 64 * KiB, other) == PORTAMEM_POOL_OK);
            }
            void* taken = fake.take(1500 * KiB, other);
            CHECK(taken == ptr);
            CHECK(fake.give(taken, 1500 * KiB, other) == PORTAMEM_POOL_OK);
            CHECK(portamem_pool_close(fake.pool) == PORTAMEM_POOL_OK);
            CHECK(fake.owner.chunks.empty());
            CHECK((fake.owner.device_synchronized == 0) == is_told);
        }
    }
}

TEST_CASE("core pool: a stream whose end nobody tells is marked at each free") {
    FakeStream raw;
    FakeStream other;
    FakePool fake;
    raw.ends_unseen = true;
    void* ptr = fake.take(10 * 1024 * KiB, raw);
    CHECK(fake.give(ptr, 10 * 1024 * KiB, raw) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.marks == 1);
    fake.owner.left = 0;
    CHECK(fake.take(10 * 1024 * KiB, other) == ptr);
    CHECK(other.waits[&raw] == 1);
    CHECK(fake.give(ptr, 10 * 1024 * KiB, other) == PORTAMEM_POOL_OK);
    ptr = fake.take(10 * 1024 * KiB, other);
    fake.owner.fail_next_mark = 1;
    CHECK(fake.give(ptr, 10 * 1024 * KiB, raw) == PORTAMEM_POOL_THROWN);
    CHECK(fake.figures().live == 1);  // a free that was refused leaves the block out
    CHECK(fake.give(ptr, 10 * 1024 * KiB, raw) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: each raw handle's own events are asked for, and not all at once") {
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        FakeStream stalled;
        FakeStream done;
        std::vector<FakeStream> many(500);
        FakePool fake(host_accessible);
        stalled.ends_unseen = done.ends_unseen = true;
        void* held = fake.take(10 * 1024 * KiB, stalled);
        void* free = fake.take(10 * 1024 * KiB, done);
        CHECK(fake.give(held, 10 * 1024 * KiB, stalled) == PORTAMEM_POOL_OK);
        CHECK(fake.give(free, 10 * 1024 * KiB, done) == PORTAMEM_POOL_OK);
        done.run = done.submitted;
        const auto misses = fake.figures().misses;
        for (int i = 0; i < 5; ++i) {
            CHECK(fake.take(10 * 1024 * KiB, done) == free);
            done.run = done.submitted;
            CHECK(fake.give(free, 10 * 1024 * KiB, done) == PORTAMEM_POOL_OK);
        }
        CHECK(fake.figures().misses == misses);
        CHECK(fake.owner.synchronized == 0);
        CHECK(stalled.run == 0);

        for (FakeStream& each : many) {
            each.ends_unseen = true;
            void* ptr = fake.take(300 * KiB, each);
            CHECK(fake.give(ptr, 300 * KiB, each) == PORTAMEM_POOL_OK);
        }
        const int queries = fake.owner.queries;
        void* last = fake.take(30 * 1024 * KiB, done);
        CHECK(fake.owner.queries - queries < 100);
        CHECK(fake.give(last, 30 * 1024 * KiB, done) == PORTAMEM_POOL_OK);
        for (FakeStream& each : many) each.run = each.submitted;
        for (int i = 0; i < 50; ++i) {  // all of them are found in time, by calls on any stream
            last = fake.take(30 * 1024 * KiB, done);
            CHECK(fake.give(last, 30 * 1024 * KiB, done) == PORTAMEM_POOL_OK);
            last = fake.take(64 * 1024 * KiB, done);
            CHECK(fake.give(last, 64 * 1024 * KiB, done) == PORTAMEM_POOL_OK);
            done.run = done.submitted;
        }
        CHECK(fake.owner.events <= 3);
    }
}

TEST_CASE("core pool: a raw handle takes over what other streams have freed, behind their events") {
    for (const bool is_raw : {false, true}) {
        CAPTURE(is_raw);
        FakeStream raw;
        FakeStream other;
        FakePool fake;
        raw.ends_unseen = true;
        other.ends_unseen = is_raw;
        void* ptr = fake.take(100 * 1024 * KiB, other);
        CHECK(fake.give(ptr, 100 * 1024 * KiB, other) == PORTAMEM_POOL_OK);
        const auto before = fake.figures();
        void* own = fake.take(100 * 1024 * KiB, raw);
        CHECK(own == ptr);
        CHECK(raw.waits.size() == 1);  // of the stream, not of the host
        CHECK(other.run == 0);
        CHECK(fake.owner.synchronized == 0);
        CHECK(fake.figures().steals == before.steals + 1);
        CHECK(fake.figures().misses == before.misses);
        CHECK(fake.give(own, 100 * 1024 * KiB, raw) == PORTAMEM_POOL_OK);
        // The memory that the pool has no use for stays behind the event that it has waited for.
        const auto marks = fake.figures().marks;
        void* small = fake.take(3 * 1024 * KiB, raw);
        CHECK(small != nullptr);
        CHECK(fake.figures().marks == marks);
        CHECK(fake.figures().arenas == (is_raw ? 0 : 1));
        CHECK(fake.give(small, 3 * 1024 * KiB, raw) == PORTAMEM_POOL_OK);
        CHECK(fake.figures().free_bytes == fake.figures().reserved);
    }
}

TEST_CASE("core pool: while a raw handle takes over, others find the rest, and the pool does not close") {
    for (const bool is_raw : {false, true}) {
        CAPTURE(is_raw);
        FakeStream raw;
        FakeStream other;
        FakeStream third;
        FakePool fake(false, 100 * 1024 * KiB);
        raw.ends_unseen = true;
        other.ends_unseen = is_raw;
        void* ptr = fake.take(100 * 1024 * KiB, other);
        CHECK(fake.give(ptr, 100 * 1024 * KiB, other) == PORTAMEM_POOL_OK);
        void* large = nullptr;
        int closed = PORTAMEM_POOL_OK;
        fake.owner.while_waiting = [&] {
            large = fake.take(50 * 1024 * KiB, third);
            CHECK(fake.give(large, 50 * 1024 * KiB, third) == PORTAMEM_POOL_OK);
            closed = portamem_pool_close(fake.pool);
        };
        void* small = fake.take(3 * 1024 * KiB, raw);
        CHECK(small != nullptr);
        CHECK(large != nullptr);
        CHECK(closed != PORTAMEM_POOL_OK);
        CHECK(fake.give(small, 3 * 1024 * KiB, raw) == PORTAMEM_POOL_OK);
        CHECK(portamem_pool_close(fake.pool) == PORTAMEM_POOL_OK);
        CHECK(fake.owner.chunks.empty());
    }
}
