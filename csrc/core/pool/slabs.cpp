// SPDX-License-Identifier: MIT
// core/pool/slabs.cpp: cuts blocks of the small classes from slabs, and dissolves slabs that are all free.
#include <algorithm>
#include <utility>

#include "heap.hpp"

namespace portamem::pool {
namespace {

// Returns one state more than there are blocks: an address in the rest of a slab finds that one, which is never out.
std::size_t states_of(unsigned index) { return (std::size_t{kShapes[index].blocks} + 1) << kShapes[index].spread; }

}  // namespace

std::atomic<State>* Heap::new_states(unsigned index, std::size_t count) {
    States& states = states_[index];
    if (!states.free.empty()) {
        auto* const found = states.free.back();
        states.free.pop_back();
        return found;
    }
    // The room is reserved now, so that giving back cannot fail.
    if (states.free.capacity() <= states.made) states.free.reserve(2 * states.made + 1);
    std::unique_ptr<std::atomic<State>[]> memory(new std::atomic<State>[count]);
    for (std::size_t i = 0; i < count; ++i) memory[i].store(kFree, std::memory_order_relaxed);
    state_memory_.push_back(std::move(memory));
    ++states.made;
    return state_memory_.back().get();
}

Item Heap::item_of(const Block& slab, std::uint32_t number) noexcept {
    return {slab.base + number * slab.size(), slab.states + (std::size_t{number} << slab.spread)};
}

Block* Heap::new_slab(Arena& arena, unsigned index, Arena& owner, std::size_t most_cut) {
    const SlabShape& shape = kShapes[index];
    auto* const states = new_states(index, states_of(index));
    Block* slab = nullptr;
    try {
        slab = take_block(arena, shape.length, kPage, true, most_cut);
    } catch (...) {
        states_[index].free.push_back(states);
        throw;
    }
    if (slab == nullptr) {
        states_[index].free.push_back(states);
        return nullptr;
    }
    slab->index = static_cast<std::uint8_t>(index);
    slab->spread = shape.spread;
    slab->states = states;
    slab->use = Block::Use::Slab;
    slab->slab = {0, 0};
    slab->arena = owner.number;
    try {
        enter_pages(*slab);
    } catch (...) {
        states_[index].free.push_back(states);
        give_block(slab, arena);
        throw;
    }
    return slab;
}

// Enters the pages of the blocks. The record may be longer, by a rest too small for a record of its own; the next block
// may begin in that page.
void Heap::enter_pages(Block& slab) {
    const std::uintptr_t end = slab.base + kShapes[slab.index].length;
    std::uintptr_t page = slab.base;
    try {
        for (; page < end; page += kPage) pages_.put(page, &slab);
    } catch (...) {
        while (page != slab.base) pages_.clear(page -= kPage);
        throw;
    }
}

void Heap::clear_pages(const Block& slab) noexcept {
    const std::uintptr_t end = slab.base + kShapes[slab.index].length;
    for (std::uintptr_t page = slab.base; page < end; page += kPage) pages_.clear(page);
}

void Heap::put_in_bin(Arena& arena, Block& slab, const Item& item) noexcept {
    arena.bins[slab.index].push_back(item);  // the caller reserved the room
    if (slab.slab.in_bins == 0) slab.arena = arena.number;
    if (slab.arena != arena.number) return;
    if (++slab.slab.in_bins == blocks_of(slab)) arena.whole += slab.length();
}

void Heap::taken_from_bin(Arena& arena, const Item& item) noexcept {
    Block& slab = *pages_.find(item.address);
    if (slab.arena != arena.number || slab.slab.in_bins == 0) return;
    if (slab.slab.in_bins-- == blocks_of(slab)) arena.whole -= slab.length();
}

unsigned Heap::take_from(Arena& arena, unsigned index, Item* items, unsigned most) {
    std::vector<Item>& bin = arena.bins[index];
    unsigned count = 0;
    while (count < most && !bin.empty()) {
        items[count] = bin.back();
        bin.pop_back();
        taken_from_bin(arena, items[count++]);
    }
    Block*& slab = arena.carving[index];
    while (count < most && slab != nullptr) {
        items[count++] = item_of(*slab, slab->slab.carved++);
        if (slab->slab.carved == blocks_of(*slab)) slab = nullptr;
    }
    return count;
}

unsigned Heap::take(Arena& own, unsigned index, Item* items, unsigned most, std::size_t most_cut) {
    unsigned count = take_from(own, index, items, most);
    if (count == 0 && &own != &common_) count = take_from(common_, index, items, most);
    if (count != 0) return count;
    Block* slab = new_slab(own, index, own, most_cut);
    const std::size_t length = kShapes[index].length + kPage;
    if (slab == nullptr && merge_larger(own, length, kLargestKept)) slab = new_slab(own, index, own, most_cut);
    if (slab == nullptr && &own != &common_) slab = new_slab(common_, index, own, most_cut);
    if (slab == nullptr && merge_larger(own, length, std::min(most_cut, kLargestCached))) {
        slab = new_slab(own, index, own, most_cut);
    }
    if (slab == nullptr) return 0;
    own.carving[index] = slab;
    return take_from(own, index, items, most);
}

void Heap::cut_up(Arena& arena) {
    for (unsigned index = 0; index < kSmallClasses; ++index) {
        Block*& slab = arena.carving[index];
        if (slab == nullptr || slab->slab.in_bins != slab->slab.carved) continue;
        arena.bins[index].reserve(arena.bins[index].size() + uncut_of(*slab));
        while (uncut_of(*slab) != 0) put_in_bin(arena, *slab, item_of(*slab, slab->slab.carved++));
        slab = nullptr;
    }
}

bool Heap::dissolve(Arena& arena, std::size_t most) {
    const unsigned last = class_of(most);
    const bool keeps = arena.next_kept(0) <= last;
    for (unsigned index = arena.next_kept(0); index <= last; index = arena.next_kept(index)) merge_one(arena, index);
    if (arena.whole == 0) return keeps;
    const auto is_whole = [&](const Item& item) {
        const Block& slab = *pages_.find(item.address);
        return slab.arena == arena.number && slab.slab.in_bins == blocks_of(slab);
    };
    std::vector<Block*> slabs;
    slabs.reserve(arena.whole / (2 * kPage));
    for (unsigned index = 0; index < kSmallClasses; ++index) {
        auto& bin = arena.bins[index];
        const auto rest = std::partition(bin.begin(), bin.end(), [&](const Item& item) { return !is_whole(item); });
        for (auto item = rest; item != bin.end(); ++item) {
            Block* const slab = pages_.find(item->address);
            if (item->address == slab->base) slabs.push_back(slab);
        }
        bin.erase(rest, bin.end());
    }
    for (Block* const slab : slabs) {
        clear_pages(*slab);
        arena.whole -= slab->length();
        states_[slab->index].free.push_back(slab->states);
        slab->slab.in_bins = 0;
        give_block(slab, arena);
    }
    return true;
}

}  // namespace portamem::pool
