// SPDX-License-Identifier: MIT
// Streams that share a pool take from each other, and ask its upstream, hardly ever once they have seen all sizes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core_pool_addresses.hpp"

using namespace fakes;

namespace {

struct Calls {
    double steals = 0;
    double misses = 0;
    double reserved_over = 0;  // bytes, as a multiple of the most that was in use
};

// Blocks of 256 B to 4 MiB that come and go at random on four streams: of the calls after the first 40,000.
Calls mixed_calls(unsigned seed, int count) {
    std::array<FakeStream, 4> streams;
    const AddressPool fake;
    struct Slot {
        std::uintptr_t address = 0;
        std::size_t nbytes = 0;
        FakeStream* stream = nullptr;
    };
    std::vector<Slot> slots(1024);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> exponent(8, 22);
    const auto figures = [&fake] {
        portamem_pool_figures all{};
        all.size = sizeof all;
        portamem_pool_stats(fake.pool, &all);
        return all;
    };
    portamem_pool_figures before{};
    std::uint64_t used = 0;
    for (int call = 0; call < 40000 + count; ++call) {
        if (call == 40000) before = figures();
        if (call % 1000 == 0) used = std::max(used, figures().used);
        Slot& slot = slots[random() % slots.size()];
        if (slot.address == 0) {
            slot.nbytes = static_cast<std::size_t>(std::exp2(exponent(random)));
            slot.stream = &streams[random() % streams.size()];
            slot.address = fake.take(slot.nbytes, *slot.stream);
            REQUIRE(slot.address != 0);
        } else {
            REQUIRE(fake.give(slot.address, slot.nbytes, *slot.stream) == PORTAMEM_POOL_OK);
            slot.address = 0;
        }
    }
    const auto after = figures();
    for (const Slot& slot : slots) {
        if (slot.address != 0) REQUIRE(fake.give(slot.address, slot.nbytes, *slot.stream) == PORTAMEM_POOL_OK);
    }
    return {static_cast<double>(after.steals - before.steals), static_cast<double>(after.misses - before.misses),
            static_cast<double>(after.peak) / static_cast<double>(used)};
}

}  // namespace

// These are among the slowest calls that a pool has: one in a thousand is what its users see.
TEST_CASE("core pool: streams that have seen all sizes take from each other once in ten thousand calls") {
    constexpr int kCalls = 100000;
    Calls sum;
    for (unsigned seed = 1; seed <= 8; ++seed) {
        const Calls found = mixed_calls(seed, kCalls);
        sum.steals += found.steals;
        sum.misses += found.misses;
        sum.reserved_over += found.reserved_over;
    }
    CHECK(sum.steals / 8 <= kCalls / 1e4);
    CHECK(sum.misses / 8 <= 1);
    CHECK(sum.reserved_over / 8 <= 4);
}
