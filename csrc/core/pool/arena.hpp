// SPDX-License-Identifier: MIT
// core/pool/arena.hpp: what is free on one stream, or, in the pool's common arena, what nobody uses.
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

/// Free memory by size. Under the heap's lock.
struct Arena {
    explicit Arena(std::uint64_t identity, std::uint32_t known_by = kNobodys) : stream(identity), number(known_by) {}
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    const std::uint64_t stream;  ///< 0: the common arena
    std::uint32_t number;        ///< by which blocks know it
    void* ref = nullptr;         ///< of the stream, for the owner's callbacks
    bool is_per_thread = false;
    bool is_marked_in_calls = false;  ///< per thread, and between calls on it nobody may touch the stream
    bool has_ended = false;           ///< what comes now belongs to the common arena, behind latest
    bool is_orphan = false;           ///< ended, and nothing is known of its last work: its device is waited for
    bool is_marked = false;           ///< latest is after all that is here
    bool is_of_call = false;          ///< of one call, on a stream whose end nobody tells: others leave it alone
    MarkPtr latest;                   ///< of a per-thread stream, made by its thread; of an ended one, its last

    static constexpr unsigned kAllLists = 2 * kLists;
    std::array<Block*, kAllLists> lists{};  ///< by size; and again by size, of chunks for slabs
    std::array<std::uint64_t, (kAllLists + 63) / 64> nonempty{};
    std::array<std::vector<Item>, kClasses> bins;  ///< above the small classes: kept as they were freed, not merged
    std::array<std::uint64_t, (kClasses + 63) / 64> kept{};  ///< the classes of those
    std::array<Block*, kSmallClasses> carving{};             ///< slabs that are not all cut yet

    std::size_t free = 0;    ///< bytes in lists
    std::size_t pieces = 0;  ///< and blocks
    std::size_t largest = 0;
    bool knows_largest = true;
    /// Blocks that are kept as they were freed.
    struct Unmerged {
        std::size_t nbytes = 0;
        unsigned next = 0;  ///< the class of which one is merged next, where there are too many
    };
    Unmerged unmerged;             ///< up to kLargestKept
    Unmerged shared;               ///< above kLargestOwn; other streams leave them alone while the upstream has memory
    std::size_t whole = 0;         ///< bytes of slabs all of whose blocks are in bins
    std::uint64_t insertions = 0;  ///< how often something was freed into it
    /// In no bin yet: of memory that the host reaches, for want of an event behind it; of other, for want of host memory.
    Batches unmarked;
    std::unordered_map<std::uint64_t, std::uint64_t> waited;  ///< up to which insertion of another arena
    std::list<std::weak_ptr<Arena>> ticket;                   ///< this one, for the list of those that have ended

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

    /// The bytes of the largest block in lists. Where it was taken out since the latest question, those of its list are
    /// looked at.
    std::size_t largest_piece() noexcept {
        if (knows_largest || pieces == 0) return largest;
        unsigned last[2] = {0, kLists};  // of the usual lists, and of those for slabs
        for (unsigned list = next_list(0); list < kAllLists; list = next_list(list + 1)) last[list / kLists] = list;
        for (const unsigned list : last) {
            for (const Block* block = lists[list]; block != nullptr; block = block->list.after) {
                if (block->length() > largest) largest = block->length();
            }
        }
        knows_largest = true;
        return largest;
    }

    /// Whether nothing is free here.
    bool is_empty() const noexcept {
        const auto has_none = [](const auto& bin) { return bin.empty(); };
        const auto is_none = [](const Block* slab) { return slab == nullptr; };
        return next_list(0) == kAllLists && unmarked.empty() && std::all_of(bins.begin(), bins.end(), has_none) &&
               std::all_of(carving.begin(), carving.end(), is_none);
    }

    /// The first list from `list` on that has something; kAllLists where none has.
    unsigned next_list(unsigned list) const noexcept { return next_bit(nonempty, list, kAllLists); }

    Unmerged& unmerged_of(unsigned index) noexcept { return is_shared(index) ? shared : unmerged; }

    /// The first class from `index` on of which blocks are kept; kClasses where there is none.
    unsigned next_kept(unsigned index) const noexcept { return next_bit(kept, index, kClasses); }

    /// The first bit from `bit` on that is set; `none` where no such is.
    template <std::size_t Words>
    static unsigned next_bit(const std::array<std::uint64_t, Words>& words, unsigned bit, unsigned none) noexcept {
        for (unsigned word = bit / 64; word < Words; ++word) {
            std::uint64_t bits = words[word];
            if (word == bit / 64) bits &= ~std::uint64_t{0} << bit % 64;
            if (bits != 0) return word * 64 + static_cast<unsigned>(__builtin_ctzll(bits));
        }
        return none;
    }

    /// The bytes in front of the first place in a free block that is so aligned.
    static std::size_t front(const Block& block, std::size_t alignment) noexcept {
        return static_cast<std::size_t>(-block.base & (alignment - 1));
    }

    /// A free block that holds `length` bytes at an aligned place, of a list that is as small as can be, and not above that
    /// of `most` bytes. Of those for slabs where there is no other; for_slab: of those first, however large they are.
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
