// SPDX-License-Identifier: MIT
// How much a thread's cache for a stream holds, and what becomes of a free where it is full.
#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core_pool_fakes.hpp"

using namespace fakes;

namespace {

constexpr std::size_t MiB = 1024 * KiB;
constexpr std::size_t kMostCached = (80 + 80 + 32) * MiB;  // by the thread, by the stream, and of the sizes between

std::size_t cached_bytes(const FakePool& fake) {
    std::size_t found = 0;
    const auto add = [](void* self, const portamem_pool_piece* piece) {
        if (piece->state == PORTAMEM_POOL_PIECE_CACHED) *static_cast<std::size_t*>(self) += piece->nbytes;
    };
    REQUIRE(portamem_pool_snapshot(fake.pool, add, &found) == 0);
    return found;
}

}  // namespace

TEST_CASE("core pool: caches of what was freed are full where the header says") {
    FakeStream stream;
    FakePool fake;
    std::mt19937_64 random(7);
    std::uniform_int_distribution<std::size_t> exponent(5, 12);
    struct Array {
        void* ptr;
        std::size_t nbytes;
    };
    std::vector<Array> live;
    for (int turn = 0; turn < 6000; ++turn) {
        if (live.size() < 150) {
            const std::size_t least = KiB << exponent(random);
            const std::size_t nbytes = least + random() % (16 * KiB);
            live.push_back({fake.take(nbytes, stream), nbytes});
            REQUIRE(live.back().ptr != nullptr);
        }
        if (live.size() < 150) continue;
        const bool all = turn % 1000 == 999;
        do {
            std::swap(live[random() % live.size()], live.back());
            REQUIRE(fake.give(live.back().ptr, live.back().nbytes, stream) == PORTAMEM_POOL_OK);
            live.pop_back();
            REQUIRE(cached_bytes(fake) <= kMostCached);
        } while (all && !live.empty());
        if (all) CHECK(cached_bytes(fake) > kMostCached / 4);
    }
    for (const Array& array : live) REQUIRE(fake.give(array.ptr, array.nbytes, stream) == PORTAMEM_POOL_OK);
    // The largest that a cache takes has to find room, and then does without the upstream.
    for (int turn = 0; turn < 100; ++turn) {
        void* const ptr = fake.take(64 * MiB, stream);
        REQUIRE(ptr != nullptr);
        REQUIRE(fake.give(ptr, 64 * MiB, stream) == PORTAMEM_POOL_OK);
        REQUIRE(cached_bytes(fake) <= kMostCached);
    }
    const auto misses = fake.figures().misses;
    void* const ptr = fake.take(64 * MiB, stream);
    CHECK(fake.figures().misses == misses);
    CHECK(fake.give(ptr, 64 * MiB, stream) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: a block at hand that is a little larger serves, and is freed as what was asked for") {
    FakeStream stream;
    FakePool fake;
    // Between 256 and 512 KiB a class ends each 16 KiB.
    void* const block = fake.take(320 * KiB, stream);
    REQUIRE(fake.give(block, 320 * KiB, stream) == PORTAMEM_POOL_OK);
    for (const std::size_t nbytes : {320 * KiB, 304 * KiB, 288 * KiB + 1, 288 * KiB, 272 * KiB + 1}) {
        CAPTURE(nbytes);
        REQUIRE(fake.take(nbytes, stream) == block);
        CHECK(fake.figures().used == nbytes);
        const std::size_t others[] = {nbytes - 16 * KiB, nbytes - 1,        nbytes + 1,
                                      nbytes + 16 * KiB, nbytes + 32 * KiB, 100};
        for (const std::size_t other : others) CHECK(fake.give(block, other, stream) == PORTAMEM_POOL_INVALID);
        const char* text = nullptr;
        CHECK(portamem_pool_error(&text) == PORTAMEM_POOL_INVALID);
        CHECK(std::string(text).find("is of " + std::to_string(nbytes) + " bytes") != std::string::npos);
        REQUIRE(fake.give(block, nbytes, stream) == PORTAMEM_POOL_OK);
        CHECK(fake.give(block, nbytes, stream) == PORTAMEM_POOL_INVALID);
        CHECK(fake.figures().used == 0);
        // Again and again it costs what a block of its own class does: the cache alone serves.
        REQUIRE(portamem_pool_allocate_cached(fake.pool, nbytes, stream.identity) == block);
        CHECK(fake.figures().used == nbytes);
        CHECK(portamem_pool_deallocate_cached(fake.pool, block, nbytes + 16 * KiB, stream.identity) == 0);
        CHECK(portamem_pool_deallocate_cached(fake.pool, block, nbytes - 16 * KiB, stream.identity) == 0);
        REQUIRE(portamem_pool_deallocate_cached(fake.pool, block, nbytes, stream.identity) == 1);
        CHECK(portamem_pool_deallocate_cached(fake.pool, block, nbytes, stream.identity) == 0);
        CHECK(fake.figures().used == 0);
        CHECK(fake.figures().live == 0);
    }
    CHECK(cached_bytes(fake) == 320 * KiB);
    void* const smaller = fake.take(272 * KiB, stream);  // three classes below
    CHECK(smaller != block);
    CHECK(fake.take(320 * KiB, stream) == block);
    REQUIRE(fake.give(smaller, 272 * KiB, stream) == PORTAMEM_POOL_OK);
    REQUIRE(fake.give(block, 320 * KiB, stream) == PORTAMEM_POOL_OK);
    // Small blocks are cut many at once: each class has its own.
    void* const small = fake.take(32 * KiB, stream);
    REQUIRE(fake.give(small, 32 * KiB, stream) == PORTAMEM_POOL_OK);
    void* const another = fake.take(31 * KiB, stream);
    CHECK(another != small);
    REQUIRE(fake.give(another, 31 * KiB, stream) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: a stream that takes a block of another leaves it most of those it keeps") {
    FakeStream donor;
    FakeStream thief;
    FakePool fake(false, 40 * MiB);
    std::vector<void*> all;
    while (void* ptr = fake.take(64 * KiB, donor)) all.push_back(ptr);
    for (void* ptr : all) REQUIRE(fake.give(ptr, 64 * KiB, donor) == PORTAMEM_POOL_OK);
    REQUIRE(all.size() > 500);
    void* const stolen = fake.take(64 * KiB, thief);
    REQUIRE(stolen != nullptr);
    CHECK(fake.figures().steals == 1);
    std::vector<void*> again;
    for (std::size_t i = 0; i < all.size() - 100; ++i) again.push_back(fake.take(64 * KiB, donor));
    CHECK(fake.figures().steals == 1);
    for (void* ptr : again) REQUIRE(fake.give(ptr, 64 * KiB, donor) == PORTAMEM_POOL_OK);
    REQUIRE(fake.give(stolen, 64 * KiB, thief) == PORTAMEM_POOL_OK);
}

// A free takes other ways where the cache has no room: it refuses the same as where the cache has room.
TEST_CASE("core pool: wrong frees are refused where the cache is full as well, and blocks are where they belong") {
    for (const std::size_t nbytes : {std::size_t{256}, 8 * KiB, 40 * KiB, 300 * KiB, 6 * MiB}) {
        CAPTURE(nbytes);
        FakeStream stream;
        FakePool fake;
        std::vector<void*> all;
        for (std::size_t i = 0; i < 300 && i * nbytes < 500 * MiB; ++i) {
            all.push_back(fake.take(nbytes, stream));
            REQUIRE(all.back() != nullptr);
        }
        int wrongly = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto refused = [&](void* ptr, std::size_t size) {
                return fake.give(ptr, size, stream) == PORTAMEM_POOL_INVALID;
            };
            wrongly +=
                refused(all[i], nbytes - 1) && refused(all[i], nbytes + 1) && refused(all[i], 4 * nbytes) ? 0 : 1;
            wrongly += refused(static_cast<char*>(all[i]) + 128, nbytes) && refused(&fake, nbytes) ? 0 : 1;
            wrongly += fake.give(all[i], nbytes, stream) == PORTAMEM_POOL_OK && refused(all[i], nbytes) ? 0 : 1;
            wrongly += fake.figures().used == (all.size() - i - 1) * nbytes ? 0 : 1;
        }
        CHECK(wrongly == 0);
        const std::size_t reserved = fake.figures().reserved;
        for (void*& ptr : all) ptr = fake.take(nbytes, stream);
        CHECK(fake.figures().reserved == reserved);
        std::sort(all.begin(), all.end());
        int overlap = 0;
        for (std::size_t i = 1; i < all.size(); ++i) {
            overlap +=
                static_cast<char*>(all[i]) - static_cast<char*>(all[i - 1]) >= static_cast<std::ptrdiff_t>(nbytes) ? 0
                                                                                                                   : 1;
        }
        CHECK(overlap == 0);
        for (void* const ptr : all) CHECK(fake.give(ptr, nbytes, stream) == PORTAMEM_POOL_OK);
    }
}
