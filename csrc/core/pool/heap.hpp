// SPDX-License-Identifier: MIT
// core/pool/heap.hpp: chunks, cut into blocks and merged again.
//
// One lock covers all of it, because the neighbour of a block may be another stream's. Threads move whole batches at a
// time, so that they seldom wait for the lock. The heap calls no callback.
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

/// Memory that the pool took of its upstream in one call.
struct Chunk {
    void* ptr = nullptr;
    std::size_t nbytes = 0;
    Block* first = nullptr;
    bool is_leaving = false;  ///< on its way to the upstream: neither here nor back yet
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
    /// Returns the arena of a stream: `made`, where the stream has none yet. Throws std::bad_alloc.
    std::shared_ptr<Arena> enlisted(const std::shared_ptr<Arena>& made);
    Waiting& waiting() noexcept { return waiting_; }
    Batches& orphans() noexcept { return orphans_; }

    // heap.cpp
    /// Takes a block of `size` bytes outside slabs, cut from no free block of more than `most` bytes. False where there
    /// is none.
    bool take_large_from(Arena& arena, std::size_t size, unsigned index, std::size_t alignment, Item& item,
                         std::size_t most = SIZE_MAX);
    /// Takes a kExact block of at least `size` bytes, a multiple of kGrain, also from pieces that no other block fits
    /// into.
    bool take_exact_from(Arena& arena, std::size_t size, std::size_t alignment, Item& item);
    /// Makes a block outside slabs, which is out, at least `size` bytes long by the free memory behind it: of the arena
    /// `own` (null: of no stream's), or of the common arena. False where there is not so much.
    bool extend(Block& block, std::size_t size, Arena* own) noexcept;
    /// Returns the kExact block that begins at an address; null where there is none.
    Block* exact_at(std::uintptr_t address) const noexcept;
    /// Returns the record of the slab that an item is in, or of the item's own block.
    Block* block_of(const Item& item) const noexcept;
    /// Merges the smallest run of neighbours, free in the arena or in the common arena, that has `length` bytes in all.
    /// The run becomes the arena's. False where there is none.
    bool join_common(Arena& arena, std::size_t length) noexcept;
    /// Puts blocks of a large class into an arena as they are, for the next request of that class. They are merged with
    /// their neighbours only when too many bytes are kept.
    void keep(Arena& arena, unsigned index, const Item* items, unsigned count) noexcept;
    /// Takes kept blocks of a class. Returns how many it took.
    unsigned take_kept(Arena& arena, unsigned index, Item* items, unsigned most) noexcept;
    /// Merges one kept block of at least `length` and at most `most` bytes. False where there is none.
    bool merge_larger(Arena& arena, std::size_t length, std::size_t most = kLargestCached) noexcept;

    // slabs.cpp
    /// Takes blocks of a small class for the arena's stream: the arena's own, then the common arena's. Returns how many
    /// it took. A slab is cut from a chunk for slabs, or from a free block of up to `most_cut` bytes.
    unsigned take(Arena& own, unsigned index, Item* items, unsigned most, std::size_t most_cut = SIZE_MAX);
    /// Takes blocks of one arena only. The caller orders the streams.
    unsigned take_from(Arena& arena, unsigned index, Item* items, unsigned most);
    /// Cuts up the rest of each slab that has no block out, so that it can be dissolved. Throws std::bad_alloc.
    void cut_up(Arena& arena);
    /// Turns slabs that are all free, and kept blocks of up to `most` bytes, back into large free blocks. True if there
    /// was one.
    bool dissolve(Arena& arena, std::size_t most = kLargestCached);

