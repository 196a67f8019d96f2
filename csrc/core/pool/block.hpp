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

/// What is said of each block that can be handed out: whether it is, and as how many bytes. The one exchange of it decides
/// who frees.
using State = std::uint32_t;

inline constexpr State kFree = 0;

/// The state of a block of `size` bytes that is out as `nbytes`: one more than what is not used of it.
constexpr State out_of(std::size_t size, std::size_t nbytes) noexcept { return static_cast<State>(size - nbytes + 1); }

/// The bytes as which a block of `size` bytes is out.
constexpr std::size_t asked_of(std::size_t size, State out) noexcept { return size + 1 - out; }

/// The number of no arena.
inline constexpr std::uint32_t kNobodys = UINT32_MAX;

/// A block that the thread has at hand serves bytes of so many classes below its own.
inline constexpr unsigned kMostAbove = 2;

/// A block on its way: in a cache, in a bin.
struct Item {
    std::uintptr_t address;
    std::atomic<State>* state;
};

/// Memory of a chunk, of which there is one record for each piece. A slab is cut into small blocks of one class.
/// Records are kept for good: who frees a pointer that is not his any more reads a record, never freed memory. There is one
/// for each large block, so that it is one cache line and no more.
struct alignas(64) Block {
    Block() noexcept : grains_above(0), for_slabs(0) {}

    enum class Use : std::uint8_t { Free, Taken, Slab, Detached };

    // What freeing reads without a lock. Where there is one block, at base, `states` is own_state.
    std::uintptr_t base = 0;
    std::atomic<State>* states = nullptr;
    std::atomic<State> own_state{kFree};
    std::uint8_t index = 0;   ///< the class of what is handed out; kHuge for those above, or kExact
    std::uint8_t spread = 0;  ///< log2 of the states from one block's to the next one's

    // Under the heap's lock.
    Use use = Use::Free;
    std::uint8_t grains_above : 7;  ///< length, in kGrain: the bits above those of grains
    std::uint8_t for_slabs : 1;     ///< of a chunk that was asked for to cut slabs from
    std::uint32_t grains = 0;
    std::uint32_t arena =
        kNobodys;             ///< by number: whose it is while free; of a slab, in whose bins `home` of its blocks are
    Block* before = nullptr;  ///< neighbours by address, in the chunk
    Block* after = nullptr;
    struct Links {
        Block* before;
        Block* after;
    };
    struct Cut {
        std::uint32_t carved;   ///< how many blocks it has been cut into,
        std::uint32_t in_bins;  ///< and are in the bins of `arena`
    };
    union {
        Links list = {nullptr, nullptr};  ///< in the arena's list, while free; of records without memory, the next
        Cut slab;                         ///< of a slab
        std::uint32_t overhang;           ///< of a taken kExact block: bytes of its last grain that its chunk has not
    };

    /// The bytes of the memory.
    std::size_t length() const noexcept { return (std::size_t{grains_above} << 32 | grains) * kGrain; }
    void set_length(std::size_t nbytes) noexcept {
        grains = static_cast<std::uint32_t>(nbytes / kGrain);
        grains_above = static_cast<std::uint8_t>(nbytes / kGrain >> 32 & 127U);
    }

    /// The bytes of each block that is handed out. One of no class has less than a step of those beside it.
    std::size_t size() const noexcept {
        if (index < kHuge) return size_of(index);
        return index == kHuge ? length() / kHugeStep * kHugeStep : length();
    }

    /// The record of what stands by itself, out of its item: no table is read.
    static Block* of(const Item& item) noexcept {
        return reinterpret_cast<Block*>(reinterpret_cast<unsigned char*>(item.state) - offsetof(Block, own_state));
    }

    void prefetch() const noexcept { __builtin_prefetch(this); }
};
static_assert(sizeof(void*) != 8 || sizeof(Block) == 64);
static_assert(kExact <= 255);
static_assert(kLargestAsked + kLargestAsked / kGrain < std::size_t{1} << (40 + 7));

}  // namespace portamem::pool
