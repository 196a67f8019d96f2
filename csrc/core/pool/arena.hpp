// SPDX-License-Identifier: MIT
// core/pool/arena.hpp: the free memory of one stream; in the common arena, memory that no stream has to be waited for.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "block.hpp"
#include "mark.hpp"

namespace portamem::pool {

/// The free memory of one stream, by size. Under the heap's lock.
struct Arena {
    explicit Arena(std::uint64_t identity, std::uint32_t known_by = kNobodys) : stream(identity), number(known_by) {}
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    const std::uint64_t stream;  ///< 0: the common arena
    std::uint32_t number;        ///< the number by which blocks name this arena
    void* ref = nullptr;         ///< the owner's handle of the stream, for callbacks
    bool is_per_thread = false;
    bool is_marked_in_calls = false;  ///< a per-thread stream that the pool may touch only during a call on it
    bool has_ended = false;           ///< memory that comes from now on goes to the common arena, behind `latest`
    bool is_orphan = false;           ///< ended, and its last work is unknown: the pool waits for the whole device
    bool is_marked = false;           ///< `latest` is behind everything that is free here
    /// The temporary arena of one call, on a stream whose end is never reported. Other calls leave it alone.
    bool is_of_call = false;
    MarkPtr latest;  ///< a per-thread stream's, made by its thread; or the last mark of an ended stream

    static constexpr unsigned kAllLists = 2 * kLists;
    std::array<Block*, kAllLists> lists{};  ///< by size; then again by size, for chunks for slabs
    std::array<std::uint64_t, (kAllLists + 63) / 64> nonempty{};
    std::array<std::vector<Item>, kClasses> bins;  ///< above the small classes: kept blocks, as they were freed
    std::array<std::uint64_t, (kClasses + 63) / 64> kept{};  ///< one bit for each class with kept blocks
    std::array<Block*, kSmallClasses> carving{};             ///< slabs that are not fully cut yet

    std::size_t free = 0;    ///< bytes in `lists`
    std::size_t pieces = 0;  ///< blocks in `lists`
    std::size_t largest = 0;
    bool knows_largest = true;
    /// Kept blocks: not merged with their neighbours since they were freed.
    struct Unmerged {
        std::size_t nbytes = 0;
        unsigned next = 0;  ///< the class of the next block to merge, where too much is kept
    };
    Unmerged unmerged;  ///< blocks of up to kLargestKept
    /// Blocks above kLargestOwn. Other streams leave them alone while the upstream has memory.
    Unmerged shared;
    std::size_t whole = 0;         ///< bytes of slabs whose blocks are all in bins
    std::uint64_t insertions = 0;  ///< how often memory was freed into this arena
    /// Memory in no bin yet: in a pool that the host reaches for want of an event, in any other for want of host
    /// memory.
    Batches unmarked;
    std::uint64_t latest_unmarked = 0;  ///< the number of the batch that became unmarked last
    /// The donor's `insertions`, by donor stream, up to which this stream waits for the donor's work.
    std::unordered_map<std::uint64_t, std::uint64_t> waited;
    std::list<std::weak_ptr<Arena>> ticket;  ///< a node that names this arena, ready for the list of ended arenas

    void link(Block& block) noexcept {
        const unsigned list = list_for(block);
        block.use = Block::Use::Free;
        block.arena = number;
        block.list = {nullptr, lists[list]};
        if (lists[list] != nullptr) lists[list]->list.before = &block;
        lists[list] = &block;
        nonempty[list / 64] |= std::uint64_t{1} << list % 64;
        free += block.length();
        if (pieces++ == 0) knows_largest = true;
        if (knows_largest && block.length() > largest) largest = block.length();
    }

    void unlink(Block& block) noexcept {
        const unsigned list = list_for(block);
        if (block.list.after != nullptr) block.list.after->list.before = block.list.before;
        if (block.list.before != nullptr) {
            block.list.before->list.after = block.list.after;
        } else {
            lists[list] = block.list.after;
            if (lists[list] == nullptr) nonempty[list / 64] &= ~(std::uint64_t{1} << list % 64);
        }
        block.arena = kNobodys;
        free -= block.length();
        --pieces;
        if (block.length() != largest) return;
        knows_largest = lists[list] != nullptr && lists[list]->length() == largest;
        if (!knows_largest) largest = 0;
    }

