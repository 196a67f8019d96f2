// SPDX-License-Identifier: MIT
// tests/cpp/pm_strided_copy.cpp: copies between host memory with strides and other memory.
#include <algorithm>
#include <utility>
#include <vector>

#include "pm_support.hpp"
#include "portamem/copy_strided.hpp"

namespace {

using Shape = std::vector<std::size_t>;
using Strides = std::vector<std::ptrdiff_t>;

pm::StridedSpan strided(unsigned char* first, std::size_t itemsize, const Shape& shape, const Strides& strides) {
    return {first, itemsize, shape.size(), shape.data(), strides.data()};
}

// Every third element of every second row of 64 rows of 96 bytes, of two bytes each.
const Shape kShape{32, 16};
const Strides kStrides{192, 6};
constexpr std::size_t kMemory = 64 * 96, kElements = 32 * 16 * 2;

Bytes packed(const Bytes& memory) {
    Bytes elements;
    for (std::size_t y = 0; y < 32; ++y)
        for (std::size_t x = 0; x < 16; ++x)
            for (std::size_t byte = 0; byte < 2; ++byte) elements.push_back(memory[y * 192 + x * 6 + byte]);
    return elements;
}

}  // namespace

TEST_CASE("pm strided copy: the elements arrive in every kind of memory, and nothing beside them changes") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    for (const Resource& each : every_resource()) {
        CAPTURE(std::string(pm::to_string(each->kind())));
        const pm::Buffer buffer(each, kElements, stream);
        for (const bool is_queued : {false, true}) {
            CAPTURE(is_queued);
            Bytes memory = pattern(kMemory, is_queued ? 3u : 4u);
            const auto done = pm::copy(pm::Span::of(buffer), strided(memory.data(), 2, kShape, kStrides),
                                       is_queued ? stream : nullptr);
            CHECK((done != nullptr) == is_queued);
            const Bytes elements = packed(memory);
            std::fill(memory.begin(), memory.end(), static_cast<unsigned char>(0));  // it has been read
            if (done) done->synchronize();
            CHECK(get(buffer) == elements);
            const Bytes before = memory = pattern(kMemory, 5);
            (void)pm::copy(strided(memory.data(), 2, kShape, kStrides), pm::Span::of(buffer),
                           is_queued ? stream : nullptr);
            CHECK(packed(memory) == elements);
            std::size_t changed = 0;
            for (std::size_t i = 0; i < kMemory; ++i) changed += memory[i] != before[i] ? 1 : 0;
            CHECK(changed <= kElements);
        }
    }
}

TEST_CASE("pm strided copy: it is behind what its stream and its memory hold") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kElements, stream);
    Bytes memory(kMemory, 1);
    const Gate gate(stream);
    pm::fill(pm::Span::of(buffer), 9, stream);
    gate.open_soon();
    pm::copy(pm::Span::of(buffer), strided(memory.data(), 2, kShape, kStrides), stream);
    pm::copy(strided(memory.data(), 2, kShape, kStrides), pm::Span::of(buffer), stream);
    CHECK(gate.is_open());
    CHECK(packed(memory) == Bytes(kElements, 1));
}

TEST_CASE("pm strided copy: transposed, reversed and repeated elements") {
    if (no_device()) return;
    const pm::Buffer buffer(device_resource(), 6);
    Bytes memory{1, 2, 3, 4, 5, 6};
    pm::copy(pm::Span::of(buffer), strided(memory.data(), 1, {3, 2}, {1, 3}));
    CHECK(get(buffer) == Bytes{1, 4, 2, 5, 3, 6});
    pm::copy(pm::Span::of(buffer), strided(memory.data() + 5, 1, {6}, {-1}));
    CHECK(get(buffer) == Bytes{6, 5, 4, 3, 2, 1});
    pm::copy(pm::Span::of(buffer), strided(memory.data(), 1, {3, 2}, {0, 1}));
    CHECK(get(buffer) == Bytes{1, 2, 1, 2, 1, 2});
}

TEST_CASE("pm strided copy: nothing is copied to and from nowhere") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer nothing(device_resource(), 0);
    Bytes memory(8, 3);
    pm::copy(pm::Span::of(nothing), strided(memory.data(), 1, {0, 4}, {8, 2}));
    pm::copy(strided(memory.data(), 1, {4, 0}, {8, 2}), pm::Span::of(nothing), stream)->synchronize();
    CHECK(memory == Bytes(8, 3));
}

