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

// Whole pages, for 8 blocks at least, of which not more than 1/32 is left over. Few blocks have a cache line of state
// each: they may be with different threads.
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

// In 2^32, of the sizes of the small classes: a block's number is what its offset has of it. Of the others 0, as there is one
// block.
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
