// SPDX-License-Identifier: MIT
// tests/cpp/core_order.cpp: the parts of the order checker: vector clocks, and what is known of ranges of memory.
#include <doctest/doctest.h>

#include <vector>

#include "../../csrc/core/order/clock.hpp"
#include "../../csrc/core/order/shadow.hpp"

using portamem::order::Access;
using portamem::order::Clock;
using portamem::order::Range;
using portamem::order::Shadow;
using portamem::order::Uses;

namespace {

Access access(std::uint64_t stream, portamem::order::Epoch epoch) { return {stream, epoch, 1, "call"}; }

void write(Shadow& shadow, Range range, const Access& by) {
    shadow.change(range, [&](Range, Uses& uses) { uses.written = by; });
}

// The stream that wrote each byte of [0, size) last; 0 where none did.
std::vector<std::uint64_t> writers(Shadow& shadow, std::size_t size) {
    std::vector<std::uint64_t> bytes(size);
    shadow.change({0, size}, [&](Range part, const Uses& uses) {
        for (auto at = part.begin; at < part.end; ++at) bytes[at] = uses.written.stream;
    });
    return bytes;
}

}  // namespace

TEST_CASE("order check: a clock keeps the latest of each stream") {
    Clock clock;
    CHECK_FALSE(clock.covers(1, 1));
    clock.raise(7, 3);
    clock.raise(5, 9);
    clock.raise(7, 2);
    CHECK(clock.covers(7, 3));
    CHECK_FALSE(clock.covers(7, 4));
    CHECK(clock.covers(5, 1));
    CHECK_FALSE(clock.covers(6, 1));
    CHECK(clock.size() == 2);
    Clock other;
    other.raise(6, 1);
    other.raise(7, 8);
    CHECK_FALSE(clock.covers(other));
    clock.join(other);
    CHECK(clock.covers(other));
    CHECK(clock.covers(7, 8));
    CHECK(clock.covers(5, 9));
    CHECK(clock.covers(6, 1));
}

TEST_CASE("order check: a clock forgets what is known anyway, and nothing else") {
    Clock clock, known;
    for (std::uint64_t stream = 1; stream <= 100; ++stream) clock.raise(stream, 10);
    for (std::uint64_t stream = 1; stream <= 60; ++stream) known.raise(stream, 10);
    known.raise(61, 9);  // not as far
    clock.forget(known);
    CHECK(clock.size() == 40);
    CHECK_FALSE(clock.covers(60, 1));
    CHECK(clock.covers(61, 10));
    CHECK(clock.covers(100, 10));
}

TEST_CASE("order check: a range is cut where another begins, and joined where both sides are alike") {
    Shadow shadow;
    write(shadow, {10, 30}, access(1, 1));
    CHECK(shadow.pieces() == 1);
    write(shadow, {20, 25}, access(2, 1));
    CHECK(shadow.pieces() == 3);
    std::vector<std::uint64_t> expected(40, 0);
    for (std::size_t at = 10; at < 30; ++at) expected[at] = at >= 20 && at < 25 ? 2 : 1;
    CHECK(writers(shadow, 40) == expected);
    write(shadow, {20, 25}, access(1, 1));
    CHECK(shadow.pieces() == 1);
    write(shadow, {30, 35}, access(1, 1));
    write(shadow, {5, 10}, access(1, 1));
    CHECK(shadow.pieces() == 1);
    write(shadow, {0, 100}, access(3, 1));
    CHECK(shadow.pieces() == 1);
    CHECK(writers(shadow, 40) == std::vector<std::uint64_t>(40, 3));
}

TEST_CASE("order check: every byte of many ranges keeps its last writer") {
    Shadow shadow;
    constexpr std::size_t size = 300;
    std::vector<std::uint64_t> expected(size, 0);
    std::uint64_t random = 12345;
    const auto next = [&](std::size_t below) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::size_t>(random >> 33) % below;
    };
    for (int round = 0; round < 2000; ++round) {
        const std::size_t begin = next(size), end = begin + 1 + next(size - begin), stream = 1 + next(3);
        if (next(5) == 0) {
            shadow.take({begin, end}, [](Range, const Uses&) {});
            std::fill(expected.begin() + static_cast<std::ptrdiff_t>(begin),
                      expected.begin() + static_cast<std::ptrdiff_t>(end), 0);
        } else {
            write(shadow, {begin, end}, access(stream, 1));
            std::fill(expected.begin() + static_cast<std::ptrdiff_t>(begin),
                      expected.begin() + static_cast<std::ptrdiff_t>(end), stream);
        }
        REQUIRE(writers(shadow, size) == expected);
    }
    std::size_t changes = expected[0] != 0 ? 1 : 0;
    for (std::size_t at = 1; at < size; ++at)
        if (expected[at] != 0 && expected[at] != expected[at - 1]) ++changes;
    CHECK(shadow.pieces() == changes);
}

TEST_CASE("order check: what is taken is shown once and forgotten") {
    Shadow shadow;
    write(shadow, {0, 10}, access(1, 1));
    write(shadow, {20, 30}, access(2, 1));
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> seen;
    shadow.take({5, 25}, [&](Range part, const Uses&) { seen.emplace_back(part.begin, part.end); });
    CHECK(seen == decltype(seen){{5, 10}, {20, 25}});
    CHECK(shadow.pieces() == 2);
}

TEST_CASE("order check: freed ranges are remembered until they are allocated again, and only so many") {
    Shadow shadow;
    shadow.note_freed({100, 200}, access(1, 4));
    CHECK(shadow.freed_at(150)->epoch == 4);
    CHECK_FALSE(shadow.freed_at(200));
    shadow.begin({150, 160}, access(2, 1));
    CHECK_FALSE(shadow.freed_at(110));
    for (std::uintptr_t at = 0; at < 2 * Shadow::most_freed; ++at)
        shadow.note_freed({1000 + 10 * at, 1010 + 10 * at}, access(1, at + 1));
    CHECK_FALSE(shadow.freed_at(1000));
    CHECK(shadow.freed_at(1000 + 10 * (2 * Shadow::most_freed - 1)));
    CHECK(shadow.freed_at(1000 + 10 * Shadow::most_freed));
    CHECK_FALSE(shadow.freed_at(1000 + 10 * (Shadow::most_freed - 1)));
}

TEST_CASE("order check: there are only so many pieces, and then all is forgotten") {
    constexpr std::size_t kMost = 1000;
    Shadow shadow(kMost);
    for (std::uintptr_t at = 0; at <= kMost; ++at) write(shadow, {2 * at, 2 * at + 1}, access(1, 1));
    CHECK(shadow.times_cleared() == 0);
    for (std::uintptr_t at = kMost + 1; at <= kMost + 2; ++at) write(shadow, {2 * at, 2 * at + 1}, access(1, 1));
    CHECK(shadow.times_cleared() == 1);
    CHECK(shadow.pieces() <= 2);
}
