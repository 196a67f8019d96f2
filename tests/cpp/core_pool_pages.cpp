// SPDX-License-Identifier: MIT
// How a pool finds the block of an address.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "../../csrc/core/pool/page_map.hpp"
#include "core_pool_addresses.hpp"

using namespace fakes;

namespace {

using Block = std::pair<std::uintptr_t, std::size_t>;

std::size_t any_size(std::mt19937_64& random, std::size_t most) {
    std::size_t bound = most;
    while (bound > 512 && random() % 2 == 0) bound /= 2;
    return 1 + random() % bound;
}

void check_apart(std::vector<Block> blocks) {
    std::sort(blocks.begin(), blocks.end());
    for (std::size_t i = 1; i < blocks.size(); ++i)
        REQUIRE(blocks[i - 1].first + blocks[i - 1].second <= blocks[i].first);
}

}  // namespace

TEST_CASE("core pool: each block is found by its address, of whatever sizes its neighbours are, and nothing else is") {
    for (const std::size_t odd : {std::size_t{0}, 37 * 256 * KiB / 8}) {
        CAPTURE(odd);
        FakeStream stream;
        AddressPool fake(odd);
        std::mt19937_64 random(7);
        std::vector<Block> live;
        for (int step = 0; step < 40000; ++step) {
            if (live.size() < 200 || random() % 100 < (step / 8000 % 2 == 0 ? 70 : 30)) {  // grows and shrinks
                const std::size_t nbytes = any_size(random, step % 5 == 0 ? 8 * MiB : 300 * KiB);
                const std::uintptr_t address = fake.take(nbytes, stream);
                REQUIRE(address != 0);
                live.emplace_back(address, nbytes);
                continue;
            }
            std::swap(live[random() % live.size()], live.back());
            const auto [address, nbytes] = live.back();
            live.pop_back();
            const std::size_t inside = random() % nbytes / 256 * 256;
            if (inside != 0) REQUIRE(fake.give(address + inside, nbytes, stream) == PORTAMEM_POOL_INVALID);
            REQUIRE(fake.give(address, nbytes + 1, stream) == PORTAMEM_POOL_INVALID);
            REQUIRE(fake.give(address, nbytes, stream) == PORTAMEM_POOL_OK);
            REQUIRE(fake.give(address, nbytes, stream) == PORTAMEM_POOL_INVALID);
            if (step % 1000 == 0) check_apart(live);
            if (step % 5000 == 0) CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
        }
        for (const auto& [address, nbytes] : live) REQUIRE(fake.give(address, nbytes, stream) == PORTAMEM_POOL_OK);
        CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
        CHECK(fake.owner.given.empty());
        for (const auto& [address, nbytes] : live) {
            REQUIRE(fake.give(address, nbytes, stream) == PORTAMEM_POOL_INVALID);
        }
    }
}

TEST_CASE("core pool: addresses that no table can hold are a chunk that is not to be had, and is given back") {
    FakeStream stream;
    AddressPool fake;
    fake.owner.next = (std::uintptr_t{1} << 57) - 4 * MiB;
    const std::uintptr_t last = fake.take(MiB, stream);  // up to the last one
    CHECK(last != 0);
    fake.owner.next = (std::uintptr_t{1} << 57) - 2 * MiB;
    CHECK(fake.take(64 * MiB, stream) == 0);
    CHECK(fake.owner.given.size() == 1);
    CHECK(fake.give(std::uintptr_t{1} << 60, MiB, stream) == PORTAMEM_POOL_INVALID);
    CHECK(fake.give(last, MiB, stream) == PORTAMEM_POOL_OK);
}

// Blocks that lie beside each other: each thread frees some while the others make the tables of the very same addresses
// grow.
TEST_CASE("core pool: a block is found while others enter theirs beside it") {
    constexpr int kThreads = 4;
    FakeStream stream;
    AddressPool fake;
    std::vector<std::thread> threads;
    std::atomic<int> refused{0};
    for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            std::mt19937_64 random(static_cast<std::uint64_t>(thread));
            std::vector<Block> live;
            for (int step = 0; step < 6000; ++step) {
                if (live.size() < 64 || random() % 2 == 0) {
                    const std::size_t nbytes = 33 * KiB + random() % (thread % 2 == 0 ? 4 * KiB : 200 * KiB);
                    const std::uintptr_t address = fake.take(nbytes, stream);
                    if (address == 0) ++refused;
                    if (address != 0) live.emplace_back(address, nbytes);
                } else {
                    std::swap(live[random() % live.size()], live.back());
                    if (fake.give(live.back().first, live.back().second, stream) != PORTAMEM_POOL_OK) ++refused;
                    live.pop_back();
                }
            }
            for (const auto& [address, nbytes] : live) {
                if (fake.give(address, nbytes, stream) != PORTAMEM_POOL_OK) ++refused;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(refused == 0);
    portamem_pool_figures figures{};
    figures.size = sizeof figures;
    portamem_pool_stats(fake.pool, &figures);
    CHECK(figures.used == 0);
}

// Regions that have a block each, and get more of them one by one: their nodes become others' while they are read.
TEST_CASE("core pool: a table of pages is read rightly while it grows, also what is not in it") {
    using portamem::pool::PageMap;
    constexpr std::size_t kRegions = 48;
    constexpr std::size_t kPages = 64;
    constexpr std::uintptr_t kBase = std::uintptr_t{5} << 40;
    const auto page = [](std::size_t region, std::size_t number) {
        return kBase + (region * kPages + number) * portamem::pool::kPage;
    };
    const auto stays = [](std::size_t region) { return region * 7 % kPages; };
    const auto is_never = [&](std::size_t region, std::size_t number) {
        return number == (stays(region) + 1) % kPages;
    };
    for (int round = 0; round < 20; ++round) {
        PageMap pages;
        std::vector<portamem::pool::Block> blocks(kRegions * kPages);
        const auto block = [&](std::size_t region, std::size_t number) { return &blocks[region * kPages + number]; };
        for (std::size_t region = 0; region < kRegions; ++region) {
            pages.put(page(region, stays(region)), block(region, stays(region)));
        }
        std::atomic<bool> is_over{false};
        std::atomic<int> wrong{0};
        std::vector<std::thread> readers;
        for (int reader = 0; reader < 3; ++reader) {
            readers.emplace_back([&] {
                while (!is_over) {
                    for (std::size_t region = 0; region < kRegions; ++region) {
                        const std::size_t there = stays(region);
                        if (pages.find(page(region, there)) != block(region, there)) ++wrong;
                        if (pages.find(page(region, (there + 1) % kPages)) != nullptr) ++wrong;
                    }
                }
            });
        }
        for (std::size_t number = 0; number < kPages; ++number) {
            for (std::size_t region = 0; region < kRegions; ++region) {
                if (number == stays(region) || is_never(region, number)) continue;
                pages.put(page(region, number), block(region, number));
                if (number % 3 != 0) pages.clear(page(region, number));
            }
        }
        is_over = true;
        for (auto& reader : readers) reader.join();
        CHECK(wrong == 0);
        int missed = 0;
        for (std::size_t region = 0; region < kRegions; ++region) {
            for (std::size_t number = 0; number < kPages; ++number) {
                const bool is_in = !is_never(region, number) && (number % 3 == 0 || number == stays(region));
                missed += pages.find(page(region, number)) == (is_in ? block(region, number) : nullptr) ? 0 : 1;
            }
        }
        CHECK(missed == 0);
    }
}
