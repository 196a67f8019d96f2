// SPDX-License-Identifier: MIT
// Pools: memory of another resource, kept and handed out again.
#include "pm_pool_support.hpp"

#include <set>

namespace {

Pool device_pool(pm::PoolOptions options = {}) {
    return pm::PoolMemoryResource::create(device_resource(), std::move(options));
}

}  // namespace

TEST_CASE("pm pool: a block that was freed is the next one of its stream") {
    if (no_device()) return;
    const Pool pool = device_pool();
    const StreamPtr stream = pm::Stream::create(0);
    for (const std::size_t nbytes :
         {std::size_t{1}, std::size_t{256}, std::size_t{5000}, 64 * MiB / 1024, MiB, 3 * MiB}) {
        void* first = pool->allocate(nbytes, stream);
        REQUIRE(first != nullptr);
        CHECK(reinterpret_cast<std::uintptr_t>(first) % 256 == 0);
        CHECK(keeps_bytes(first, nbytes, 3));
        CHECK(pool->live_buffers() == 1);
        CHECK(pool->live_bytes() == nbytes);
        pool->deallocate(first, nbytes, stream);
        CHECK(pool->live_buffers() == 0);
        CHECK(pool->live_bytes() == 0);
        void* again = pool->allocate(nbytes, stream);
        if (!pool->is_host_accessible()) CHECK(again == first);
        pool->deallocate(again, nbytes, stream);
    }
    CHECK(pool->stats().used == 0);
    CHECK(pool->stats().reserved > 0);
    pool->trim();
    CHECK(pool->stats().reserved == 0);
    CHECK(pool->upstream()->live_buffers() == 0);
    pool->close();
    CHECK(pool->is_closed());
    CHECK_THROWS_AS(pool->allocate(1, stream), std::invalid_argument);
}

TEST_CASE("pm pool: blocks never overlap and keep what is written") {
    if (no_device()) return;
    const Pool pool = device_pool();
    const StreamPtr stream = pm::Stream::create(0);
    struct Piece {
        char* ptr;
        std::size_t nbytes;
        unsigned seed;
    };
    std::vector<Piece> pieces;
    std::set<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
    unsigned random = 12345;
    const auto next = [&random] { return random = random * 1664525U + 1013904223U, random >> 8; };
    for (unsigned round = 0; round < 1500; ++round) {
        if (pieces.size() > 150 || (next() % 3 == 0 && !pieces.empty())) {
            const std::size_t i = next() % pieces.size();
            CHECK(contents(pieces[i].ptr, pieces[i].nbytes) == pattern(pieces[i].nbytes, pieces[i].seed));
            const auto begin = reinterpret_cast<std::uintptr_t>(pieces[i].ptr);
            ranges.erase({begin, begin + pieces[i].nbytes});
            pool->deallocate(pieces[i].ptr, pieces[i].nbytes, stream);
            pieces[i] = pieces.back();
            pieces.pop_back();
            continue;
        }
        const std::size_t nbytes = 1 + next() % (std::size_t{1} << (4 + next() % 16));
        auto* ptr = static_cast<char*>(pool->allocate(nbytes, stream));
        const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
        const auto after = ranges.lower_bound({begin, 0});
        if (after != ranges.end()) REQUIRE(begin + nbytes <= after->first);
        if (after != ranges.begin()) REQUIRE(std::prev(after)->second <= begin);
        ranges.insert({begin, begin + nbytes});
        REQUIRE(keeps_bytes(ptr, nbytes, round));
        pieces.push_back({ptr, nbytes, round});
    }
    for (const Piece& piece : pieces) {
        CHECK(contents(piece.ptr, piece.nbytes) == pattern(piece.nbytes, piece.seed));
        pool->deallocate(piece.ptr, piece.nbytes, stream);
    }
    CHECK(pool->live_buffers() == 0);
    pool->close();
    CHECK(pool->stats().reserved == 0);
    CHECK(pool->upstream()->live_buffers() == 0);
}

TEST_CASE("pm pool: wrong frees are refused in words") {
    if (no_device()) return;
    const Pool pool = device_pool();
    const StreamPtr stream = pm::Stream::create(0);
    for (const std::size_t nbytes : {std::size_t{300}, std::size_t{100000}, 65 * MiB}) {
        auto* ptr = static_cast<char*>(pool->allocate(nbytes, stream));
        CHECK(contains(refusal<std::invalid_argument>([&] { pool->deallocate(ptr, nbytes * 4, stream); }),
                       "give the size"));
        for (const std::size_t wrong : {nbytes - 1, nbytes + 1}) {  // of the same block
            CHECK(contains(refusal<std::invalid_argument>([&] { pool->deallocate(ptr, wrong, stream); }),
                           "is of " + std::to_string(nbytes) + " bytes, not of " + std::to_string(wrong)));
        }
        CHECK(pool->stats().used == nbytes);
        CHECK(contains(refusal<std::invalid_argument>([&] { pool->deallocate(ptr + 256, nbytes, stream); }), "0x"));
        CHECK(contains(refusal<std::invalid_argument>([&] { pool->deallocate(ptr + 8, nbytes, stream); }), "0x"));
        CHECK(pool->live_buffers() == 1);
        pool->deallocate(ptr, nbytes, stream);
        CHECK(contains(refusal<std::invalid_argument>([&] { pool->deallocate(ptr, nbytes, stream); }), "freed before"));
    }
    int local = 0;
    CHECK_THROWS_AS(pool->deallocate(&local, sizeof local, stream), std::invalid_argument);
    CHECK(pool->live_buffers() == 0);
    CHECK(pool->allocate(0, stream) == nullptr);
    CHECK(pool->live_buffers() == 1);
    CHECK_THROWS_AS(pool->close(), pm::ExportError);
    pool->deallocate(nullptr, 0, stream);
    pool->close();
}

