// SPDX-License-Identifier: MIT
// core/pool/transfers.hpp: how much memory is on its way between a pool and its upstream.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>

namespace portamem::pool {

/// Chunks that are asked for, or given back, just now: they are neither free here nor the upstream's, and count against
/// limits. And what a stream takes over from another, of 0 bytes here. Under the heap's lock.
struct Transfers {
    std::size_t nbytes = 0;         ///< under way
    unsigned under_way = 0;         ///< how many
    std::uint64_t arrived = 0;      ///< how many ended well, ever
    std::uint64_t given_up = 0;     ///< how many did not: limits have their room again
    std::condition_variable ended;  ///< one of them
};

}  // namespace portamem::pool
