// SPDX-License-Identifier: MIT
// A pool's figures, which are counted where memory lies free, beside every piece of every chunk.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "core_pool_fakes.hpp"

using namespace fakes;

namespace {

struct Counted {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
    std::uint64_t largest = 0;
};

// Adds up what the pool's pieces have free: of a piece with blocks those that are not out, else the whole piece.
Counted counted(portamem_pool* pool) {
    Counted all;
    const auto visit = [](void* self, const portamem_pool_piece* piece) {
        Counted& sum = *static_cast<Counted*>(self);
        const std::uint64_t size = piece->blocks != 0 ? piece->block_bytes : piece->nbytes;
        const std::uint64_t blocks = piece->blocks != 0 ? piece->blocks - piece->live : 1;
        if (blocks == 0) return;
        sum.blocks += blocks;
        sum.bytes += blocks * size;
        sum.largest = std::max(sum.largest, size);
    };
    REQUIRE(portamem_pool_snapshot(pool, visit, &all) == PORTAMEM_POOL_OK);
    return all;
}

struct Out {
    void* ptr;
    std::size_t nbytes;
    FakeStream* stream;
};

}  // namespace

TEST_CASE("core pool: the figures of what is free are those of the pieces, after any calls") {
    for (const bool host_accessible : {false, true}) {
        for (const bool tells_runs : {false, true}) {
            CAPTURE(host_accessible);
            CAPTURE(tells_runs);
            FakeStream streams[3];
            FakePool fake(host_accessible, 0, false, tells_runs);
            std::mt19937 random(7);
            std::vector<Out> out;
            const auto is_right = [&] {
                const auto told = fake.figures();
                const Counted all = counted(fake.pool);
                CHECK(told.free_blocks == all.blocks);
                CHECK(told.free_bytes == all.bytes);
                CHECK(told.largest_free == all.largest);
                CHECK(told.live == out.size());
                std::uint64_t reserved = 0;
                std::uint64_t peak = 0;
                portamem_pool_reserved(fake.pool, &reserved, &peak);
                CHECK(reserved == told.reserved);
                CHECK(peak == told.peak);
            };
            is_right();
            for (int turn = 0; turn < 3000; ++turn) {
                FakeStream& stream = streams[random() % 3];
                const bool frees = !out.empty() && random() % 1000 < out.size() * 2;
                if (frees) {
                    const std::size_t which = random() % out.size();
                    std::swap(out[which], out.back());
                    const Out last = out.back();
                    out.pop_back();
                    REQUIRE(fake.give(last.ptr, last.nbytes, random() % 4 == 0 ? stream : *last.stream) ==
                            PORTAMEM_POOL_OK);
                } else {
                    const std::size_t nbytes = (std::size_t{64} << random() % 16) + random() % 300;
                    void* const ptr = fake.take(nbytes, stream);
                    if (ptr != nullptr) out.push_back({ptr, nbytes, &stream});
                }
                if (random() % 64 == 0) stream.run = stream.submitted;
                if (random() % 500 == 0) REQUIRE(portamem_pool_trim(fake.pool, 4096 * KiB) == PORTAMEM_POOL_OK);
                if (turn % 50 == 0) is_right();
            }
            ++fake.owner.events;
            portamem_pool_stream_ended(fake.pool, streams[0].identity,
                                       new FakeEvent{&streams[0], streams[0].submitted});
            is_right();
            for (const Out& each : out) {
                REQUIRE(fake.give(each.ptr, each.nbytes, each.stream == streams ? streams[1] : *each.stream) ==
                        PORTAMEM_POOL_OK);
            }
            out.clear();
            is_right();
            CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
            is_right();
            CHECK(fake.figures().reserved == 0);
        }
    }
}
