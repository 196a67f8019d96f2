// SPDX-License-Identifier: MIT
// python/knobs/kernel_support.hpp: functions that kernels of the CPU reference runtime share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace portamem::knobs {

using Byte = unsigned char;
using Words = const std::uint64_t*;

inline Byte pattern(std::uint64_t i, std::uint64_t seed) {
    return static_cast<Byte>((static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(seed)) * 2654435761u >> 24);
}

/// Returns where a kernel finds memory of the device; null for memory that it does not reach.
template <class T = Byte>
T* at(std::uint64_t address, std::size_t count = 1) {
    return static_cast<T*>(pmhKernelAddress(reinterpret_cast<const void*>(address), count * sizeof(T)));
}

// Adds to a counter. Other blocks run before or after this one, never beside it, but other kernels do.
inline void add(std::uint64_t counter, std::uint64_t count) {
    if (count == 0) return;
    if (auto* word = at<std::uint64_t>(counter)) __atomic_fetch_add(word, count, __ATOMIC_RELAXED);
}

}  // namespace portamem::knobs