TEST_CASE("pm strided copy: a source in pinned memory is read behind the work that writes it") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer pinned(pinned_resource(), kMemory), written(device_resource(), kMemory);
    const pm::Buffer target(device_resource(), kElements);
    put(written, 8);
    auto* const first = static_cast<unsigned char*>(pinned.address());
    for (const StreamPtr& on : {stream, StreamPtr()}) {
        pm::fill(pm::Span::of(pinned), 0);
        const auto writer = on ? on : pm::Stream::default_stream(0);
        const Gate gate(writer);
        pm::copy(pm::Span::of(pinned), pm::Span::of(written), writer);
        gate.open_soon();
        const auto done = pm::copy(pm::Span::of(target), strided(first, 2, kShape, kStrides), on);
        if (done) done->synchronize();
        CHECK(get(target) == packed(get(written)));
    }
}

TEST_CASE("pm strided copy: what does not fit is refused before a byte is written") {
    if (no_device()) return;
    const pm::Buffer buffer(device_resource(), 6);
    put(buffer, 1);
    Bytes memory(64, 0xdd);
    CHECK_THROWS_AS(pm::copy(pm::Span::of(buffer), strided(memory.data(), 1, {5}, {2})), std::invalid_argument);
    CHECK_THROWS_AS(pm::copy(strided(memory.data(), 1, {7}, {2}), pm::Span::of(buffer)), std::invalid_argument);
    CHECK_THROWS_AS(pm::copy(strided(memory.data(), 1, {3, 2}, {0, 1}), pm::Span::of(buffer)), std::invalid_argument);
    CHECK_THROWS_AS(pm::copy(strided(memory.data(), 2, {3}, {1}), pm::Span::of(buffer)), std::invalid_argument);
    CHECK_THROWS_AS(strided(memory.data(), 8, Shape(65, 1), Strides(65, 8)), std::invalid_argument);
    CHECK_THROWS_AS(strided(memory.data(), 8, {std::size_t{1} << 62, 2}, {8, 8}), std::length_error);
    CHECK(get(buffer) == pattern(6, 1));
    CHECK(memory == Bytes(64, 0xdd));
}

TEST_CASE("pm strided copy: which elements may share bytes") {
    Bytes memory(1);
    const auto overlaps = [&](std::size_t itemsize, const Shape& shape, const Strides& strides) {
        return strided(memory.data(), itemsize, shape, strides).may_overlap_itself();
    };
    CHECK_FALSE(overlaps(4, {}, {}));
    CHECK_FALSE(overlaps(4, {10, 10}, {40, 4}));
    CHECK_FALSE(overlaps(4, {10, 10}, {4, 40}));
    CHECK_FALSE(overlaps(4, {10, 5}, {40, 8}));
    CHECK_FALSE(overlaps(4, {10, 5}, {-40, -8}));
    CHECK_FALSE(overlaps(4, {1, 1}, {0, 0}));
    CHECK_FALSE(overlaps(4, {0, 3}, {0, 0}));
    CHECK(overlaps(4, {10, 10}, {36, 4}));
    CHECK(overlaps(4, {10}, {3}));
    CHECK(overlaps(4, {10}, {0}));
    CHECK(overlaps(4, {3, 3}, {8, 8}));
}

TEST_CASE("pm strided copy: elements that lie one behind the other are one run") {
    Bytes memory(1);
    const auto runs = [&](const Shape& shape, const Strides& strides) {
        const pm::StridedSpan span = strided(memory.data(), 4, shape, strides);
        return std::pair(span.runs().run, span.runs().dims);
    };
    CHECK(runs({10, 10}, {40, 4}) == std::pair<std::size_t, std::size_t>(400, 0));
    CHECK(runs({5, 10, 10}, {800, 40, 4}) == std::pair<std::size_t, std::size_t>(400, 1));
    CHECK(runs({5, 10, 3}, {400, 40, 4}) == std::pair<std::size_t, std::size_t>(12, 1));
    CHECK(runs({5, 1, 3}, {400, 7, 8}) == std::pair<std::size_t, std::size_t>(4, 2));
}
