// SPDX-License-Identifier: MIT
// core/pool/size_class.hpp: the sizes that blocks have.
//
// Classes are 256 bytes apart up to 4 KiB, then 16 to a doubling: a block is at most 6.25 %, or 255 bytes, larger than
// was asked for. The same numbers sort free memory: list n holds lengths from that of class n to just below that of
// class n + 1.
#pragma once

#include <cstddef>
#include <cstdint>

namespace portamem::pool {

inline constexpr std::size_t kGrain = 256;
inline constexpr std::size_t kLargestSmall = std::size_t{32} << 10;  ///< larger blocks are in no slab
/// Larger blocks are shared by all threads of a stream.
inline constexpr std::size_t kLargestOwn = std::size_t{1} << 20;
inline constexpr std::size_t kLargestCached = std::size_t{64} << 20;  ///< larger blocks have no class
inline constexpr std::size_t kLargestKept = std::size_t{256} << 10;   ///< larger blocks are merged when a cache is full
inline constexpr unsigned kSmallClasses = 64;
inline constexpr unsigned kClasses = 240;
inline constexpr unsigned kHuge = kClasses;  ///< the index of all larger blocks, in steps of kHugeStep
/// The index of blocks of exactly the bytes asked for, in steps of kGrain: for places where nothing larger fits.
inline constexpr unsigned kExact = kHuge + 1;
inline constexpr std::size_t kHugeStep = std::size_t{2} << 20;
inline constexpr std::size_t kLargestAsked = std::size_t{1} << 46;
inline constexpr unsigned kLists = 576;

constexpr std::size_t round_up(std::size_t value, std::size_t step) noexcept {
    return (value + step - 1) / step * step;
}

/// Returns the smallest class that holds nbytes, which is at least 1.
constexpr unsigned class_of(std::size_t nbytes) noexcept {
    const std::size_t last = nbytes - 1;
    const auto top = 63U - static_cast<unsigned>(__builtin_clzll(last | 4096U));
    return ((top - 12) << 4) + static_cast<unsigned>(last >> (top - 4));
}

constexpr std::size_t size_of(unsigned index) noexcept {
    if (index < 16) return (index + 1) * kGrain;
    return (std::size_t{17} + (index - 16) % 16) << (8 + (index - 16) / 16);
}

/// Returns the list for free memory of a length. Only list 0 may hold lengths below kGrain.
constexpr unsigned list_of(std::size_t length) noexcept {
    if (length < kGrain) return 0;
    const unsigned index = class_of(length + 1) - 1;
    return index < kLists ? index : kLists - 1;
}

/// Returns the bytes of a block for nbytes, from 1 to kLargestAsked.
constexpr std::size_t rounded(std::size_t nbytes) noexcept {
    if (nbytes <= kLargestCached) return size_of(class_of(nbytes));
    return (nbytes + kHugeStep - 1) / kHugeStep * kHugeStep;
}

static_assert(class_of(1) == 0 && class_of(256) == 0 && class_of(257) == 1 && class_of(4096) == 15);
static_assert(class_of(4097) == 16 && size_of(16) == 4352 && size_of(class_of(8192)) == 8192);
static_assert(class_of(kLargestSmall) == kSmallClasses - 1 && class_of(kLargestCached) == kClasses - 1);
static_assert(size_of(kClasses - 1) == kLargestCached && list_of(kLargestCached) == kClasses - 1);
static_assert(list_of(4351) == 15 && list_of(4352) == 16);

/// Whether the blocks of a class are for all threads of a stream, in its arena; Cache::holds() has the exceptions.
constexpr bool is_shared(unsigned index) noexcept { return index > class_of(kLargestOwn) && index < kClasses; }

/// Whether an arena keeps blocks of a class as they were freed: shared classes, and classes of so many blocks that
/// merging each would cost too much.
constexpr bool is_kept(unsigned index) noexcept {
    return (index >= kSmallClasses && index <= class_of(kLargestKept)) || is_shared(index);
}

/// Returns the smallest small class from nbytes on whose size is a multiple of alignment; kHuge where there is none.
constexpr unsigned aligned_class(std::size_t nbytes, std::size_t alignment) noexcept {
    for (unsigned index = class_of(nbytes); index < kSmallClasses; ++index) {
        if (size_of(index) % alignment == 0) return index;
    }
    return kHuge;
}

}  // namespace portamem::pool
