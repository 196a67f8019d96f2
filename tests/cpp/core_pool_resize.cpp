// SPDX-License-Identifier: MIT
// Blocks that get another size where they lie, within their own bytes and with free memory behind them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "core_pool_addresses.hpp"

using namespace fakes;

namespace {

int resize(const AddressPool& fake, std::uintptr_t address, std::size_t from, std::size_t to, FakeStream& stream) {
    return portamem_pool_resize(fake.pool, reinterpret_cast<void*>(address), from, to, stream.identity);
}

std::size_t size_of(const AddressPool& fake, std::uintptr_t address) {
    return portamem_pool_size_of(fake.pool, reinterpret_cast<void*>(address));
}

portamem_pool_figures figures_of(const AddressPool& fake) {
    portamem_pool_figures all{};
    all.size = sizeof all;
    portamem_pool_stats(fake.pool, &all);
    return all;
}

// Returns where the piece of a chunk that begins at an address ends: a block may be larger than was asked for.
std::uintptr_t end_of(const AddressPool& fake, std::uintptr_t address) {
    struct Look {
        std::uintptr_t address, end;
    } look{address, 0};
    const auto visit = [](void* self, const portamem_pool_piece* piece) {
        auto& at = *static_cast<Look*>(self);
        if (piece->address == at.address) at.end = piece->address + piece->nbytes;
    };
    REQUIRE(portamem_pool_snapshot(fake.pool, visit, &look) == PORTAMEM_POOL_OK);
    REQUIRE(look.end != 0);
    return look.end;
}

// Knows what was freed and not taken since, and behind which work.
class Freed {
  public:
    struct Behind {
        FakeStream* stream;
        std::uint64_t place;
    };

    void add(std::uintptr_t begin, std::uintptr_t end, FakeStream& stream) {
        take(begin, end, [](const Behind&) {});
        ranges_[begin] = {end, {&stream, stream.submitted}};
    }

    // Calls `look` with what each part of the range was freed behind, and forgets it.
    template <class Look>
    void take(std::uintptr_t begin, std::uintptr_t end, const Look& look) {
        auto each = ranges_.lower_bound(begin);
        if (each != ranges_.begin() && std::prev(each)->second.end > begin) --each;
        while (each != ranges_.end() && each->first < end) {
            const auto [first, range] = *each;
            each = ranges_.erase(each);
            look(range.behind);
            if (first < begin) ranges_[first] = {begin, range.behind};
            if (range.end > end) ranges_[end] = {range.end, range.behind};
        }
    }

  private:
    struct Range {
        std::uintptr_t end;
        Behind behind;
    };
    std::map<std::uintptr_t, Range> ranges_;
};

}  // namespace