    // batches.cpp
    /// Prefetches the records that give() reads, all at once instead of one after the other.
    void prefetch(unsigned index, const Item* items, std::size_t count) const noexcept;
    /// Puts blocks into an arena. On std::bad_alloc nothing has changed.
    void give(Arena& arena, const Item* items, std::size_t count);
    /// Puts blocks of one class into an arena.
    void give(Arena& arena, unsigned index, const Item* items, std::size_t count);
    /// Puts the blocks of a batch into an arena. On std::bad_alloc nothing has changed.
    void give(Arena& arena, Batch& batch);
    /// Puts a batch into its arena. An ended stream's goes behind its last mark, or to the orphans. Without host memory
    /// it becomes unmarked, or waits behind a null mark where no stream has to be waited for.
    void put(Arena& arena, Batches&& one) noexcept;
    /// Moves a stream's memory behind a mark that has happened to the common arena. On std::bad_alloc the rest still
    /// waits.
    void give_happened(std::uint64_t stream, const MarkPtr& mark);
    /// Moves the same batches to `taken`, for the caller to put somewhere.
    void take_happened(std::uint64_t stream, const MarkPtr& mark, Batches& taken) noexcept;
    /// Returns the address ranges of the same memory.
    std::vector<portamem_order_range> ranges_behind(std::uint64_t stream, const MarkPtr& mark);
    /// Moves everything that is free in an arena to a batch. On std::bad_alloc nothing has changed.
    void detach(Arena& arena, Batch& batch);
    /// Moves free blocks of at least `length` bytes each from an arena to a batch: `piece` bytes in all, where it has
    /// so many. False where it has none.
    bool detach_some(Arena& arena, std::size_t length, std::size_t alignment, std::size_t piece, Batch& batch);

    // chunks.cpp
    void add_chunk(void* ptr, std::size_t nbytes, Arena& arena, bool for_slabs = false);
    /// Adds a chunk, and takes all of it as one kExact block, to the last byte. `ptr` is a multiple of kGrain.
    void add_exact_chunk(void* ptr, std::size_t nbytes, Arena& arena, Item& item);
    /// Takes out a chunk that is all free in the common arena: the largest of up to `most` bytes, or else the smallest.
    /// False where there is none.
    bool remove_chunk(std::size_t most, Chunk& chunk);
    /// Commits a remove_chunk(): the upstream took the chunk.
    void forget_chunk(const Chunk& chunk) noexcept;
    /// Rolls a remove_chunk() back: the upstream refused the chunk.
    void restore_chunk(const Chunk& chunk) noexcept;

    // The two figures may be read without the lock.
    std::size_t reserved() const noexcept { return reserved_.load(std::memory_order_relaxed); }
    std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
    void reset_peak() noexcept { peak_ = reserved(); }
    /// Returns all chunks, also those on their way to the upstream.
    const std::vector<Chunk>& chunks() const noexcept { return chunks_; }
    std::size_t chunks_here() const noexcept;

  private:
    // heap.cpp
    Block* new_block();
    void recycle(Block* block) noexcept;
    static void cut(Block& block, std::size_t length, Block& rest) noexcept;
    Block* take_block(Arena& arena, std::size_t length, std::size_t alignment, bool at_end = false,
                      std::size_t most = SIZE_MAX);
    Block* give_block(Block* block, Arena& arena) noexcept;  ///< returns the block that it is part of now
    void hand_out(Block& block, unsigned index) noexcept;
    void merge(Arena& arena, const Item& item) noexcept;
    void merge_one(Arena& arena, unsigned index) noexcept;
    bool merge_kept(Arena& arena, const Block& block) noexcept;  ///< one block, where the arena keeps it

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
    std::uint32_t latest_number_ = 0;  ///< of the arena that was numbered last
    bool numbers_come_again_ = false;
    Waiting waiting_;
    Batches orphans_;  ///< memory of ended streams that no thread can mark any more
    std::vector<Chunk> chunks_;
    /// kExact blocks by address. They may share a page, and are not in the page map.
    std::unordered_map<std::uintptr_t, Block*> exact_;
    std::atomic<std::size_t> reserved_{0};  // written under the lock, read without it
    std::atomic<std::size_t> peak_{0};      // likewise

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
