// SPDX-License-Identifier: MIT
// A pool with a limit, or with an upstream that has little left, serves what fits into that, to the byte.
#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "core_pool_fakes.hpp"

using namespace fakes;

namespace {

constexpr std::size_t MiB = 1024 * KiB;

/// A pool that can have so many bytes: by its own limit, or of its upstream.
struct Limited {
    FakeStream stream{};
    FakePool fake;

    Limited(bool host_accessible, bool by_upstream, std::size_t limit)
        : fake(host_accessible, by_upstream ? 0 : limit) {
        if (by_upstream) fake.owner.left = limit;
    }
    void* take(std::size_t nbytes) {
        void* const ptr = fake.take(nbytes, stream);
        stream.run = stream.submitted;
        return ptr;
    }
    void give(void* ptr, std::size_t nbytes) { REQUIRE(fake.give(ptr, nbytes, stream) == PORTAMEM_POOL_OK); }
};

}  // namespace

TEST_CASE("core pool: a limit serves what fits into it, to the byte") {
    const std::size_t limits[] = {1,         100,          256,     257,     1000,    1024,         4096,
                                  33 * KiB,  64 * KiB,     100'000, MiB - 1, MiB + 1, 10 * MiB + 1, 64 * MiB + 7,
                                  101 * MiB, 300 * MiB + 3};
    for (const bool host_accessible : {false, true}) {
        for (const bool by_upstream : {false, true}) {
            for (const std::size_t limit : limits) {
                CAPTURE(host_accessible);
                CAPTURE(by_upstream);
                CAPTURE(limit);
                Limited pool(host_accessible, by_upstream, limit);
                for (int turn = 0; turn < 3; ++turn) {
                    const std::size_t part = std::max<std::size_t>(limit / 4, 1);
                    void* const some = pool.take(part);
                    REQUIRE(some != nullptr);
                    pool.give(some, part);
                    void* const all = pool.take(limit);
                    REQUIRE(all != nullptr);
                    CHECK(reinterpret_cast<std::uintptr_t>(all) % 256 == 0);
                    std::fill_n(static_cast<unsigned char*>(all), std::min<std::size_t>(limit, MiB), std::uint8_t{1});
                    CHECK(pool.take(1) == nullptr);
                    pool.give(all, limit);
                }
                CHECK(pool.take(limit + 1) == nullptr);
                CHECK(pool.fake.figures().used == 0);
                CHECK(pool.fake.figures().peak <= limit);
            }
        }
    }
}

TEST_CASE("core pool: a small limit is filled with small blocks, of which each is found by its address alone") {
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        for (const std::size_t limit : {4096 * std::size_t{1}, 48 * KiB, 200 * KiB}) {
            CAPTURE(limit);
            Limited pool(host_accessible, false, limit);
            std::vector<void*> blocks;
            while (void* const ptr = pool.take(256)) {
                std::fill_n(static_cast<unsigned char*>(ptr), 256, static_cast<std::uint8_t>(blocks.size()));
                blocks.push_back(ptr);
            }
            CHECK(256 * blocks.size() >= limit / 100 * 95);
            if (limit < 48 * KiB) CHECK(256 * blocks.size() == limit);
            for (std::size_t i = 0; i < blocks.size(); ++i) {
                CHECK(static_cast<unsigned char*>(blocks[i])[255] == static_cast<std::uint8_t>(i));
                CHECK(pool.fake.give(blocks[i], 255, pool.stream) == PORTAMEM_POOL_INVALID);
                CHECK(pool.fake.give(static_cast<char*>(blocks[i]) + 8, 256, pool.stream) == PORTAMEM_POOL_INVALID);
                pool.give(blocks[i], 256);
                CHECK(pool.fake.give(blocks[i], 256, pool.stream) == PORTAMEM_POOL_INVALID);
            }
            void* const all = pool.take(limit);
            CHECK(all != nullptr);
            if (all != nullptr) pool.give(all, limit);
        }
    }
}

TEST_CASE("core pool: blocks of all sizes come and go at a limit, and what is not out fits again") {
    for (const bool host_accessible : {false, true}) {
        for (const std::size_t limit : {30'000 * std::size_t{1}, 500'000 * std::size_t{1}, 7 * MiB + 13}) {
            CAPTURE(host_accessible);
            CAPTURE(limit);
            Limited pool(host_accessible, false, limit);
            std::mt19937_64 random(limit);
            std::vector<std::pair<unsigned char*, std::size_t>> live;
            for (int call = 0; call < 4000; ++call) {
                if (random() % 2 == 0) {
                    const std::size_t nbytes = 1 + random() % (std::size_t{1} << (6 + random() % 16));
                    auto* const ptr = static_cast<unsigned char*>(pool.take(nbytes));
                    if (ptr == nullptr) continue;
                    ptr[0] = ptr[nbytes - 1] = static_cast<unsigned char>(nbytes);
                    live.emplace_back(ptr, nbytes);
                } else if (!live.empty()) {
                    std::swap(live[random() % live.size()], live.back());
                    const auto [ptr, nbytes] = live.back();
                    CHECK(ptr[0] == static_cast<unsigned char>(nbytes));
                    CHECK(ptr[nbytes - 1] == static_cast<unsigned char>(nbytes));
                    pool.give(ptr, nbytes);
                    live.pop_back();
                }
            }
            CHECK(pool.fake.figures().peak <= limit);
            for (const auto& [ptr, nbytes] : live) pool.give(ptr, nbytes);
            void* const all = pool.take(limit);
            REQUIRE(all != nullptr);
            pool.give(all, limit);
            CHECK(portamem_pool_close(pool.fake.pool) == PORTAMEM_POOL_OK);
        }
    }
}

TEST_CASE("core pool: what is freed on a stream above 1 MiB is that of all its threads") {
    constexpr int kThreads = 8;
    for (const std::size_t nbytes : {2 * MiB, 40 * MiB, 64 * MiB, 300 * MiB}) {
        CAPTURE(nbytes);
        FakeStream stream;
        FakePool fake;
        std::vector<void*> seen;
        std::atomic<int> turn{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; ++i) {
            threads.emplace_back([&, i] {  // one after the other, and all live on
                while (turn.load() != i) std::this_thread::yield();
                void* const ptr = fake.take(nbytes, stream);
                seen.push_back(ptr);
                if (ptr != nullptr) (void)fake.give(ptr, nbytes, stream);
                ++turn;
                while (turn.load() != kThreads) std::this_thread::yield();
            });
        }
        for (auto& thread : threads) thread.join();
        CHECK(std::count(seen.begin(), seen.end(), seen[0]) == kThreads);
        CHECK(fake.figures().misses == 1);
        CHECK(fake.owner.marks == 0);
    }
}
