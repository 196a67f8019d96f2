// SPDX-License-Identifier: MIT
// The machinery of pools over streams and events that the test moves by hand.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "core_pool_fakes.hpp"

using namespace fakes;

TEST_CASE("core pool: warm pairs touch no event and no upstream") {
    FakeStream stream;
    FakePool fake;
    for (const std::size_t nbytes : {std::size_t{1}, 4 * KiB, 33 * KiB, 1024 * KiB}) {
        void* ptr = fake.take(nbytes, stream);
        REQUIRE(fake.give(ptr, nbytes, stream) == PORTAMEM_POOL_OK);
        const auto before = fake.figures();
        for (int i = 0; i < 1000; ++i) {
            CHECK(fake.take(nbytes, stream) == ptr);
            CHECK(fake.give(ptr, nbytes, stream) == PORTAMEM_POOL_OK);
        }
        CHECK(fake.figures().hits == before.hits + 1000);
        CHECK(fake.figures().misses == before.misses);
    }
    CHECK(fake.owner.marks == 0);
}

TEST_CASE("core pool: the largest block that caches hold, and the largest that threads share, stay beside others") {
    FakeStream stream;
    FakePool fake;
    void* small = fake.take(256, stream);
    void* large = fake.take(64 * 1024 * KiB, stream);
    void* own = fake.take(1024 * KiB, stream);
    REQUIRE(fake.give(small, 256, stream) == PORTAMEM_POOL_OK);
    for (int turn = 0; turn < 3; ++turn) {
        REQUIRE(fake.give(large, 64 * 1024 * KiB, stream) == PORTAMEM_POOL_OK);
        CHECK(portamem_pool_allocate_cached(fake.pool, 256, stream.identity) == small);
        CHECK(portamem_pool_deallocate_cached(fake.pool, small, 256, stream.identity) == 1);
        CHECK(portamem_pool_deallocate_cached(fake.pool, own, 1024 * KiB, stream.identity) == 1);
        CHECK(portamem_pool_allocate_cached(fake.pool, 1024 * KiB, stream.identity) == own);
        CHECK(fake.take(64 * 1024 * KiB, stream) == large);
    }
    REQUIRE(fake.give(own, 1024 * KiB, stream) == PORTAMEM_POOL_OK);
    REQUIRE(fake.give(large, 64 * 1024 * KiB, stream) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: a cache that has too much makes room, of every size") {
    FakeStream stream;
    FakePool fake;
    const std::size_t sizes[] = {300, 20 * KiB, 40 * KiB, 200 * KiB, 1024 * KiB, 5000 * KiB, 30000 * KiB};
    std::vector<std::pair<void*, std::size_t>> all;
    for (const std::size_t nbytes : sizes) {
        const std::size_t count = std::min<std::size_t>(200, 80 * 1024 * KiB / nbytes);
        for (std::size_t i = 0; i < count; ++i) all.emplace_back(fake.take(nbytes, stream), nbytes);
    }
    for (const auto& [ptr, nbytes] : all) REQUIRE(ptr != nullptr);
    const auto reserved = fake.figures().reserved;
    for (int turn = 0; turn < 20; ++turn) {  // each time in another order
        std::rotate(all.begin(), all.begin() + 37, all.end());
        for (const auto& [ptr, nbytes] : all) REQUIRE(fake.give(ptr, nbytes, stream) == PORTAMEM_POOL_OK);
        CHECK(fake.figures().used == 0);
        for (auto& [ptr, nbytes] : all) REQUIRE((ptr = fake.take(nbytes, stream)) != nullptr);
    }
    CHECK(fake.figures().reserved <= 2 * reserved);
    for (const auto& [ptr, nbytes] : all) REQUIRE(fake.give(ptr, nbytes, stream) == PORTAMEM_POOL_OK);
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
    CHECK(fake.figures().reserved == 0);
}

TEST_CASE("core pool: blocks that are kept as they were freed are merged before the upstream is asked") {
    FakeStream stream;
    FakeStream other;
    FakePool fake;
    std::vector<void*> all;
    for (int i = 0; i < 500; ++i) all.push_back(fake.take(64 * KiB, stream));
    for (void* ptr : all) REQUIRE(fake.give(ptr, 64 * KiB, stream) == PORTAMEM_POOL_OK);
    const auto reserved = fake.figures().reserved;
    for (FakeStream* on : {&stream, &other}) {
        void* const large = fake.take(1800 * KiB, *on);
        void* const slab = fake.take(700, *on);
        CHECK(fake.figures().reserved == reserved);
        CHECK(fake.give(large, 1800 * KiB, *on) == PORTAMEM_POOL_OK);
        CHECK(fake.give(slab, 700, *on) == PORTAMEM_POOL_OK);
    }
}

TEST_CASE("core pool: a steal waits once for all that was freed") {
    FakeStream donor;
    FakeStream thief;
    FakePool fake(false, 4096 * KiB);
    std::vector<void*> all;
    while (void* ptr = fake.take(200 * KiB, donor)) all.push_back(ptr);
    CHECK(portamem_pool_error(nullptr) == PORTAMEM_POOL_LIMIT);
    REQUIRE(all.size() > 10);
    const auto submitted = donor.submitted;
    const int marks = fake.owner.marks;
    for (void* ptr : all) REQUIRE(fake.give(ptr, 200 * KiB, donor) == PORTAMEM_POOL_OK);
    donor.run = 0;
    std::vector<void*> taken;
    for (std::size_t i = 0; i < all.size(); ++i) taken.push_back(fake.take(200 * KiB, thief));
    for (void* ptr : taken) CHECK(ptr != nullptr);
    CHECK(thief.waits[&donor] == submitted);
    CHECK(donor.run == 0);  // the host waited for nothing
    CHECK(fake.owner.marks - marks <= 2);
    CHECK(fake.figures().steals >= 1);
    for (void* ptr : taken) CHECK(fake.give(ptr, 200 * KiB, thief) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: large blocks that a stream takes from another cost an event for many") {
    FakeStream donor;
    FakeStream thief;
    FakePool fake(false, 256 * 1024 * KiB);
    std::vector<void*> all;
    while (void* ptr = fake.take(1024 * KiB, donor)) all.push_back(ptr);
    for (void* ptr : all) REQUIRE(fake.give(ptr, 1024 * KiB, donor) == PORTAMEM_POOL_OK);
    REQUIRE(all.size() > 200);
    std::vector<void*> taken;
    for (int i = 0; i < 128; ++i) {
        taken.push_back(fake.take(1024 * KiB, thief));
        REQUIRE(taken.back() != nullptr);
    }
    CHECK(thief.waits[&donor] == donor.submitted);
    CHECK(fake.figures().steals <= 128 / 8);
    for (void* ptr : taken) REQUIRE(fake.give(ptr, 1024 * KiB, thief) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: allocating on one stream and freeing on another costs an event for many blocks") {
    for (const std::size_t nbytes : {std::size_t{300}, 64 * KiB, 512 * KiB}) {
        CAPTURE(nbytes);
        FakeStream producer;
        FakeStream consumer;
        FakePool fake;
        std::map<void*, std::uint64_t> freed;  // the work that the consumer had been given when it freed the block
        constexpr int kTurns = 20000;
        for (int turn = 0; turn < kTurns; ++turn) {
            void* ptr = fake.take(nbytes, producer);
            REQUIRE(ptr != nullptr);
            const auto before = freed.find(ptr);
            if (before != freed.end()) REQUIRE(producer.waits[&consumer] >= before->second);
            freed[ptr] = ++consumer.submitted;
            REQUIRE(fake.give(ptr, nbytes, consumer) == PORTAMEM_POOL_OK);
        }
        CHECK(fake.owner.marks > 0);
        CHECK(fake.owner.marks <= kTurns / 8);
        CHECK(fake.owner.synchronized == 0);
        CHECK(fake.figures().reserved <= 128 * 1024 * KiB);
    }
}

TEST_CASE("core pool: streams that both allocate do not take each other's blocks out of the caches") {
    FakeStream one;
    FakeStream other;
    FakePool fake;
    for (int turn = 0; turn < 100; ++turn) {
        for (FakeStream* stream : {&one, &other}) {
            std::vector<void*> all;
            for (int i = 0; i < 20; ++i) all.push_back(fake.take(64 * KiB, *stream));
            for (void* ptr : all) REQUIRE(fake.give(ptr, 64 * KiB, *stream) == PORTAMEM_POOL_OK);
        }
    }
    CHECK(fake.owner.marks == 0);
}

TEST_CASE("core pool: blocks that cannot be passed on stay where they were freed") {
    FakeStream producer;
    FakeStream consumer;
    FakePool fake;
    std::vector<void*> all;
    for (int i = 0; i < 31; ++i) all.push_back(fake.take(64 * KiB, producer));  // all blocks of the first chunk
    for (void* ptr : all) REQUIRE(fake.give(ptr, 64 * KiB, consumer) == PORTAMEM_POOL_OK);
    consumer.captured = true;
    for (void*& ptr : all) {
        void* const other = fake.take(64 * KiB, producer);
        CHECK(std::find(all.begin(), all.end(), other) == all.end());
        ptr = other;
    }
    CHECK(fake.owner.marks == 0);
    for (void* ptr : all) REQUIRE(fake.give(ptr, 64 * KiB, producer) == PORTAMEM_POOL_OK);
    consumer.captured = false;
    fake.owner.left = 0;
    fake.owner.fail_next_mark = 1;
    all.clear();
    int refused = 0;
    for (int i = 0; i < 64; ++i) {  // there are 62 at least, half of them with the consumer
        void* const ptr = fake.take(64 * KiB, producer);
        if (ptr == nullptr) ++refused;
        if (ptr != nullptr) all.push_back(ptr);
    }
    CHECK(refused >= 1);
    CHECK(all.size() >= 62);  // a mark that fails loses nothing
    CHECK(producer.waits[&consumer] == consumer.submitted);
    for (void* ptr : all) REQUIRE(fake.give(ptr, 64 * KiB, consumer) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: host-accessible memory waits for the event at or after its free") {
    FakeStream stream;
    FakeStream other;
    FakePool fake(true);
    void* first = fake.take(100 * KiB, stream);
    CHECK(fake.give(first, 100 * KiB, stream) == PORTAMEM_POOL_OK);
    std::vector<void*> later;
    for (int i = 0; i < 200; ++i) {
        later.push_back(fake.take(100 * KiB, i % 2 == 0 ? stream : other));
        CHECK(later.back() != first);
    }
    bool is_back = false;
    for (int i = 0; i < 200 && !is_back; ++i) {
        stream.run = stream.submitted;
        later.push_back(fake.take(100 * KiB, stream));
        is_back = later.back() == first;
    }
    CHECK(is_back);
    for (void* ptr : later) CHECK(fake.give(ptr, 100 * KiB, other) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: captured streams are served at hand, refused otherwise, and never marked") {
    FakeStream captured;
    FakeStream other;
    FakePool fake;
    void* ptr = fake.take(200 * KiB, captured);
    CHECK(fake.give(ptr, 200 * KiB, captured) == PORTAMEM_POOL_OK);
    captured.captured = true;
    CHECK(fake.take(200 * KiB, captured) == ptr);
    CHECK(fake.take(100 * 1024 * KiB, captured) == nullptr);
    const char* text = "";
    CHECK(portamem_pool_error(&text) == PORTAMEM_POOL_INVALID);
    CHECK(std::string(text).find("captured") != std::string::npos);
    CHECK(fake.give(ptr, 200 * KiB, captured) == PORTAMEM_POOL_OK);
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.marks == 0);
    CHECK(fake.figures().reserved > 0);
    captured.captured = false;
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
    CHECK(fake.figures().reserved == 0);
}

TEST_CASE("core pool: a stream that ended leaves its memory behind its last event") {
    FakeStream ended;
    FakeStream other;
    FakePool fake(false, 2048 * KiB);
    void* ptr = fake.take(1500 * KiB, ended);
    CHECK(fake.give(ptr, 1500 * KiB, ended) == PORTAMEM_POOL_OK);
    ++fake.owner.events;
    portamem_pool_stream_ended(fake.pool, ended.identity, new FakeEvent{&ended, ended.submitted});
    CHECK(fake.take(1500 * KiB, other) == ptr);
    CHECK(other.waits[&ended] == 1);
    CHECK(ended.run == 0);
    CHECK(fake.give(ptr, 1500 * KiB, other) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: streams that come and go leave their events behind for a while only") {
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        std::vector<std::unique_ptr<FakeStream>> streams;  // events name them, to the pool's end
        FakePool fake(host_accessible);
        int most = 0;
        for (int i = 0; i < 3000; ++i) {
            FakeStream& stream = *streams.emplace_back(std::make_unique<FakeStream>());
            void* const ptr = fake.take(100, stream);
            CHECK(fake.give(ptr, 100, stream) == PORTAMEM_POOL_OK);
            ++fake.owner.events;
            portamem_pool_stream_ended(fake.pool, stream.identity, new FakeEvent{&stream, stream.submitted});
            if (i >= 10) streams[static_cast<std::size_t>(i) - 10]->run = 1;  // work is some streams behind
            most = std::max(most, fake.owner.events.load());
        }
        CHECK(most < 64);
    }
}

TEST_CASE("core pool: nobody is refused for memory that another thread is just taking over from a stream") {
    FakeStream donor;
    FakeStream thief;
    FakeStream third;
    FakePool fake;
    fake.owner.left = 16 * 1024 * KiB + 64 * KiB;
    void* const large = fake.take(15 * 1024 * KiB, donor);
    REQUIRE(large != nullptr);
    fake.owner.left = 0;
    std::vector<void*> rest;
    for (void* ptr; (ptr = fake.take(32 * KiB, donor)) != nullptr;) rest.push_back(ptr);
    CHECK(fake.give(large, 15 * 1024 * KiB, donor) == PORTAMEM_POOL_OK);
    CHECK(portamem_pool_trim(fake.pool, SIZE_MAX / 2) == PORTAMEM_POOL_OK);  // out of the cache
    fake.give(fake.take(15 * 1024 * KiB, donor), 15 * 1024 * KiB, donor);    // and the donor's again
    void* taken = nullptr;
    std::thread waits;
    fake.owner.while_waiting = [&] {  // the thief has all that is free in its hands
        waits = std::thread([&] { taken = fake.take(12 * 1024 * KiB, third); });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    };
    void* const small = portamem_pool_allocate(fake.pool, 1024 * KiB, thief.identity, &thief);  // with no work after it
    REQUIRE(waits.joinable());
    waits.join();
    CHECK(small != nullptr);
    CHECK(taken != nullptr);
    fake.give(small, 1024 * KiB, thief);
    fake.give(taken, 12 * 1024 * KiB, third);
    for (void* ptr : rest) fake.give(ptr, 32 * KiB, donor);
}

TEST_CASE("core pool: a trim marks each stream once") {
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        FakeStream stream;
        FakePool fake(host_accessible);
        fake.give(fake.take(1000, stream), 1000, stream);
        const int before = fake.owner.marks;
        CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
        CHECK(fake.owner.marks - before == 1);
    }
}

TEST_CASE("core pool: a trim of one stream gives its chunks back, and waits for no other stream") {
    constexpr std::size_t large = 65536 * KiB + 256;  // in no cache, and a chunk of its own
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        FakeStream mine;
        FakeStream other;
        FakePool fake(host_accessible);
        void* const kept = fake.take(large, other);
        fake.give(fake.take(large, mine), large, mine);
        fake.give(kept, large, other);
        REQUIRE(fake.owner.chunks.size() == 2);
        CHECK(portamem_pool_trim_stream(fake.pool, mine.identity, &mine, SIZE_MAX) == PORTAMEM_POOL_OK);
        CHECK(fake.owner.chunks.size() == 2);
        CHECK(portamem_pool_trim_stream(fake.pool, portamem_new_identity(), nullptr, 0) == PORTAMEM_POOL_OK);
        CHECK(portamem_pool_trim_stream(fake.pool, mine.identity, &mine, 0) == PORTAMEM_POOL_OK);
        CHECK(mine.run == mine.submitted);
        CHECK(other.run == 0);
        CHECK(fake.owner.chunks.size() == 1);
        if (!host_accessible) {
            CHECK(fake.take(large, other) == kept);  // its stream still has it at hand
            fake.give(kept, large, other);
        }
        CHECK(portamem_pool_trim_stream(fake.pool, other.identity, &other, 0) == PORTAMEM_POOL_OK);
        CHECK(other.run == other.submitted);
        CHECK(fake.owner.chunks.empty());
    }
}

TEST_CASE("core pool: a trim of one stream gives back what has run, whoever freed it") {
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        FakeStream mine;
        FakeStream before;  // the same handle under another identity, as of a Stream that has ended
        FakePool fake(host_accessible);
        std::thread([&] {
            for (const std::size_t nbytes : {std::size_t{1000}, 20 * 1024 * KiB}) {
                fake.give(fake.take(nbytes, before), nbytes, before);
            }
        }).join();
        fake.give(fake.take(1000, mine), 1000, mine);
        before.run = before.submitted;
        CHECK(portamem_pool_trim_stream(fake.pool, mine.identity, &mine, 0) == PORTAMEM_POOL_OK);
        CHECK(fake.owner.chunks.empty());
    }
}

TEST_CASE("core pool: a trim of one stream empties that stream's caches of all threads, and shares no chunk out") {
    FakeStream mine;
    FakeStream other;
    FakePool fake;
    fake.give(fake.take(1000, other), 1000, other);
    std::thread([&] { fake.give(fake.take(1000, mine), 1000, mine); }).join();
    std::thread([&] {
        fake.give(fake.take(1000, mine), 1000, mine);
        REQUIRE(fake.owner.chunks.size() == 1);
        CHECK(portamem_pool_trim_stream(fake.pool, mine.identity, &mine, 0) == PORTAMEM_POOL_OK);
    }).join();
    CHECK(mine.run == mine.submitted);
    CHECK(other.run == 0);
    CHECK(fake.owner.chunks.size() == 1);  // the other stream has some of it
    fake.give(fake.take(1000, mine), 1000, mine);
    CHECK(portamem_pool_trim_stream(fake.pool, other.identity, &other, 0) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.chunks.size() == 1);  // now this stream has
    CHECK(portamem_pool_trim_stream(fake.pool, mine.identity, &mine, 0) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.chunks.empty());
}

TEST_CASE("core pool: out of memory and back, a thousand times without drift") {
    FakeStream one;
    FakeStream other;
    FakePool fake(false, 8192 * KiB);
    std::size_t least = SIZE_MAX;
    for (int turn = 0; turn < 1000; ++turn) {
        const std::size_t nbytes = (100 + static_cast<std::size_t>(turn % 7) * 50) * KiB;
        std::vector<void*> all;
        while (void* ptr = fake.take(nbytes, turn % 2 == 0 ? one : other)) all.push_back(ptr);
        if (all.size() * nbytes < least) least = all.size() * nbytes;
        for (void* ptr : all) REQUIRE(fake.give(ptr, nbytes, one) == PORTAMEM_POOL_OK);
        REQUIRE(fake.figures().used == 0);
    }
    CHECK(least > 6000 * KiB);
    CHECK(portamem_pool_close(fake.pool) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.chunks.empty());
}

TEST_CASE("core pool: an owner that knows less of a pool than there is has nothing in its place") {
    FakeOwner owner;
    FakeStream stream;
    portamem_pool_ops ops = fake_ops();
    std::memset(reinterpret_cast<char*>(&ops) + offsetof(portamem_pool_ops, keep), 0x7f,
                sizeof ops - offsetof(portamem_pool_ops, keep));  // not the owner's any more
    ops.size = offsetof(portamem_pool_ops, keep);
    portamem_pool_options options{};
    std::memset(reinterpret_cast<char*>(&options) + offsetof(portamem_pool_options, host_accessible), 0x7f,
                sizeof options - offsetof(portamem_pool_options, host_accessible));
    options.size = offsetof(portamem_pool_options, host_accessible);
    portamem_pool* const pool = portamem_pool_create(&ops, &owner, &options);
    REQUIRE(pool != nullptr);
    void* const ptr = portamem_pool_allocate(pool, 5000, stream.identity, &stream);
    REQUIRE(ptr != nullptr);
    ++stream.submitted;
    CHECK(portamem_pool_deallocate(pool, ptr, 5000, stream.identity, &stream) == PORTAMEM_POOL_OK);
    CHECK(portamem_pool_allocate(pool, 5000, stream.identity, &stream) == ptr);  // not host-accessible: at once
    CHECK(portamem_pool_deallocate(pool, ptr, 5000, stream.identity, &stream) == PORTAMEM_POOL_OK);
    CHECK(portamem_pool_trim(pool, 0) == PORTAMEM_POOL_OK);
    portamem_pool_destroy(pool);
    CHECK(owner.chunks.empty());
}
