// SPDX-License-Identifier: MIT
// portamem/mr/pool_figures.hpp: what a pool is asked and what it is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "portamem/backend.hpp"

PORTAMEM_OPEN

/// A pool's figures at about one moment: threads that allocate meanwhile are not stopped.
struct PoolStats {
    std::size_t used = 0;          ///< bytes that are out, as they were asked for
    std::size_t reserved = 0;      ///< bytes that the pool holds of its upstream
    std::size_t peak = 0;          ///< the most that were reserved at once, since reset_peak()
    std::size_t largest_free = 0;  ///< bytes of the largest free block
    std::size_t free_blocks = 0;
    double fragmentation = 0;    ///< the share of the free bytes that is not in the largest free block; 0 where none is
    std::uint64_t hits = 0;      ///< allocations from what the pool had
    std::uint64_t misses = 0;    ///< allocations for which the upstream was asked
    std::uint64_t steals = 0;    ///< times that a stream took over what was freed on another, behind an event
    std::uint64_t releases = 0;  ///< chunks that went back to the upstream
};

enum class PoolPieceState {
    Free,    ///< may be joined with its neighbours
    Cached,  ///< free, with a thread or behind an event
    Live,
    Slab  ///< cut into small blocks of one size
};

/// A piece of a chunk of the upstream's memory.
struct PoolPiece {
    std::uintptr_t chunk = 0;  ///< address of the chunk
    std::size_t chunk_nbytes = 0;
    std::uintptr_t address = 0;
    std::size_t nbytes = 0;
    std::uint64_t stream = 0;  ///< identity of the stream that a Free piece may be used on; 0: any
    PoolPieceState state = PoolPieceState::Free;
    std::size_t blocks = 0;  ///< that it is cut into
    std::size_t live = 0;    ///< of those, how many are out
    std::size_t block_nbytes = 0;
};

/// A release policy that looks at the peak alone, which costs nothing to know.
struct KeepShareOfPeak {
    double share = 1;

    std::size_t of(std::uint64_t peak) const noexcept {
        return static_cast<std::size_t>(share * static_cast<double>(peak));
    }
    std::optional<std::size_t> operator()(const PoolStats& stats) const noexcept { return of(stats.peak); }
};

struct PoolOptions {
    /// Most bytes to reserve; 0: as many as the upstream gives.
    std::size_t limit = 0;
    /// How much to keep when memory has come back: answers the bytes that may stay reserved (nothing: all). Only whole
    /// chunks that nobody uses any more go back, and nobody is waited for: what work still uses goes when that has run, on
    /// a thread of portamem's. Asked with no lock held, and not again while it answers, should it use the pool itself: of
    /// memory that the host reaches at every free, of other where a cache is full. A function of your own gets figures
    /// that are counted thread by thread and stream by stream each time; keep_share_of_peak needs none. Null: everything
    /// stays until trim(), until the upstream has no more, or until the pool would have more than its blocks ever needed.
    std::function<std::optional<std::size_t>(const PoolStats&)> release;
    /// Whether the host may reach the memory where it can. False: it is used again in stream order on every machine, at
    /// once, also where the host could reach it, which keeps to no stream; buffers refuse the host then.
    bool host_access = true;
    /// Whether this pool helps others that find no memory. True: before another pool of the same memory (this device's, or
    /// the host's) refuses a call, that call gives whole idle chunks of this pool back to this pool's upstream, on its own
    /// thread. False: what is idle here stays until this pool's own calls give it back.
    bool shares_idle = true;

    /// A release policy: keeps a share (from 0) of the most bytes that were reserved at once.
    static std::function<std::optional<std::size_t>(const PoolStats&)> keep_share_of_peak(double share) {
        return KeepShareOfPeak{share};
    }
};

PORTAMEM_CLOSE
