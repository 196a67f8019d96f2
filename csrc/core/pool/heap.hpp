// SPDX-License-Identifier: MIT
// core/pool/heap.hpp: chunks, cut into blocks and put together again.
//
// One lock for all of it: the neighbours of a block may be another stream's. Threads come here with whole batches, so
// that it is seldom waited for. Nothing here calls anybody.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "arena.hpp"
#include "page_map.hpp"
#include "portamem/abi/order_api.h"
#include "slab_shape.hpp"
#include "waiting.hpp"

namespace portamem::pool {

/// Memory of the upstream.
struct Chunk {
    void* ptr = nullptr;
    std::size_t nbytes = 0;
    Block* first = nullptr;
    bool is_leaving = false;  ///< it is neither here nor back yet
};

class Heap {
  public:
    Heap() = default;
    ~Heap();

    std::mutex& mutex() noexcept { return mutex_; }
    const PageMap& pages() const noexcept { return pages_; }

    // ---- all below under the lock ----

    Arena& common() noexcept { return common_; }
    std::unordered_map<std::uint64_t, std::shared_ptr<Arena>>& arenas() noexcept { return arenas_; }
    Arena* arena_of(std::uint64_t stream) noexcept;
    /// The arena of a stream: the one made for it, where there is none yet. Throws std::bad_alloc.
    std::shared_ptr<Arena> enlisted(const std::shared_ptr<Arena>& made);
    Waiting& waiting() noexcept { return waiting_; }
    Batches& orphans() noexcept { return orphans_; }

    // heap.cpp
    /// A block of `size` bytes that stands by itself.
    /// Cut from no free block of more than `most` bytes.
    bool take_large_from(Arena& arena, std::size_t size, unsigned index, std::size_t alignment, Item& item,
                         std::size_t most = SIZE_MAX);
    /// A kExact block of at least `size` bytes, a multiple of kGrain, also out of pieces that no other block fits into.
    bool take_exact_from(Arena& arena, std::size_t size, std::size_t alignment, Item& item);
    /// The kExact block that begins at an address; null where there is none.
    Block* exact_at(std::uintptr_t address) const noexcept;
    /// The record of the slab that an item is in, or of the block that it is.
    Block* block_of(const Item& item) const noexcept;
    /// Merges neighbours of which some are free in the arena and some are nobody's, where they have `length` bytes in all:
    /// the smallest such. They are the arena's then. False where there are none.
    bool join_common(Arena& arena, std::size_t length) noexcept;
    /// Puts blocks of a class above the small ones into an arena, for whoever wants that class again. So much of them is
    /// not merged with its neighbours before it has to be.
    void keep(Arena& arena, unsigned index, const Item* items, unsigned count) noexcept;
    /// Takes blocks that were kept. Answers how many there were.
    unsigned take_kept(Arena& arena, unsigned index, Item* items, unsigned most) noexcept;
    /// Merges one kept block that is large enough for `length` bytes and not larger than `most`. False where there is none.
    bool merge_larger(Arena& arena, std::size_t length, std::size_t most = kLargestCached) noexcept;

    // slabs.cpp
    /// Blocks of a class, for use on the arena's stream: its own, then what nobody uses. Answers how many there were.
    /// A slab is cut from a chunk for slabs, or from a free block of up to `most_cut` bytes.
    unsigned take(Arena& own, unsigned index, Item* items, unsigned most, std::size_t most_cut = SIZE_MAX);
    /// The same out of one arena only: for those who order the streams themselves.
    unsigned take_from(Arena& arena, unsigned index, Item* items, unsigned most);
    /// Cuts up what slabs have left of which nothing is out, so that they can be dissolved. Throws std::bad_alloc.
    void cut_up(Arena& arena);
    /// Puts slabs that are all free, and kept blocks of up to `most` bytes, back among the large blocks. True if there was
    /// one.
    bool dissolve(Arena& arena, std::size_t most = kLargestCached);

