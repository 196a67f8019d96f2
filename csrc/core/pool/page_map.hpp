// SPDX-License-Identifier: MIT
// core/pool/page_map.hpp: from an address to the block that it belongs to, without a lock.
//
// Pages are 32 KiB: a block that stands by itself is larger, so that at most one begins in a page, and slabs take whole
// pages. Three levels, of which the last covers 512 MiB; tables are never freed while the pool lives.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "block.hpp"

namespace portamem::pool {

inline constexpr unsigned kPageBits = 15;
inline constexpr std::size_t kPage = std::size_t{1} << kPageBits;

class PageMap {
  public:
    static constexpr unsigned kBits = 14;
    static constexpr unsigned kLeafBits = kPageBits + kBits;  ///< of the addresses that a leaf covers
    static constexpr std::size_t kEntries = std::size_t{1} << kBits;
    static constexpr unsigned kAddressBits = kPageBits + 3 * kBits;

    using Leaf = std::array<std::atomic<Block*>, kEntries>;

    PageMap() : top_(make<Top>()) {}
    ~PageMap() {
        for (auto& middle : *top_) {
            Middle* const table = middle.load(std::memory_order_relaxed);
            if (table == nullptr) continue;
            for (auto& leaf : *table) std::free(leaf.load(std::memory_order_relaxed));
            std::free(table);
        }
        std::free(top_);
    }
    PageMap(const PageMap&) = delete;
    PageMap& operator=(const PageMap&) = delete;

    /// The leaf of an address; null where no chunk has been.
    Leaf* leaf_of(std::uintptr_t address) const noexcept {
        if (address >> kAddressBits != 0) return nullptr;
        Middle* const middle = (*top_)[address >> (kPageBits + 2 * kBits)].load(std::memory_order_acquire);
        if (middle == nullptr) return nullptr;
        return (*middle)[address >> kLeafBits & (kEntries - 1)].load(std::memory_order_acquire);
    }
    static std::atomic<Block*>& entry(Leaf& leaf, std::uintptr_t address) noexcept {
        return leaf[address >> kPageBits & (kEntries - 1)];
    }

    /// The block of an address that is handed out, or might be; null where there is none.
    Block* find(std::uintptr_t address) const noexcept {
        Leaf* const leaf = leaf_of(address);
        return leaf == nullptr ? nullptr : entry(*leaf, address).load(std::memory_order_acquire);
    }

    // ---- under the heap's lock ----

    /// Makes the tables of a range, so that set cannot fail. False for addresses that no table can hold.
    bool prepare(std::uintptr_t begin, std::size_t length) {
        if ((begin + length - 1) >> kAddressBits != 0) return false;
        for (std::uintptr_t leaf = begin >> kLeafBits; leaf <= (begin + length - 1) >> kLeafBits; ++leaf) {
            Middle* const middle = made((*top_)[leaf >> kBits]);
            (void)made((*middle)[leaf & (kEntries - 1)]);
        }
        return true;
    }
    void set(std::uintptr_t address, Block* block) noexcept {
        entry(*leaf_of(address), address).store(block, std::memory_order_release);
    }

  private:
    using Middle = std::array<std::atomic<Leaf*>, kEntries>;
    using Top = std::array<std::atomic<Middle*>, kEntries>;

    // All zero: pages that are never written cost nothing.
    template <class Table>
    static Table* make() {
        void* const memory = std::calloc(1, sizeof(Table));
        if (memory == nullptr) throw std::bad_alloc();
        return static_cast<Table*>(memory);
    }
    template <class Table>
    static Table* made(std::atomic<Table*>& entry) {
        Table* table = entry.load(std::memory_order_relaxed);
        if (table != nullptr) return table;
        table = make<Table>();
        entry.store(table, std::memory_order_release);
        return table;
    }

    Top* const top_;
};

}  // namespace portamem::pool