TEST_CASE("pm pool: another stream takes memory over behind the work that used it") {
    if (no_device()) return;
    const Pool pool = device_pool({3 * MiB, nullptr});
    const StreamPtr one = pm::Stream::create(0);
    const StreamPtr other = pm::Stream::create(0);
    if (pool->is_host_accessible()) return;
    void* ptr = pool->allocate(2 * MiB, one);
    const Gate gate(one);
    pool->deallocate(ptr, 2 * MiB, one);
    void* taken = pool->allocate(2 * MiB, other);  // the limit leaves no other
    CHECK(taken == ptr);
    CHECK(pool->stats().steals == 1);
    CHECK_FALSE(other->query());
    gate.open();
    other->synchronize();
    pool->deallocate(taken, 2 * MiB, other);
    pool->close();
}

TEST_CASE("pm pool: a share of the peak is kept, also where work was pending when the memory was freed") {
    if (no_device()) return;
    pm::PoolOptions options;
    options.release = pm::PoolOptions::keep_share_of_peak(0.25);
    const auto pool = std::make_shared<pm::PoolMemoryResource>(std::make_shared<pm::DeviceMemoryResource>(0), options);
    const StreamPtr stream = pm::Stream::create(0);
    std::vector<void*> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(pool->allocate(72 * MiB, stream));
    const std::size_t peak = pool->stats().peak;
    {
        const Gate gate(stream);
        for (void* block : blocks) pool->deallocate(block, 72 * MiB, stream);
        CHECK(pool->stats().reserved == peak);
    }
    CHECK(eventually([&] { return pool->stats().reserved <= peak / 4; }));  // without a call of the pool
    CHECK(eventually([&] { return pool->upstream()->live_bytes() == pool->stats().reserved; }));
    pool->close();
}

TEST_CASE("pm pool: of the events of streams that come and go it keeps few") {
    if (no_device()) return;
    for (const Resource& upstream : {device_resource(), pinned_resource()}) {
        CAPTURE(std::string(pm::to_string(upstream->kind())));
        const auto runtime = pm::detail::make_pool(upstream, {});
        for (int i = 0; i < 500; ++i) {
            StreamPtr stream = pm::Stream::create(0);
            void* const ptr = portamem_pool_allocate(runtime->pool(), 100, stream->identity(), &stream);
            REQUIRE(ptr != nullptr);
            REQUIRE(portamem_pool_deallocate(runtime->pool(), ptr, 100, stream->identity(), &stream) == 0);
        }
        REQUIRE(portamem_pool_trim(runtime->pool(), 0) == 0);
        CHECK(runtime->events().idle() > 0);
        CHECK(runtime->events().idle() <= pm::detail::PoolEvents::kMostIdle);
    }
}

TEST_CASE("pm pool: where there is no room for many small blocks, there is for one") {
    if (no_device()) return;
    const auto works = [](const Pool& pool) {
        const StreamPtr stream = pm::Stream::create(0);
        void* const ptr = pool->allocate(10, stream);
        const DeviceMemory target(10);
        const Bytes written = pattern(10, 1);
        CHECK(rt::Memcpy(ptr, written.data(), 10, MemcpyKind::Default) == Success);
        CHECK(rt::Memcpy(target.ptr, ptr, 10, MemcpyKind::Default) == Success);
        CHECK(contents(target.ptr, 10) == written);
        CHECK_THROWS_AS((void)pool->allocate(128 * 1024, stream), pm::OutOfMemory);
        CHECK(contains(refusal<std::invalid_argument>([&] { pool->deallocate(ptr, 11, stream); }), "is of 10 bytes"));
        pool->deallocate(ptr, 10, stream);
        void* const whole = pool->allocate(64 * 1024, stream);  // none of it is lost
        pool->deallocate(whole, 64 * 1024, stream);
        pool->close();
    };
    for (const std::size_t limit : {std::size_t{64} * 1024, std::size_t{128} * 1024 - 1}) {
        CAPTURE(limit);
        works(pool_over(device_resource(), limit));
        works(pool_over(std::make_shared<pm::LimitingAdaptor>(device_resource(), limit)));
    }
}

TEST_CASE("pm pool: refusals are neither hits nor misses") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource(), 8 * MiB);
    if (reaches_host(pool)) return;
    const StreamPtr stream = pm::Stream::create(0);
    void* const ptr = pool->allocate(MiB, stream);
    pool->deallocate(ptr, MiB, stream);
    for (int i = 0; i < 10; ++i) pool->deallocate(pool->allocate(MiB, stream), MiB, stream);
    const auto before = pool->stats();
    CHECK(before.hits == 10);
    CHECK(before.misses == 1);
    for (int i = 0; i < 100; ++i) CHECK_THROWS_AS(pool->allocate(64 * MiB, stream), pm::OutOfMemory);
    CHECK(pool->stats().hits == before.hits);
    CHECK(pool->stats().misses == before.misses);
}
