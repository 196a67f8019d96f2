// SPDX-License-Identifier: MIT
// core/pool/block.hpp: pieces of chunks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "size_class.hpp"

namespace portamem::pool {

struct Arena;
struct Block;

/// One word per block: 0 while the block is free, otherwise 1 + (block size - requested size). The atomic exchange to 0
/// decides which of two racing frees wins.
using State = std::uint32_t;

inline constexpr State kFree = 0;

/// Returns the state of a block of `size` bytes that is out for `nbytes`: its unused bytes plus one.
constexpr State out_of(std::size_t size, std::size_t nbytes) noexcept { return static_cast<State>(size - nbytes + 1); }

/// Returns the requested bytes of a block of `size` bytes that is out.
constexpr std::size_t asked_of(std::size_t size, State out) noexcept { return size + 1 - out; }

/// The arena number that means no arena.
inline constexpr std::uint32_t kNobodys = UINT32_MAX;

/// A free block of a cache or arena may serve a request up to this many classes below its own.
inline constexpr unsigned kMostAbove = 2;

/// The address of a block in a cache, a bin or a batch, with the block's state.
struct Item {
    std::uintptr_t address;
    std::atomic<State>* state;
};

/// The record of one piece of a chunk: a block, or a slab that is cut into small blocks of one class. Records are never
/// freed, so that a thread that frees a stale pointer reads a record and never freed memory. A record fills exactly one
/// cache line, because every large block has one.
struct alignas(64) Block {
    Block() noexcept : grains_above(0), for_slabs(0) {}

    enum class Use : std::uint8_t { Free, Taken, Slab, Detached };

    // A free reads these fields without a lock. For a block outside slabs, `states` points to own_state.
    std::uintptr_t base = 0;
    std::atomic<State>* states = nullptr;
    std::atomic<State> own_state{kFree};
    std::uint8_t index = 0;   ///< size class of what is handed out; kHuge for larger blocks, or kExact
    std::uint8_t spread = 0;  ///< log2 of the distance, in states, between two blocks' states

    // The fields below are under the heap's lock.
    Use use = Use::Free;
    std::uint8_t grains_above : 7;  ///< upper bits of the length in kGrain; `grains` has the lower 32
    std::uint8_t for_slabs : 1;     ///< part of a chunk for slabs
    std::uint32_t grains = 0;
    /// The number of the arena that has this free block, or of the arena whose bins slab.in_bins counts.
    std::uint32_t arena = kNobodys;
    Block* before = nullptr;  ///< neighbours by address in the chunk
    Block* after = nullptr;
    struct Links {
        Block* before;
        Block* after;
    };
    struct Cut {
        std::uint32_t carved;   ///< blocks that were cut from the slab so far
        std::uint32_t in_bins;  ///< blocks of it in the bins of `arena`
    };
    union {
        Links list = {nullptr, nullptr};  ///< links in the arena's list while free; list.after also links spare records
        Cut slab;                         ///< while it is a slab
        /// The bytes of a last grain that a taken kExact block has only in part. give_block() takes them off the
        /// length.
        std::uint32_t overhang;
    };

    /// Returns the bytes of the piece.
    std::size_t length() const noexcept { return (std::size_t{grains_above} << 32 | grains) * kGrain; }
    void set_length(std::size_t nbytes) noexcept {
        grains = static_cast<std::uint32_t>(nbytes / kGrain);
        grains_above = static_cast<std::uint8_t>(nbytes / kGrain >> 32 & 127U);
    }

    /// Returns the bytes of each block that is handed out. A kHuge block counts whole kHugeSteps: less than
    /// one step of its length is not used.
    std::size_t size() const noexcept {
        if (index < kHuge) return size_of(index);
        return index == kHuge ? length() / kHugeStep * kHugeStep : length();
    }

    /// Returns the record of a block outside slabs. Its own_state lies in the record, so that no table is read.
    static Block* of(const Item& item) noexcept {
        return reinterpret_cast<Block*>(reinterpret_cast<unsigned char*>(item.state) - offsetof(Block, own_state));
    }

    void prefetch() const noexcept { __builtin_prefetch(this); }
};
static_assert(sizeof(void*) != 8 || sizeof(Block) == 64);
static_assert(kExact <= 255);
static_assert(kLargestAsked + kLargestAsked / kGrain < std::size_t{1} << (40 + 7));

}  // namespace portamem::pool
