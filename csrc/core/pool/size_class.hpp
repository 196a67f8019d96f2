// SPDX-License-Identifier: MIT
// core/pool/size_class.hpp: the sizes that blocks have.
//
// Steps of 256 bytes up to 4 KiB, then 16 to a doubling: a block is at most 6.25 % larger than was asked for, or 255
// bytes. The same numbers sort free memory: list n holds what is at least as large as class n and smaller than n + 1.
#pragma once

#include <cstddef>
#include <cstdint>

namespace portamem::pool {

inline constexpr std::size_t kGrain = 256;
inline constexpr std::size_t kLargestSmall = std::size_t{32} << 10;  ///< larger blocks stand by themselves
inline constexpr std::size_t kLargestOwn = std::size_t{1} << 20;  ///< larger ones are shared by all threads of a stream
inline constexpr std::size_t kLargestCached = std::size_t{64} << 20;  ///< larger blocks have no class
inline constexpr std::size_t kLargestKept = std::size_t{256} << 10;   ///< larger ones are merged when a cache is full
inline constexpr unsigned kSmallClasses = 64;
inline constexpr unsigned kClasses = 240;
inline constexpr unsigned kHuge = kClasses;  ///< the class of all that is larger, in steps of kHugeStep
/// The class of blocks of as many bytes as were asked for, in steps of kGrain: for places where nothing larger fits.
inline constexpr unsigned kExact = kHuge + 1;
inline constexpr std::size_t kHugeStep = std::size_t{2} << 20;
inline constexpr std::size_t kLargestAsked = std::size_t{1} << 46;
inline constexpr unsigned kLists = 576;

constexpr std::size_t round_up(std::size_t value, std::size_t step) noexcept {
    return (value + step - 1) / step * step;
}

/// The smallest class that holds nbytes, from 1.
constexpr unsigned class_of(std::size_t nbytes) noexcept {
    const std::size_t last = nbytes - 1;
    const auto top = 63U - static_cast<unsigned>(__builtin_clzll(last | 4096U));
    return ((top - 12) << 4) + static_cast<unsigned>(last >> (top - 4));
}

constexpr std::size_t size_of(unsigned index) noexcept {
    if (index < 16) return (index + 1) * kGrain;
    return (std::size_t{17} + (index - 16) % 16) << (8 + (index - 16) / 16);
}

/// The list of free memory of a length. In the first one there may be less than kGrain.
constexpr unsigned list_of(std::size_t length) noexcept {
    if (length < kGrain) return 0;
    const unsigned index = class_of(length + 1) - 1;
    return index < kLists ? index : kLists - 1;
}

/// The bytes of a block for nbytes, from 1 to kLargestAsked.
constexpr std::size_t rounded(std::size_t nbytes) noexcept {
    if (nbytes <= kLargestCached) return size_of(class_of(nbytes));
    return (nbytes + kHugeStep - 1) / kHugeStep * kHugeStep;
}

static_assert(class_of(1) == 0 && class_of(256) == 0 && class_of(257) == 1 && class_of(4096) == 15);
static_assert(class_of(4097) == 16 && size_of(16) == 4352 && size_of(class_of(8192)) == 8192);
static_assert(class_of(kLargestSmall) == kSmallClasses - 1 && class_of(kLargestCached) == kClasses - 1);
static_assert(size_of(kClasses - 1) == kLargestCached && list_of(kLargestCached) == kClasses - 1);
static_assert(list_of(4351) == 15 && list_of(4352) == 16);

/// Classes of blocks that an arena's bins hold for all threads of its stream, and no thread's cache.
constexpr bool is_shared(unsigned index) noexcept { return index > class_of(kLargestOwn) && index < kClasses; }

/// Classes of blocks that an arena keeps as they were freed: of which there may be so many that merging each would count,
/// and those that threads share.
constexpr bool is_kept(unsigned index) noexcept {
    return (index >= kSmallClasses && index <= class_of(kLargestKept)) || is_shared(index);
}

/// The class of a block of nbytes whose address is a multiple of alignment, of kSmallClasses at most; kHuge where no
/// small class is such.
constexpr unsigned aligned_class(std::size_t nbytes, std::size_t alignment) noexcept {
    for (unsigned index = class_of(nbytes); index < kSmallClasses; ++index) {
        if (size_of(index) % alignment == 0) return index;
    }
    return kHuge;
}

}  // namespace portamem::pool
