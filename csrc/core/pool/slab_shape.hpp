// SPDX-License-Identifier: MIT
// core/pool/slab_shape.hpp: how large slabs are, and how they are cut.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "page_map.hpp"
#include "size_class.hpp"

namespace portamem::pool {

struct SlabShape {
    std::size_t length;
    std::uint32_t blocks;
    std::uint8_t spread;
};

// Returns the shape of a slab: whole pages, at least 8 blocks, at most 1/32 left over. With few blocks each state has
// its own cache line, because different threads may have the blocks.
constexpr SlabShape shape_of(unsigned index) {
    const std::size_t size = size_of(index);
    std::size_t length = std::max<std::size_t>(2 * kPage, (8 * size + kPage - 1) / kPage * kPage);
    while (length % size * 32 > length) length += kPage;
    const auto blocks = static_cast<std::uint32_t>(length / size);
    return {length, blocks, static_cast<std::uint8_t>(blocks <= 32 ? 4 : 0)};
}

constexpr std::array<SlabShape, kSmallClasses> all_shapes() {
    std::array<SlabShape, kSmallClasses> shapes{};
    for (unsigned index = 0; index < kSmallClasses; ++index) shapes[index] = shape_of(index);
    return shapes;
}

inline constexpr std::array<SlabShape, kSmallClasses> kShapes = all_shapes();

inline std::uint32_t blocks_of(const Block& slab) noexcept { return kShapes[slab.index].blocks; }
inline std::uint32_t uncut_of(const Block& slab) noexcept { return blocks_of(slab) - slab.slab.carved; }

// Returns 2^32 divided by each small size, rounded up: an offset times this has the block's number in its upper bits. 0
// for the other classes, which have one block.
constexpr std::array<std::uint32_t, kExact + 1> all_reciprocals() {
    std::array<std::uint32_t, kExact + 1> reciprocals{};
    for (unsigned index = 0; index < kSmallClasses; ++index) {
        reciprocals[index] =
            static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + size_of(index) - 1) / size_of(index));
    }
    return reciprocals;
}

inline constexpr std::array<std::uint32_t, kExact + 1> kReciprocals = all_reciprocals();

}  // namespace portamem::pool
