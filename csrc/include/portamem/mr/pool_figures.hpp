// SPDX-License-Identifier: MIT
// portamem/mr/pool_figures.hpp: a pool's figures and options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "portamem/backend.hpp"

PORTAMEM_OPEN

/// Holds a pool's figures. They are of about one moment, because threads that allocate meanwhile are not stopped.
struct PoolStats {
    std::size_t used = 0;          ///< bytes that are out, as they were asked for
    std::size_t reserved = 0;      ///< bytes that the pool holds of its upstream
    std::size_t peak = 0;          ///< the most that were reserved at once, since reset_peak()
    std::size_t largest_free = 0;  ///< bytes of the largest free block
    std::size_t free_blocks = 0;
    double fragmentation = 0;    ///< the share of the free bytes that is not in the largest free block; 0 where none is
    std::uint64_t hits = 0;      ///< allocations that the pool served from what it had
    std::uint64_t misses = 0;    ///< allocations for which the upstream was asked
    std::uint64_t steals = 0;    ///< times that a stream took over memory freed on another stream, behind an event
    std::uint64_t releases = 0;  ///< chunks that went back to the upstream
};

/// Says what a piece of a chunk is.
enum class PoolPieceState {
    Free,    ///< may be joined with its neighbours
    Cached,  ///< free, in a thread's cache or behind an event
    Live,
    Slab  ///< cut into small blocks of one size
};

/// Describes a piece of a chunk of the upstream's memory.
struct PoolPiece {
    std::uintptr_t chunk = 0;  ///< address of the chunk
    std::size_t chunk_nbytes = 0;
    std::uintptr_t address = 0;
    std::size_t nbytes = 0;
    std::uint64_t stream = 0;  ///< identity of the stream that a Free piece may be used on; 0: any
    PoolPieceState state = PoolPieceState::Free;
    std::size_t blocks = 0;  ///< how many blocks it is cut into
    std::size_t live = 0;    ///< of those, how many are out
    std::size_t block_nbytes = 0;
};

/// Represents a release policy that reads the peak alone, which costs nothing to know.
struct KeepShareOfPeak {
    double share = 1;

    std::size_t of(std::uint64_t peak) const noexcept {
        return static_cast<std::size_t>(share * static_cast<double>(peak));
    }
    std::optional<std::size_t> operator()(const PoolStats& stats) const noexcept { return of(stats.peak); }
};

/// Says how a pool is made: how much it may reserve, what it keeps, and whether the host uses its memory. The choices
/// are the pool's for its life, except for the limit (PoolMemoryResource::set_limit).
struct PoolOptions {
    /// Limits the bytes to reserve; 0 means as many as the upstream gives.
    std::size_t limit = 0;
    /// Decides how much the pool keeps when memory has come back. Null keeps everything until trim(), until the
    /// upstream has no more, or until the pool would have more than its blocks ever needed.
    /// - Called: at every free of memory that the host reaches, and for other memory where a cache is full. It is not
    ///   called again while it runs, so it may use the pool itself.
    /// - Returns: the bytes that may stay reserved; nothing keeps all.
    /// - Released: whole chunks of which nothing is out. The free waits for no work: a chunk that work still uses goes
    ///   back when that work has run, on a thread of portamem's.
    /// - Lock held: none.
    /// - Cost: your own function gets figures that are counted thread by thread and stream by stream at each call;
    ///   keep_share_of_peak needs none.
    std::function<std::optional<std::size_t>(const PoolStats&)> release;
    /// Says whether the host may use the memory where it reaches it. False: the pool uses freed memory again at once in
    /// stream order on every machine, also where the host, which follows no stream, reaches the memory. Buffers refuse
    /// the host then.
    bool host_access = true;
    /// Says whether this pool helps others that find no memory. True: before another pool of the same memory (this
    /// device's, or the host's), or a resource that asks the runtime each time, refuses a call, that call gives whole
    /// idle chunks of this pool back to this pool's upstream, on its own thread. False: idle chunks stay here until
    /// this pool's own calls give them back.
    bool shares_idle = true;
    /// Bytes to reserve when the pool is made, in one chunk of at least that size. The pool gives it back as any other
    /// chunk: at trim(), and where memory is short.
    std::size_t initial_size = 0;

    /// Makes a release policy that keeps a share (from 0) of the most bytes that were reserved at once.
    static std::function<std::optional<std::size_t>(const PoolStats&)> keep_share_of_peak(double share) {
        return KeepShareOfPeak{share};
    }
};

PORTAMEM_CLOSE
