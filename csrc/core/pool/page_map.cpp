// SPDX-License-Identifier: MIT
// core/pool/page_map.cpp: enters blocks, and makes the nodes that they need.
//
// A late reader may read a node that its region has given up, and see what is written there for another region.
// Therefore all stores release: a reader that sees such a store also sees that its region no longer has the node.
#include "page_map.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace portamem::pool {
namespace {

// Makes a table that is all zero.
template <class Table>
Table* make() {
    void* const memory = std::calloc(1, sizeof(Table));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<Table*>(memory);
}

template <class Table>
Table* made(std::atomic<Table*>& entry) {
    Table* table = entry.load(std::memory_order_relaxed);
    if (table != nullptr) return table;
    table = make<Table>();
    entry.store(table, std::memory_order_release);
    return table;
}

constexpr unsigned kMostProbes = 8;  // slots to look at for a page: those of a cache line

// Calls each(slot, its content) for the slots in which a page may be, until that returns true.
template <class Slot, class Each>
bool probe(Slot* slots, std::size_t count, std::size_t first, Each&& each) noexcept {
    std::size_t at = first;
    for (std::size_t probes = std::min<std::size_t>(count, kMostProbes); probes != 0; --probes) {
        if (each(slots[at], slots[at].load(std::memory_order_acquire))) return true;
        at = (at + 1) & (count - 1);
    }
    return false;
}

}  // namespace

PageMap::PageMap() : top_(make<Top>()) {}

PageMap::~PageMap() {
    for (auto& middle : *top_) {
        Middle* const table = middle.load(std::memory_order_relaxed);
        if (table == nullptr) continue;
        for (auto& leaf : *table) std::free(leaf.load(std::memory_order_relaxed));
        std::free(table);
    }
    std::free(top_);
}

PageMap::Region& PageMap::region_for(std::uintptr_t address) {
    Middle* const middle = made((*top_)[address >> (kLeafBits + kBits)]);
    Leaf* const leaf = made((*middle)[address >> kLeafBits & (kEntries - 1)]);
    return (*leaf)[address >> kRegionBits & (kEntries - 1)];
}

Block* PageMap::found_by_probing(const Region& region, std::uintptr_t page) noexcept {
    std::uintptr_t node = region.load(std::memory_order_acquire);
    for (;;) {
        Block* block = nullptr;
        (void)probe(slots_of(node), count_of(node), first_of(node, page), [&](const Slot&, std::uintptr_t entry) {
            if (!is_of(entry, page)) return false;
            block = reinterpret_cast<Block*>(entry - page);
            return true;
        });
        const std::uintptr_t now = region.load(std::memory_order_acquire);
        if (now == node) return block;
        node = now;
    }
}

// Returns an empty node.
std::uintptr_t PageMap::new_node(unsigned halvings) {
    const std::size_t count = kPagesOfRegion >> halvings;
    if (const std::uintptr_t node = spare_nodes_[halvings]; node != 0) {
        spare_nodes_[halvings] = slots_of(node)->load(std::memory_order_relaxed);
        for (std::size_t i = 0; i < count; ++i) slots_of(node)[i].store(kNothing, std::memory_order_release);
        return node;
    }
    if (unused_ < count) {
        if (node_memory_.size() == node_memory_.capacity()) node_memory_.reserve(2 * node_memory_.size() + 1);
        std::unique_ptr<Slot[]> memory(new Slot[kSlotsAtOnce]());
        while (unused_ != 0) {  // keeps the rest of the latest memory, less than `count` slots, as smaller nodes
            unsigned rest = halvings;
            while (kPagesOfRegion >> rest > unused_) ++rest;
            unused_ -= kPagesOfRegion >> rest;
            keep(reinterpret_cast<std::uintptr_t>(&node_memory_.back()[unused_]) | rest);
        }
        node_memory_.push_back(std::move(memory));
        unused_ = kSlotsAtOnce;
    }
    unused_ -= count;
    return reinterpret_cast<std::uintptr_t>(&node_memory_.back()[unused_]) | halvings;
}

void PageMap::keep(std::uintptr_t node) noexcept {
    std::uintptr_t& first = spare_nodes_[halvings_of(node)];
    slots_of(node)->store(first, std::memory_order_release);
    first = node;
}

// Enters a page in a node. False where the page's slots are taken.
bool PageMap::entered(std::uintptr_t node, std::uintptr_t page, std::uintptr_t entry) noexcept {
    return probe(slots_of(node), count_of(node), first_of(node, page), [entry](Slot& slot, std::uintptr_t content) {
        if (content != kNothing) return false;
        slot.store(entry, std::memory_order_release);
        return true;
    });
}

bool PageMap::moved(std::uintptr_t from, std::uintptr_t to) noexcept {
    for (std::size_t i = 0; i < count_of(from); ++i) {
        const std::uintptr_t entry = slots_of(from)[i].load(std::memory_order_relaxed);
        if (entry != kNothing && !entered(to, entry & kPageMask, entry)) return false;
    }
    return true;
}

void PageMap::put(std::uintptr_t address, Block* block) {
    Region& region = region_for(address);
    const std::uintptr_t page = page_of(address);
    const std::uintptr_t entry = reinterpret_cast<std::uintptr_t>(block) | page;
    const std::uintptr_t node = region.load(std::memory_order_relaxed);
    if (node != 0 && entered(node, page, entry)) return;
    for (unsigned halvings = node == 0 ? kNodeSizes : halvings_of(node); halvings-- != 0;) {
        const std::uintptr_t larger = new_node(halvings);
        if ((node == 0 || moved(node, larger)) && entered(larger, page, entry)) {
            region.store(larger, std::memory_order_release);
            if (node != 0) keep(node);
            return;
        }
        keep(larger);  // the largest node has room for all
    }
}

void PageMap::clear(std::uintptr_t address) noexcept {
    const std::uintptr_t page = page_of(address);
    const std::uintptr_t node = (*leaf_of(address))[address >> kRegionBits & (kEntries - 1)].load();
    (void)probe(slots_of(node), count_of(node), first_of(node, page), [page](Slot& slot, std::uintptr_t entry) {
        if (!is_of(entry, page)) return false;
        slot.store(kNothing, std::memory_order_release);
        return true;
    });
}

}  // namespace portamem::pool
