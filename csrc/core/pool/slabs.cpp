// SPDX-License-Identifier: MIT
// core/pool/slabs.cpp: blocks of the small classes, cut from slabs and, where a slab is all free, put back.
#include <algorithm>
#include <utility>

#include "heap.hpp"

namespace portamem::pool {
namespace {

struct SlabShape {
    std::size_t length;
    std::uint32_t blocks;
    std::uint8_t stride;
};

// Whole pages, for 8 blocks at least, of which not more than 1/32 is left over. Few blocks have a cache line of state
// each: they may be with different threads.
constexpr SlabShape shape_of(unsigned index) {
    const std::size_t size = size_of(index);
    std::size_t length = std::max<std::size_t>(2 * kPage, (8 * size + kPage - 1) / kPage * kPage);
    while (length % size * 32 > length) length += kPage;
    const auto blocks = static_cast<std::uint32_t>(length / size);
    return {length, blocks, static_cast<std::uint8_t>(blocks <= 32 ? 6 : 0)};
}

constexpr std::array<SlabShape, kSmallClasses> all_shapes() {
    std::array<SlabShape, kSmallClasses> shapes{};
    for (unsigned index = 0; index < kSmallClasses; ++index) shapes[index] = shape_of(index);
    return shapes;
}

constexpr std::array<SlabShape, kSmallClasses> kShapes = all_shapes();

// One more than there are blocks, never out: what is left over at a slab's end may be taken for one.
std::size_t states_of(unsigned index) { return (std::size_t{kShapes[index].blocks} + 1) << kShapes[index].stride; }

}  // namespace

std::atomic<std::uint8_t>* Heap::new_states(unsigned index, std::size_t nbytes) {
    States& states = states_[index];
    if (!states.free.empty()) {
        auto* const found = states.free.back();
        states.free.pop_back();
        return found;
    }
    if (states.free.capacity() <= states.made) states.free.reserve(2 * states.made + 1);  // giving back cannot fail
    std::unique_ptr<std::atomic<std::uint8_t>[]> memory(new std::atomic<std::uint8_t>[nbytes]);
    for (std::size_t i = 0; i < nbytes; ++i) memory[i].store(kIn, std::memory_order_relaxed);
    state_memory_.push_back(std::move(memory));
    ++states.made;
    return state_memory_.back().get();
}

Item Heap::item_of(const Block& slab, std::uint32_t number) noexcept {
    return {slab.base + number * slab.size, slab.states + (std::size_t{number} << slab.stride)};
}

Block* Heap::new_slab(Arena& arena, unsigned index, Arena& owner) {
    const SlabShape& shape = kShapes[index];
    auto* const states = new_states(index, states_of(index));
    Block* slab = nullptr;
    try {
        slab = take_block(arena, shape.length, kPage, true);
    } catch (...) {
        states_[index].free.push_back(states);
        throw;
    }
    if (slab == nullptr) {
        states_[index].free.push_back(states);
        return nullptr;
    }
    slab->size = size_of(index);
    slab->index = static_cast<std::uint8_t>(index);
    slab->reciprocal = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + slab->size - 1) / slab->size);
    slab->stride = shape.stride;
    slab->states = states;
    slab->use = Block::Use::Slab;
    slab->blocks = shape.blocks;
    slab->carved = 0;
    slab->home = 0;
    slab->arena = &owner;
    set_pages(*slab, slab);
    return slab;
}

// Of what is cut into blocks. The record may be longer, by what was not worth a record of its own: the next block may
// begin in that page.
void Heap::set_pages(const Block& slab, Block* to) noexcept {
    const std::uintptr_t end = slab.base + kShapes[slab.index].length;
    for (std::uintptr_t page = slab.base; page < end; page += kPage) pages_.set(page, to);
}

void Heap::put_in_bin(Arena& arena, Block& slab, const Item& item) noexcept {
    arena.bins[slab.index].push_back(item);  // reserved by the caller
    if (slab.home == 0) slab.arena = &arena;
    if (slab.arena != &arena) return;
    if (++slab.home == slab.blocks) arena.whole += slab.length;
}

void Heap::taken_from_bin(Arena& arena, const Item& item) noexcept {
    Block& slab = *pages_.find(item.address);
    if (slab.arena != &arena || slab.home == 0) return;
    if (slab.home-- == slab.blocks) arena.whole -= slab.length;
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
        items[count++] = item_of(*slab, slab->carved++);
        if (slab->carved == slab->blocks) slab = nullptr;
    }
    return count;
}

unsigned Heap::take(Arena& own, unsigned index, Item* items, unsigned most) {
    unsigned count = take_from(own, index, items, most);
    if (count == 0 && &own != &common_) count = take_from(common_, index, items, most);
    if (count != 0) return count;
    Block* slab = new_slab(own, index, own);
    if (slab == nullptr && merge_larger(own, kShapes[index].length + kPage)) slab = new_slab(own, index, own);
    if (slab == nullptr && &own != &common_) slab = new_slab(common_, index, own);
    if (slab == nullptr) return 0;
    own.carving[index] = slab;
    return take_from(own, index, items, most);
}

void Heap::cut_up(Arena& arena) {
    for (unsigned index = 0; index < kSmallClasses; ++index) {
        Block*& slab = arena.carving[index];
        if (slab == nullptr || slab->home != slab->carved) continue;
        arena.bins[index].reserve(arena.bins[index].size() + slab->blocks - slab->carved);
        for (; slab->carved < slab->blocks; ++slab->carved) put_in_bin(arena, *slab, item_of(*slab, slab->carved));
        slab = nullptr;
    }
}

bool Heap::dissolve(Arena& arena) {
    const bool keeps = arena.unmerged != 0;
    for (unsigned index = arena.next_kept(0); index != kClasses; index = arena.next_kept(index))
        merge_one(arena, index);
    if (arena.whole == 0) return keeps;
    const auto is_whole = [&](const Item& item) {
        const Block& slab = *pages_.find(item.address);
        return slab.arena == &arena && slab.home == slab.blocks;
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
        set_pages(*slab, nullptr);
        arena.whole -= slab->length;
        states_[slab->index].free.push_back(slab->states);
        slab->home = 0;
        give_block(slab, arena);
    }
    return true;
}

}  // namespace portamem::pool
