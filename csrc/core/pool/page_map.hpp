// SPDX-License-Identifier: MIT
// core/pool/page_map.hpp: from an address to the block that it belongs to, without a lock.
//
// Pages are 32 KiB: a block that stands by itself is larger, so that at most one begins in a page, and slabs take whole
// pages. 64 pages are a region, and a region has a node: a hash table of those of its pages that have a block. So the host
// memory that is taken follows the number of blocks, whatever their size: 8 to 16 bytes for each page that has one (more
// where many of a region's would have to lie close together in its node), and 8 for each 2 MiB of addresses, in tables
// which are there for 8 GiB at once.
//
// A region gets larger nodes and never a smaller one, and a node that was replaced goes to another region. So a region
// never has a node for the second time: who sees it with one node before and after has read what is the region's own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "block.hpp"

namespace portamem::pool {

inline constexpr unsigned kPageBits = 15;
inline constexpr std::size_t kPage = std::size_t{1} << kPageBits;

class PageMap {
  public:
    static constexpr unsigned kRegionPageBits = 6;
    static constexpr unsigned kRegionBits = kPageBits + kRegionPageBits;  ///< of the addresses that a region covers
    static constexpr unsigned kBits = 12;
    static constexpr unsigned kLeafBits = kRegionBits + kBits;  ///< of the addresses that a leaf covers
    static constexpr std::size_t kEntries = std::size_t{1} << kBits;
    static constexpr unsigned kAddressBits = kRegionBits + 3 * kBits;

    /// The address of a region's node, and in the bits below how often 64 is halved to have its slots; 0: no node yet.
    using Region = std::atomic<std::uintptr_t>;
    using Leaf = std::array<Region, kEntries>;

    PageMap();
    ~PageMap();
    PageMap(const PageMap&) = delete;
    PageMap& operator=(const PageMap&) = delete;

    /// The leaf of an address; null where no block has been.
    Leaf* leaf_of(std::uintptr_t address) const noexcept {
        if (!covers(address)) return nullptr;
        Middle* const middle = (*top_)[address >> (kLeafBits + kBits)].load(std::memory_order_acquire);
        if (middle == nullptr) return nullptr;
        return (*middle)[address >> kLeafBits & (kEntries - 1)].load(std::memory_order_acquire);
    }

    /// The block of an address that is handed out, or might be; null where there is none.
    static Block* find_in(const Leaf& leaf, std::uintptr_t address) noexcept {
        const Region& region = leaf[address >> kRegionBits & (kEntries - 1)];
        const std::uintptr_t node = region.load(std::memory_order_acquire);
        if (__builtin_expect(node == 0, 0)) return nullptr;
        const std::uintptr_t page = page_of(address);
        const std::uintptr_t entry = slots_of(node)[first_of(node, page)].load(std::memory_order_acquire);
        const bool is_here = is_of(entry, page) && region.load(std::memory_order_acquire) == node;
        if (__builtin_expect(is_here, 1)) return reinterpret_cast<Block*>(entry - page);
        return found_by_probing(region, page);
    }
    Block* find(std::uintptr_t address) const noexcept {
        const Leaf* const leaf = leaf_of(address);
        return leaf == nullptr ? nullptr : find_in(*leaf, address);
    }

    static bool covers(std::uintptr_t address) noexcept { return address >> kAddressBits == 0; }

    // ---- under the heap's lock ----

    /// Enters the block of a page that has none. Throws std::bad_alloc, and nothing has happened.
    void put(std::uintptr_t address, Block* block);
    /// Takes the block of a page out.
    void clear(std::uintptr_t address) noexcept;

  private:
    using Middle = std::array<std::atomic<Leaf*>, kEntries>;
    using Top = std::array<std::atomic<Middle*>, kEntries>;

    /// The address of a block, whose low bits are the page's number in its region; or nothing.
    using Slot = std::atomic<std::uintptr_t>;
    static constexpr std::size_t kPagesOfRegion = std::size_t{1} << kRegionPageBits;
    static constexpr std::uintptr_t kPageMask = kPagesOfRegion - 1;
    static_assert(alignof(Block) > kPageMask);
    static constexpr std::uintptr_t kNothing = 0;

    static constexpr unsigned kNodeSizes = kRegionPageBits + 1;
    static constexpr std::uintptr_t kHalvingsMask = 7;
    static_assert(kNodeSizes <= kHalvingsMask + 1 && alignof(Slot) > kHalvingsMask);
    static constexpr std::size_t kSlotsAtOnce = 512;

    static std::uintptr_t page_of(std::uintptr_t address) noexcept { return address >> kPageBits & kPageMask; }
    static Slot* slots_of(std::uintptr_t node) noexcept { return reinterpret_cast<Slot*>(node & ~kHalvingsMask); }
    static unsigned halvings_of(std::uintptr_t node) noexcept { return static_cast<unsigned>(node & kHalvingsMask); }

    static std::size_t count_of(std::uintptr_t node) noexcept { return kPagesOfRegion >> halvings_of(node); }

    /// The first slot in which a page may be: the page's number times what is nearest to the golden section of 64, of
    /// which the upper bits count. Neighbours are spread evenly, as are every second, fourth, ... page; in a node of 64
    /// slots each has its own.
    static std::size_t first_of(std::uintptr_t node, std::uintptr_t page) noexcept {
        return (page * 39 & kPageMask) >> halvings_of(node);
    }

    static bool is_of(std::uintptr_t entry, std::uintptr_t page) noexcept {
        return (entry & kPageMask) == page && entry > kPageMask;
    }
    static Block* found_by_probing(const Region& region, std::uintptr_t page) noexcept;
    static bool entered(std::uintptr_t node, std::uintptr_t page, std::uintptr_t entry) noexcept;
    static bool moved(std::uintptr_t from, std::uintptr_t to) noexcept;

    Region& region_for(std::uintptr_t address);
    std::uintptr_t new_node(unsigned halvings);
    void keep(std::uintptr_t node) noexcept;

    Top* const top_;
    std::vector<std::unique_ptr<Slot[]>> node_memory_;
    std::size_t unused_ = 0;                                ///< slots at the end of the latest of these
    std::array<std::uintptr_t, kNodeSizes> spare_nodes_{};  ///< by halvings; the first slot of each has the next
};

}  // namespace portamem::pool