TEST_CASE("core pool resize: a block takes the free memory behind it, and gives all of it back") {
    FakeStream stream;
    const AddressPool fake;
    const std::uintptr_t whole = fake.take(64 * MiB, stream);  // one chunk, free from here on
    REQUIRE(fake.give(whole, 64 * MiB, stream) == PORTAMEM_POOL_OK);
    const std::uintptr_t block = fake.take(5 * MiB, stream);
    REQUIRE(block == whole);
    std::size_t size = 5 * MiB;
    for (const std::size_t to : {5 * MiB + 1, 7 * MiB, 40 * MiB + 1, 40 * MiB + 2, 60 * MiB, 63 * MiB}) {
        CAPTURE(to);
        REQUIRE(resize(fake, block, size, to, stream) == 1);
        CHECK(size_of(fake, block) == to);
        CHECK(figures_of(fake).used == to);
        CHECK(figures_of(fake).live == 1);
        size = to;
    }
    CHECK(resize(fake, block, size, 2000 * MiB, stream) == 0);
    CHECK(size_of(fake, block) == size);
    CHECK(fake.give(block, 5 * MiB, stream) == PORTAMEM_POOL_INVALID);
    REQUIRE(fake.give(block, size, stream) == PORTAMEM_POOL_OK);
    CHECK(figures_of(fake).used == 0);
    CHECK(fake.take(64 * MiB, stream) == whole);  // it is in one piece again
    REQUIRE(fake.give(whole, 64 * MiB, stream) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool resize: a block above 64 MiB grows too, and shrinks within its last step") {
    FakeStream stream;
    const AddressPool fake;
    const std::uintptr_t whole = fake.take(200 * MiB, stream);
    REQUIRE(fake.give(whole, 200 * MiB, stream) == PORTAMEM_POOL_OK);
    const std::uintptr_t block = fake.take(65 * MiB, stream);
    REQUIRE(resize(fake, block, 65 * MiB, 66 * MiB, stream) == 1);
    REQUIRE(resize(fake, block, 66 * MiB, 150 * MiB + 1, stream) == 1);
    REQUIRE(resize(fake, block, 150 * MiB + 1, 150 * MiB + 2, stream) == 1);
    REQUIRE(resize(fake, block, 150 * MiB + 2, 150 * MiB + 1, stream) == 1);
    CHECK(resize(fake, block, 150 * MiB + 1, 70 * MiB, stream) == 0);  // it would waste too much
    CHECK(size_of(fake, block) == 150 * MiB + 1);
    REQUIRE(fake.give(block, 150 * MiB + 1, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.take(200 * MiB, stream) == whole);
    REQUIRE(fake.give(whole, 200 * MiB, stream) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool resize: small blocks change within their class, and what is not out does not change") {
    FakeStream stream;
    const AddressPool fake;
    const std::uintptr_t block = fake.take(1000, stream);
    CHECK(resize(fake, block, 1000, 1024, stream) == 1);
    CHECK(resize(fake, block, 1024, 769, stream) == 1);
    CHECK(size_of(fake, block) == 769);
    for (const std::size_t to : {0U, 768U, 1025U}) CHECK(resize(fake, block, 769, to, stream) == 0);
    CHECK(resize(fake, block, 770, 800, stream) == 0);  // it is out for 769
    CHECK(resize(fake, block + 1, 769, 800, stream) == 0);
    CHECK(resize(fake, block + 1024, 769, 800, stream) == 0);  // another block, which is free
    CHECK(resize(fake, 4096, 769, 800, stream) == 0);
    CHECK(size_of(fake, block) == 769);
    REQUIRE(fake.give(block, 769, stream) == PORTAMEM_POOL_OK);
    CHECK(resize(fake, block, 769, 800, stream) == 0);
    const std::uintptr_t large = fake.take(5 * MiB, stream);
    REQUIRE(fake.give(large, 5 * MiB, stream) == PORTAMEM_POOL_OK);
    CHECK(resize(fake, large, 5 * MiB, 5 * MiB + 1, stream) == 0);
    CHECK(figures_of(fake).used == 0);
}

TEST_CASE("core pool resize: what its stream has freed behind a block is room, also where it is kept for its class") {
    FakeStream stream;
    const AddressPool fake;
    const std::uintptr_t whole = fake.take(64 * MiB, stream);
    REQUIRE(fake.give(whole, 64 * MiB, stream) == PORTAMEM_POOL_OK);
    for (const std::size_t size : {4 * MiB, 12 * MiB}) {
        const std::uintptr_t block = fake.take(6 * MiB, stream);
        const std::uintptr_t behind = fake.take(size, stream);
        REQUIRE(behind == block + 6 * MiB);
        REQUIRE(fake.give(behind, size, stream) == PORTAMEM_POOL_OK);
        CHECK(resize(fake, block, 6 * MiB, 6 * MiB + size, stream) == 1);
        REQUIRE(fake.give(block, 6 * MiB + size, stream) == PORTAMEM_POOL_OK);
    }
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
    CHECK(figures_of(fake).reserved == 0);
}

TEST_CASE("core pool resize: memory that another stream may use is no room") {
    std::array<FakeStream, 2> streams;
    const AddressPool fake;
    const std::uintptr_t whole = fake.take(64 * MiB, streams[0]);
    REQUIRE(fake.give(whole, 64 * MiB, streams[0]) == PORTAMEM_POOL_OK);
    const std::uintptr_t first = fake.take(20 * MiB, streams[0]);
    const std::uintptr_t second = fake.take(20 * MiB, streams[0]);
    REQUIRE(second == first + 20 * MiB);
    CHECK(resize(fake, first, 20 * MiB, 24 * MiB, streams[0]) == 0);   // its neighbour is out
    CHECK(resize(fake, second, 20 * MiB, 24 * MiB, streams[1]) == 0);  // what is behind it was freed on streams[0]
    CHECK(resize(fake, second, 20 * MiB, 24 * MiB, streams[0]) == 1);
    REQUIRE(fake.give(first, 20 * MiB, streams[0]) == PORTAMEM_POOL_OK);
    REQUIRE(fake.give(second, 24 * MiB, streams[0]) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool resize: no block ever has another's bytes, or bytes that work of another stream may use") {
    std::array<FakeStream, 3> streams;
    const AddressPool fake;
    struct Live {
        std::size_t nbytes;
        FakeStream* stream;
    };
    std::map<std::uintptr_t, Live> live;
    Freed freed;
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> exponent(15.1, 26.5);
    const auto some_size = [&] { return static_cast<std::size_t>(std::exp2(exponent(random))); };
    std::size_t used = 0, grown = 0, refused = 0;
    for (int call = 0; call < 20000; ++call) {
        const std::uint64_t choice = random() % 10;
        if (live.size() < 40 && choice < 4) {
            FakeStream& stream = streams[random() % streams.size()];
            const std::size_t nbytes = some_size();
            const std::uintptr_t address = fake.take(nbytes, stream);
            REQUIRE(address != 0);
            freed.take(address, end_of(fake, address), [](const Freed::Behind&) {});
            live[address] = {nbytes, &stream};
            used += nbytes;
        } else if (!live.empty()) {
            auto each = live.begin();
            std::advance(each, static_cast<std::ptrdiff_t>(random() % live.size()));
            auto& [nbytes, stream] = each->second;
            const std::uintptr_t address = each->first;
            if (choice < 6) {
                ++stream->submitted;  // work that never ends uses the memory
                const std::uintptr_t end = end_of(fake, address);
                REQUIRE(fake.give(address, nbytes, *stream) == PORTAMEM_POOL_OK);
                freed.add(address, end, *stream);
                used -= nbytes;
                live.erase(each);
                continue;
            }
            const std::size_t to = choice < 9 ? nbytes + some_size() / 4 : some_size();
            if (resize(fake, address, nbytes, to, *stream) == 0) {
                ++refused;
                CHECK(size_of(fake, address) == nbytes);
                continue;
            }
            grown += to > nbytes ? 1 : 0;
            CHECK(size_of(fake, address) == to);
            const auto after = std::next(each);
            if (after != live.end()) REQUIRE(address + to <= after->first);
            FakeStream& here = *stream;
            freed.take(address + std::min(nbytes, to), end_of(fake, address), [&here](const Freed::Behind& behind) {
                CHECK((behind.stream == &here || here.waits[behind.stream] >= behind.place));
            });
            used += to - nbytes;
            nbytes = to;
        }
    }
    CHECK(grown > 500);
    CHECK(refused > 500);
    CHECK(figures_of(fake).used == used);
    for (const auto& [address, block] : live)
        REQUIRE(fake.give(address, block.nbytes, *block.stream) == PORTAMEM_POOL_OK);
    CHECK(figures_of(fake).used == 0);
    for (FakeStream& stream : streams) stream.run = stream.submitted;
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
    CHECK(figures_of(fake).reserved == 0);
}
