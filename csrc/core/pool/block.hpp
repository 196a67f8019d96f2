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

/// What a byte says of a block that is handed out: the one exchange of it decides who frees.
enum State : std::uint8_t {
    kIn = 0,
    kOut = 1,
    kOutAligned = 2,  ///< out, in some class above that of its bytes
    kOutAbove = 3     ///< out, one class above that of its bytes; with the next number, two classes
};

/// A block that the thread has at hand serves bytes of so many classes below its own.
inline constexpr unsigned kMostAbove = 2;

/// The state of a block of the class `serving` that is out for bytes of the class `index`.
constexpr std::uint8_t out_of(unsigned serving, unsigned index) noexcept {
    return static_cast<std::uint8_t>(serving == index ? unsigned{kOut} : unsigned{kOutAbove} + serving - index - 1);
}

/// A block on its way: in a cache, in a bin.
struct Item {
    std::uintptr_t address;
    std::atomic<std::uint8_t>* state;
};

/// Memory of a chunk, of which there is one record for each piece. A slab is cut into small blocks of one class.
/// Records are kept for good: who frees a pointer that is not his any more reads a record, never freed memory.
struct alignas(64) Block {
    enum class Use : std::uint8_t { Free, Taken, Slab, Limbo };

    // What freeing and merging read: one cache line.
    std::uintptr_t base = 0;
    std::size_t size = 0;          ///< of each block that is handed out
    std::uint32_t reciprocal = 0;  ///< of size in 2^32; 0: there is one block, at base
    std::uint8_t index = 0;        ///< the class; kHuge for those above
    std::uint8_t stride = 0;       ///< log2 of the bytes from one state to the next
    Use use = Use::Free;           ///< under the heap's lock, with all below
    std::atomic<std::uint8_t> own_state{kIn};
    std::atomic<std::uint8_t>* states = nullptr;
    std::size_t length = 0;   ///< of the memory
    Block* before = nullptr;  ///< neighbours by address, in the chunk
    Block* after = nullptr;
    Arena* arena = nullptr;  ///< whose it is while free; of a slab, in whose bins `home` of its blocks are

    Block* list_before = nullptr;  ///< in the arena's list, while free
    Block* list_after = nullptr;
    std::uint32_t blocks = 0;  ///< of a slab: how many it can be cut into,
    std::uint32_t carved = 0;  ///< has been cut into,
    std::uint32_t home = 0;    ///< and are in the bins of `arena`

    void prefetch() const noexcept {
        __builtin_prefetch(this);
        __builtin_prefetch(&list_before);
    }
};
static_assert(sizeof(void*) != 8 || offsetof(Block, list_before) == 64);
static_assert(kHuge <= 255);

}  // namespace portamem::pool
