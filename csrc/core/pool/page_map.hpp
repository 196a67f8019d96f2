// SPDX-License-Identifier: MIT
// core/pool/page_map.hpp: finds the block of an address without a lock.
//
// A page has 32 KiB. A block outside slabs is larger, so that at most one begins in a page; slabs take whole pages. 64
// pages form a region. A region has a node: a hash table of those of its pages that have a block. The host memory of
// the map therefore follows the number of blocks, whatever their size: 8 to 16 bytes for each page that has one (more
// where many pages of a region collide in its node), and 8 bytes for each 2 MiB of addresses, in tables for 8 GiB each.
//
// The node of a region only ever grows, and a replaced node goes to another region. A region therefore never gets a
// node for the second time: a reader that sees the same node before and after its look-up has read the region's own
// entries.
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
    static constexpr unsigned kRegionBits = kPageBits + kRegionPageBits;  ///< address bits that a region covers
    static constexpr unsigned kBits = 12;
    static constexpr unsigned kLeafBits = kRegionBits + kBits;  ///< address bits that a leaf covers
    static constexpr std::size_t kEntries = std::size_t{1} << kBits;
    static constexpr unsigned kAddressBits = kRegionBits + 3 * kBits;

    /// The address of a region's node; the low bits tell how often 64 is halved to give its slots. 0: no node yet.
    using Region = std::atomic<std::uintptr_t>;
    using Leaf = std::array<Region, kEntries>;

    PageMap();
    ~PageMap();
    PageMap(const PageMap&) = delete;
    PageMap& operator=(const PageMap&) = delete;

    /// Returns the leaf of an address; null where no block has been.
    Leaf* leaf_of(std::uintptr_t address) const noexcept {
        if (!covers(address)) return nullptr;
        Middle* const middle = (*top_)[address >> (kLeafBits + kBits)].load(std::memory_order_acquire);
        if (middle == nullptr) return nullptr;
        return (*middle)[address >> kLeafBits & (kEntries - 1)].load(std::memory_order_acquire);
    }

    /// Returns the block that an address's page has, out or not; null where there is none.
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

    /// Enters the block of a page that has none. On std::bad_alloc nothing has changed.
    void put(std::uintptr_t address, Block* block);
    /// Removes the block of a page.
    void clear(std::uintptr_t address) noexcept;

  private:
    using Middle = std::array<std::atomic<Leaf*>, kEntries>;
    using Top = std::array<std::atomic<Middle*>, kEntries>;

    /// The address of a block, with the page's number in its region in the low bits; or kNothing.
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

    /// Returns the first slot in which a page may be: the upper bits of its number times 39, the odd number nearest to
    /// the golden section of 64. Neighbours spread evenly, and so do every second, fourth, ... page. 64 slots have one
    /// for each page.
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
    std::size_t unused_ = 0;                                ///< slots at the end of the latest node memory
    std::array<std::uintptr_t, kNodeSizes> spare_nodes_{};  ///< by halvings; the first slot of each links to the next
};

}  // namespace portamem::pool