    /// Returns the bytes of the largest block in `lists`. Where that block has left since the last call, the function
    /// searches the largest usual list that has blocks, and the largest one for slabs.
    std::size_t largest_piece() noexcept {
        if (knows_largest || pieces == 0) return largest;
        unsigned last[2] = {0, kLists};  // one for the usual lists, one for those of slabs
        for (unsigned list = next_list(0); list < kAllLists; list = next_list(list + 1)) last[list / kLists] = list;
        for (const unsigned list : last) {
            for (const Block* block = lists[list]; block != nullptr; block = block->list.after) {
                if (block->length() > largest) largest = block->length();
            }
        }
        knows_largest = true;
        return largest;
    }

    /// Adds one batch to `unmarked`, and numbers it.
    void add_unmarked(Batches&& one) noexcept {
        one.front().number = ++latest_unmarked;
        unmarked.splice(unmarked.end(), one);
    }

    /// Whether no memory is free here.
    bool is_empty() const noexcept {
        const auto has_none = [](const auto& bin) { return bin.empty(); };
        const auto is_none = [](const Block* slab) { return slab == nullptr; };
        return next_list(0) == kAllLists && unmarked.empty() && std::all_of(bins.begin(), bins.end(), has_none) &&
               std::all_of(carving.begin(), carving.end(), is_none);
    }

    /// Returns the first list from `list` on that has blocks; kAllLists where none has.
    unsigned next_list(unsigned list) const noexcept { return next_bit(nonempty, list, kAllLists); }

    Unmerged& unmerged_of(unsigned index) noexcept { return is_shared(index) ? shared : unmerged; }

    /// Returns the first class from `index` on that has kept blocks; kClasses where none has.
    unsigned next_kept(unsigned index) const noexcept { return next_bit(kept, index, kClasses); }

    /// Returns the first set bit from `bit` on; `none` where no bit is set.
    template <std::size_t Words>
    static unsigned next_bit(const std::array<std::uint64_t, Words>& words, unsigned bit, unsigned none) noexcept {
        for (unsigned word = bit / 64; word < Words; ++word) {
            std::uint64_t bits = words[word];
            if (word == bit / 64) bits &= ~std::uint64_t{0} << bit % 64;
            if (bits != 0) return word * 64 + static_cast<unsigned>(__builtin_ctzll(bits));
        }
        return none;
    }

    /// Returns the bytes before the first aligned address in a free block.
    static std::size_t front(const Block& block, std::size_t alignment) noexcept {
        return static_cast<std::size_t>(-block.base & (alignment - 1));
    }

    /// Returns a free block with `length` aligned bytes, from the smallest list that has one and no list above that of
    /// `most` bytes. Chunks for slabs come last; with for_slab they come first, and `most` does not bind them.
    Block* find(std::size_t length, std::size_t alignment, std::size_t most = SIZE_MAX, bool for_slab = false) const {
        if (for_slab) {
            Block* const found = find_in(kLists, length, alignment, SIZE_MAX);
            return found != nullptr ? found : find_in(0, length, alignment, most);
        }
        Block* const found = find_in(0, length, alignment, most);
        return found != nullptr ? found : find_in(kLists, length, alignment, most);
    }

  private:
    static unsigned list_for(const Block& block) noexcept {
        return list_of(block.length()) + (block.for_slabs != 0 ? kLists : 0);
    }

    Block* find_in(unsigned begin, std::size_t length, std::size_t alignment, std::size_t most) const noexcept {
        if (most < length) return nullptr;
        const unsigned first = begin + list_of(length);
        const unsigned last = begin + (most == SIZE_MAX ? kLists - 1 : list_of(most));
        for (unsigned list = next_list(first); list <= last; list = next_list(list + 1)) {
            unsigned looked_at = 0;
            const bool all_fit = alignment <= kGrain && list > first;
            for (Block* block = lists[list]; block != nullptr; block = block->list.after) {
                if (all_fit || front(*block, alignment) + length <= block->length()) return block;
                if (++looked_at == 64) break;
            }
        }
        return nullptr;
    }
};

}  // namespace portamem::pool
