// SPDX-License-Identifier: MIT
// How much a thread's cache for a stream holds.
#include <random>
#include <utility>
#include <vector>

#include "core_pool_fakes.hpp"

using namespace fakes;

namespace {

constexpr std::size_t MiB = 1024 * KiB;
constexpr std::size_t kMostCached = 80 * MiB;

std::size_t cached_bytes(const FakePool& fake) {
    std::size_t found = 0;
    const auto add = [](void* self, const portamem_pool_piece* piece) {
        if (piece->state == PORTAMEM_POOL_PIECE_CACHED) *static_cast<std::size_t*>(self) += piece->nbytes;
    };
    REQUIRE(portamem_pool_snapshot(fake.pool, add, &found) == 0);
    return found;
}

}  // namespace

TEST_CASE("core pool: a cache of what was freed is full where the header says") {
    FakePool fake;
    FakeStream stream;
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
        if (all) CHECK(cached_bytes(fake) > kMostCached / 2);
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