    // batches.cpp
    /// Fetches what giving blocks back reads, all at once rather than one after the other.
    void prefetch(unsigned index, const Item* items, std::size_t count) const noexcept;
    /// Puts blocks into an arena. Throws std::bad_alloc, and nothing has happened.
    void give(Arena& arena, const Item* items, std::size_t count);
    /// The same of one class.
    void give(Arena& arena, unsigned index, const Item* items, std::size_t count);
    /// Puts the blocks of a batch into an arena. Throws std::bad_alloc, and nothing has happened.
    void give(Arena& arena, Batch& batch);
    /// Puts a batch where its arena has such: into the bins, aside where there is no host memory, behind the last mark
    /// of a stream that has ended. The common arena's waits for nothing.
    void put(Arena& arena, Batches&& one) noexcept;
    /// What a stream has waiting behind that mark, which has happened. Throws std::bad_alloc: it is waiting still.
    void give_happened(std::uint64_t stream, const MarkPtr& mark);
    /// The same, taken out for the caller to put somewhere.
    void take_happened(std::uint64_t stream, const MarkPtr& mark, Batches& taken) noexcept;
    /// Of that, the memory.
    std::vector<portamem_order_range> ranges_behind(std::uint64_t stream, const MarkPtr& mark);
    /// Takes out all that is free in an arena. Throws std::bad_alloc, and nothing has happened.
    void detach(Arena& arena, Batch& batch);
    /// Moves free blocks that hold `length` bytes each from an arena to a batch: `piece` bytes in all, where there are so
    /// many. False where there is none.
    bool detach_some(Arena& arena, std::size_t length, std::size_t alignment, std::size_t piece, Batch& batch);

    // chunks.cpp
    void add_chunk(void* ptr, std::size_t nbytes, Arena& arena, bool for_slabs = false);
    /// The same, and takes all of it as one kExact block, to the last byte. ptr is a multiple of kGrain.
    void add_exact_chunk(void* ptr, std::size_t nbytes, Arena& arena, Item& item);
    /// Takes a chunk out that is all free in the common arena: the largest of up to `most` bytes, or else the smallest.
    /// False where there is none.
    bool remove_chunk(std::size_t most, Chunk& chunk);
    /// It has gone,
    void forget_chunk(const Chunk& chunk) noexcept;
    /// or could not.
    void restore_chunk(const Chunk& chunk) noexcept;

    // Without the lock too.
    std::size_t reserved() const noexcept { return reserved_.load(std::memory_order_relaxed); }
    std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
    void reset_peak() noexcept { peak_ = reserved(); }
    /// Also those that leave just now.
    const std::vector<Chunk>& chunks() const noexcept { return chunks_; }
    std::size_t chunks_here() const noexcept;

  private:
    // heap.cpp
    Block* new_block();
    void recycle(Block* block) noexcept;
    static void cut(Block& block, std::size_t length, Block& rest) noexcept;
    Block* take_block(Arena& arena, std::size_t length, std::size_t alignment, bool at_end = false,
                      std::size_t most = SIZE_MAX);
    Block* give_block(Block* block, Arena& arena) noexcept;  ///< the block that it is part of now
    void hand_out(Block& block, unsigned index) noexcept;
    void merge(Arena& arena, const Item& item) noexcept;
    void merge_one(Arena& arena, unsigned index) noexcept;

    // slabs.cpp
    std::atomic<State>* new_states(unsigned index, std::size_t count);
    static Item item_of(const Block& slab, std::uint32_t number) noexcept;
    Block* new_slab(Arena& arena, unsigned index, Arena& owner, std::size_t most_cut);
    void enter_pages(Block& slab);
    void clear_pages(const Block& slab) noexcept;
    void put_in_bin(Arena& arena, Block& slab, const Item& item) noexcept;
    void taken_from_bin(Arena& arena, const Item& item) noexcept;

    std::mutex mutex_;
    PageMap pages_;
    Arena common_{0, 0};
    std::unordered_map<std::uint64_t, std::shared_ptr<Arena>> arenas_;
    std::uint32_t latest_number_ = 0;  ///< of an arena
    bool numbers_come_again_ = false;
    Waiting waiting_;
    Batches orphans_;  ///< behind work that nobody can mark any more
    std::vector<Chunk> chunks_;
    std::unordered_map<std::uintptr_t, Block*> exact_;  ///< blocks that may share a page, and are in no page map
    std::atomic<std::size_t> reserved_{0};              // written under the lock, and read by all
    std::atomic<std::size_t> peak_{0};                  // the same

    std::vector<std::unique_ptr<Block[]>> records_;
    Block* spare_ = nullptr;
    std::size_t unused_ = 0;  ///< records at the end of the latest array

    struct States {
        std::vector<std::atomic<State>*> free;
        std::size_t made = 0;
    };
    std::array<States, kSmallClasses> states_;
    std::vector<std::unique_ptr<std::atomic<State>[]>> state_memory_;
};

}  // namespace portamem::pool
