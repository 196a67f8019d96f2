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
    bool has_ended = false;   ///< what comes now belongs to the common arena, behind latest
    bool is_orphan = false;   ///< ended, and nothing is known of its last work: its device is waited for
    bool is_marked = false;   ///< latest is after all that is here
    bool is_of_call = false;  ///< of one call, on a stream whose end nobody tells: others leave it alone
    MarkPtr latest;           ///< of a per-thread stream, made by its thread; of an ended one, its last

    std::array<Block*, kLists> lists{};
    std::array<std::uint64_t, (kLists + 63) / 64> nonempty{};
    std::array<std::vector<Item>, kClasses> bins;  ///< above the small classes: kept as they were freed, not merged
    std::array<std::uint64_t, (kClasses + 63) / 64> kept{};  ///< the classes of those
    std::array<Block*, kSmallClasses> carving{};             ///< slabs that are not all cut yet

    std::size_t free = 0;          ///< bytes in lists
    std::size_t unmerged = 0;      ///< bytes of kept blocks
    unsigned merging = 0;          ///< the class of which one is merged next, where there are too many
    std::size_t whole = 0;         ///< bytes of slabs all of whose blocks are in bins
    std::uint64_t insertions = 0;  ///< how often something was freed into it
    /// In no bin yet: of memory that the host reaches, for want of an event behind it; of other, for want of host memory.
    Batches aside;
    std::unordered_map<std::uint64_t, std::uint64_t> waited;  ///< up to which insertion of another arena
    std::list<std::weak_ptr<Arena>> ticket;                   ///< this one, for the list of those that have ended

    void link(Block& block) noexcept {
        const unsigned list = list_of(block.length());
        block.use = Block::Use::Free;
        block.arena = number;
        block.list = {nullptr, lists[list]};
        if (lists[list] != nullptr) lists[list]->list.before = &block;
        lists[list] = &block;
        nonempty[list / 64] |= std::uint64_t{1} << list % 64;
        free += block.length();
    }

    void unlink(Block& block) noexcept {
        const unsigned list = list_of(block.length());
        if (block.list.after != nullptr) block.list.after->list.before = block.list.before;
        if (block.list.before != nullptr) {
            block.list.before->list.after = block.list.after;
        } else {
            lists[list] = block.list.after;
            if (lists[list] == nullptr) nonempty[list / 64] &= ~(std::uint64_t{1} << list % 64);
        }
        block.arena = kNobodys;
        free -= block.length();
    }

    /// Whether nothing is free here.
    bool is_empty() const noexcept {
        const auto has_none = [](const auto& bin) { return bin.empty(); };
        const auto is_none = [](const Block* slab) { return slab == nullptr; };
        return free == 0 && aside.empty() && std::all_of(bins.begin(), bins.end(), has_none) &&
               std::all_of(carving.begin(), carving.end(), is_none);
    }

    /// The first list from `list` on that has something; kLists where none has.
    unsigned next_list(unsigned list) const noexcept { return next_bit(nonempty, list, kLists); }

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

    /// A free block that holds `length` bytes at an aligned place, of a list that is as small as can be.
    Block* find(std::size_t length, std::size_t alignment) const noexcept {
        const unsigned first = list_of(length);
        for (unsigned list = next_list(first); list < kLists; list = next_list(list + 1)) {
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
