// SPDX-License-Identifier: MIT
// tests/cpp/pm_pool_snapshot.cpp: what a pool holds, as data and as JSON. That Python reads this text is
// tests/test_pool.py's to show.
#include "pm_support.hpp"

TEST_CASE("pm pool snapshot: JSON has what Python's snapshot has, and in its order") {
    pm::PoolSnapshot snapshot;
    CHECK(to_json(snapshot) == R"({"used": 0, "reserved": 0, "peak": 0, "chunks": []})");
    snapshot.used = 300;
    snapshot.reserved = 6000;
    snapshot.peak = 7000;
    using State = pm::PoolPieceState;
    snapshot.pieces = {{4096, 5000, 4096, 1000, 7, State::Free, 0, 0, 0},
                       {4096, 5000, 5096, 4000, 0, State::Slab, 15, 2, 256},
                       {65536, 1000, 65536, 600, 0, State::Live, 1, 1, 512},
                       {65536, 1000, 66136, 400, 0, State::Cached, 0, 0, 0}};
    CHECK(to_json(snapshot) ==
          R"({"used": 300, "reserved": 6000, "peak": 7000, "chunks": [)"
          R"({"address": 4096, "nbytes": 5000, "pieces": [)"
          R"({"address": 4096, "nbytes": 1000, "state": "free", "stream": 7}, )"
          R"({"address": 5096, "nbytes": 4000, "state": "slab", "blocks": 15, "live": 2, "block_nbytes": 256}]}, )"
          R"({"address": 65536, "nbytes": 1000, "pieces": [)"
          R"({"address": 65536, "nbytes": 600, "state": "live", "blocks": 1, "live": 1, "block_nbytes": 512}, )"
          R"({"address": 66136, "nbytes": 400, "state": "cached"}]}]})");
}

TEST_CASE("pm pool snapshot: it is of the pool's figures and all of its chunks") {
    if (no_device()) return;
    const auto pool = pm::PoolMemoryResource::create(device_resource());
    const auto stream = pm::Stream::default_stream(0);
    const pm::Buffer small(pool, 100, stream);
    const pm::Buffer large(pool, 5 << 20, stream);
    const auto snapshot = pm::PoolSnapshot::of(*pool);
    CHECK(snapshot.used == 100 + (5 << 20));
    CHECK(snapshot.reserved == pool->stats().reserved);
    CHECK(snapshot.peak == snapshot.reserved);
    std::size_t nbytes = 0;
    for (const auto& piece : snapshot.pieces) nbytes += piece.nbytes;
    CHECK(nbytes == snapshot.reserved);
    const auto address = std::to_string(reinterpret_cast<std::uintptr_t>(large.ptr()));
    CHECK(contains(to_json(snapshot), "{\"address\": " + address + ", "));
}
