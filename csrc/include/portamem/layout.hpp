// SPDX-License-Identifier: MIT
// portamem/layout.hpp: rows and slices in memory: whether they fit there, and whether two boxes of them overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "portamem/backend.hpp"

PORTAMEM_OPEN

namespace detail {

inline bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) noexcept {
    const auto x = reinterpret_cast<std::uintptr_t>(a);
    const auto y = reinterpret_cast<std::uintptr_t>(b);
    return a_bytes != 0 && b_bytes != 0 && x < y + b_bytes && y < x + a_bytes;
}

// Returns the bytes from the first to the last byte that `height` rows touch. Throws where that does not fit `nbytes`.
inline std::size_t rows_extent(const char* which, std::size_t nbytes, std::size_t width, std::size_t height,
                               std::size_t pitch) {
    if (width == 0 || height == 0) return 0;
    if (pitch < width) {
        throw std::invalid_argument(std::string("the ") + which + "'s pitch of " + std::to_string(pitch) +
                                    " bytes is smaller than the rows of " + std::to_string(width) + " bytes");
    }
    const std::size_t most = nbytes < width ? 0 : (nbytes - width) / pitch + 1;
    if (height > most) {
        throw std::invalid_argument(std::to_string(height) + " rows of " + std::to_string(width) + " bytes, " +
                                    std::to_string(pitch) + " bytes apart, do not fit the " + which + " of " +
                                    std::to_string(nbytes) + " bytes: " + std::to_string(most) + " would");
    }
    return (height - 1) * pitch + width;
}

// Returns the same for `depth` slices, each of which begins `rows` rows behind the one before it.
inline std::size_t slices_extent(const char* which, std::size_t nbytes, std::size_t width, std::size_t height,
                                 std::size_t depth, std::size_t pitch, std::size_t rows) {
    if (width == 0 || height == 0 || depth == 0) return 0;
    if (rows < height) {
        throw std::invalid_argument(std::string("the ") + which + "'s slices of " + std::to_string(rows) +
                                    " rows are lower than the " + std::to_string(height) + " rows to copy of each");
    }
    const std::size_t first = rows_extent(which, nbytes, width, height, pitch);
    // Counts the further slices that begin early enough. It divides, because a slice may be larger than an address can
    // count.
    const std::size_t most = (nbytes - first) / pitch / rows + 1;
    if (depth > most) {
        throw std::invalid_argument(std::to_string(depth) + " slices of " + std::to_string(height) + " rows, " +
                                    std::to_string(rows) + " rows of " + std::to_string(pitch) +
                                    " bytes apart, do not fit the " + which + " of " + std::to_string(nbytes) +
                                    " bytes: " + std::to_string(most) + " would");
    }
    return (depth - 1) * rows * pitch + first;
}

// Returns whether a box shares a byte with another of its size and layout that begins `distance` bytes behind it. With
// depth 1 `slice` may be anything from height times pitch on. Both boxes fit their memory, so no product overflows.
inline bool boxes_overlap(std::size_t distance, std::size_t width, std::size_t height, std::size_t depth,
                          std::size_t pitch, std::size_t slice) noexcept {
    // A shared byte is at (x, y, z) in one box and at (x', y', z') in the other. A row is shorter than the pitch, and a
    // box has fewer rows than a slice. So z - z' is the distance in whole slices, or one more; the same holds for rows
    // within the rest.
    const auto rows_overlap = [&](std::size_t rest) {
        const std::size_t rows = rest / pitch;
        const std::size_t bytes = rest % pitch;
        return (rows < height && bytes < width) || (rows + 1 < height && pitch - bytes < width);
    };
    const std::size_t slices = distance / slice;
    const std::size_t rest = distance % slice;
    return (slices < depth && rows_overlap(rest)) || (slices + 1 < depth && rows_overlap(slice - rest));
}

}  // namespace detail

PORTAMEM_CLOSE
