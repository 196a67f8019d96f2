// SPDX-License-Identifier: MIT
// core/pool/heap.cpp: cuts blocks from free memory, and merges them again.
#include "heap.hpp"

#include <algorithm>
#include <utility>

namespace portamem::pool {
namespace {

constexpr std::size_t kLeastRest = kPage;  // a rest smaller than this stays with its block,
constexpr std::size_t kRestShare = 32;     // if it is also smaller than this share of the block

constexpr unsigned kMostJoined = 1024;  // free blocks that one call looks at for neighbours

// The most bytes of an arena's kept blocks: of up to kLargestKept, and of shared classes, which have room for the
// largest block.
constexpr std::size_t kMostUnmerged = std::size_t{32} << 20;
constexpr std::size_t kMostShared = kLargestCached + (std::size_t{16} << 20);
constexpr unsigned kMostMerged = 16;  // blocks that one call merges, or twice as many as come

}  // namespace

Heap::~Heap() = default;

Arena* Heap::arena_of(std::uint64_t stream) noexcept {
    const auto found = arenas_.find(stream);
    return found == arenas_.end() ? nullptr : found->second.get();
}

std::shared_ptr<Arena> Heap::enlisted(const std::shared_ptr<Arena>& made) {
    const auto [context, is_new] = arenas_.emplace(made->stream, made);
    if (!is_new) return context->second;
    const auto is_had = [this](std::uint32_t number) {
        return std::any_of(arenas_.begin(), arenas_.end(),
                           [number](const auto& entry) { return entry.second->number == number; });
    };
    do {
        if (++latest_number_ == kNobodys) {
            latest_number_ = common_.number + 1;
            numbers_come_again_ = true;
        }
    } while (numbers_come_again_ && is_had(latest_number_));
    made->number = latest_number_;
    return made;
}

// ---- records ----

Block* Heap::new_block() {
    if (spare_ != nullptr) {
        Block* const block = std::exchange(spare_, spare_->list.after);
        if (spare_ != nullptr) spare_->prefetch();  // for the next call
        return block;
    }
    if (unused_ == 0) {
        constexpr std::size_t kAtOnce = 64;
        records_.push_back(std::make_unique<Block[]>(kAtOnce));
        unused_ = kAtOnce;
    }
    return &records_.back()[--unused_];
}

// Keeps a record for reuse. A slab's states stay readable through it: they are all kFree, until another slab has them.
void Heap::recycle(Block* block) noexcept {
    block->list.after = spare_;
    spare_ = block;
}

// ---- large blocks ----

// Cuts a block after `length` bytes. `rest` becomes the second part.
void Heap::cut(Block& block, std::size_t length, Block& rest) noexcept {
    rest.base = block.base + length;
    rest.set_length(block.length() - length);
    rest.for_slabs = block.for_slabs;
    rest.before = &block;
    rest.after = block.after;
    if (block.after != nullptr) block.after->before = &rest;
    block.after = &rest;
    block.set_length(length);
}

// Takes slabs from the end of free memory and blocks from its beginning: a slab stays as long as any of its small
// blocks, and would keep large blocks on both sides apart.
Block* Heap::take_block(Arena& arena, std::size_t length, std::size_t alignment, bool at_end, std::size_t most) {
    Block* const found = arena.find(length, alignment, most, at_end);
    if (found == nullptr) return nullptr;
    std::size_t front = Arena::front(*found, alignment);
    if (at_end) {
        const std::uintptr_t end = found->base + found->length();
        const std::size_t high = ((end - length) & ~(alignment - 1)) - found->base;
        if (high >= kLeastRest) front = high;
    }
    const std::size_t rest = found->length() - front - length;
    const bool cuts_rest = rest >= kLeastRest || rest * kRestShare > length;
    Block* const taken = front != 0 ? new_block() : found;
    Block* last = nullptr;
    if (cuts_rest) {
        try {
            last = new_block();
        } catch (...) {
            if (taken != found) recycle(taken);
            throw;
        }
    }
    arena.unlink(*found);
    if (taken != found) {
        cut(*found, front, *taken);
        arena.link(*found);
    }
    if (last != nullptr) {
        cut(*taken, length, *last);
        arena.link(*last);
    }
    taken->use = Block::Use::Taken;
    return taken;
}

Block* Heap::give_block(Block* block, Arena& arena) noexcept {
    if (block->use == Block::Use::Taken && block->index == kExact) block->set_length(block->length() - block->overhang);
    if (Block* const after = block->after;
        after != nullptr && after->use == Block::Use::Free && after->arena == arena.number) {
        arena.unlink(*after);
        block->set_length(block->length() + after->length());
        block->after = after->after;
        if (block->after != nullptr) block->after->before = block;
        recycle(after);
    }
    if (Block* const before = block->before;
        before != nullptr && before->use == Block::Use::Free && before->arena == arena.number) {
        arena.unlink(*before);
        before->set_length(before->length() + block->length());
        before->after = block->after;
        if (before->after != nullptr) before->after->before = before;
        recycle(block);
        block = before;
    }
    arena.link(*block);
    return block;
}

bool Heap::join_common(Arena& arena, std::size_t length) noexcept {
    const auto is_ours = [&](const Block* block) {
        return block != nullptr && block->use == Block::Use::Free &&
               (block->arena == arena.number || block->arena == common_.number);
    };
    Block* best = nullptr;  // the first of a run of such neighbours
    std::size_t least = SIZE_MAX;
    unsigned looked_at = 0;
    for (unsigned list = Arena::kAllLists; list-- != 0 && looked_at < kMostJoined;) {
        for (Block* block = common_.lists[list]; block != nullptr && looked_at < kMostJoined;
             block = block->list.after) {
            Block* first = block;
            for (++looked_at; is_ours(first->before); ++looked_at) first = first->before;
            std::size_t joined = 0;
            for (const Block* one = first; is_ours(one); one = one->after, ++looked_at) joined += one->length();
            if (joined < length || joined >= least) continue;
            best = first;
            least = joined;
        }
    }
    if (best == nullptr) return false;
    if (best->arena == arena.number) best = best->after;
    for (Block* block = best; is_ours(block); block = block->after) {
        if (block->arena == arena.number) continue;
        common_.unlink(*block);
        block = give_block(block, arena);
    }
    ++arena.insertions;
    return true;
}

bool Heap::take_large_from(Arena& arena, std::size_t size, unsigned index, std::size_t alignment, Item& item,
                           std::size_t most) {
    Block* const block = take_block(arena, size, alignment, false, most);
    if (block == nullptr) return false;
    hand_out(*block, index);
    try {
        pages_.put(block->base, block);
    } catch (...) {
        give_block(block, arena);
        throw;
    }
    item = {block->base, &block->own_state};
    return true;
}

bool Heap::extend(Block& block, std::size_t size, Arena* own) noexcept {
    if (block.length() >= size) return true;
    Block* const after = block.after;
    if (after != nullptr && after->use == Block::Use::Taken && (own == nullptr || !merge_kept(*own, *after)))
        (void)merge_kept(common_, *after);
    if (after == nullptr || after->use != Block::Use::Free || after->for_slabs != block.for_slabs) return false;
    Arena* arena = nullptr;
    if (after->arena == common_.number) {
        arena = &common_;
    } else if (own != nullptr && after->arena == own->number) {
        arena = own;
    }
    const std::size_t more = size - block.length();
    if (arena == nullptr || after->length() < more) return false;
    const std::size_t rest = after->length() - more;
    arena->unlink(*after);
    if (rest >= kLeastRest || rest * kRestShare > size) {
        after->base += more;
        after->set_length(rest);
        arena->link(*after);
        block.set_length(size);
    } else {
        block.set_length(block.length() + after->length());
        block.after = after->after;
        if (block.after != nullptr) block.after->before = &block;
        recycle(after);
    }
    return true;
}

// Prepares the record of a block outside slabs.
void Heap::hand_out(Block& block, unsigned index) noexcept {
    block.use = Block::Use::Taken;
    block.index = static_cast<std::uint8_t>(index);
    block.spread = 0;
    block.states = &block.own_state;
    block.own_state.store(kFree, std::memory_order_relaxed);
    block.overhang = 0;
}

bool Heap::take_exact_from(Arena& arena, std::size_t size, std::size_t alignment, Item& item) {
    Block* const block = take_block(arena, size, alignment);
    if (block == nullptr) return false;
    hand_out(*block, kExact);
    try {
        exact_.emplace(block->base, block);
    } catch (...) {
        give_block(block, arena);
        throw;
    }
    item = {block->base, &block->own_state};
    return true;
}

Block* Heap::exact_at(std::uintptr_t address) const noexcept {
    const auto found = exact_.find(address);
    return found == exact_.end() ? nullptr : found->second;
}

// A page in which a block begins contains no other block, except kExact blocks before it.
Block* Heap::block_of(const Item& item) const noexcept {
    Block* const block = pages_.find(item.address);
    return block == nullptr || item.address < block->base ? Block::of(item) : block;
}

// Merges a block outside slabs with its free neighbours.
void Heap::merge(Arena& arena, const Item& item) noexcept {
    Block* const block = Block::of(item);
    pages_.clear(block->base);
    give_block(block, arena);
}

// ---- kept blocks ----

void Heap::keep(Arena& arena, unsigned index, const Item* items, unsigned count) noexcept {
    ++arena.insertions;
    std::vector<Item>& bin = arena.bins[index];
    try {
        if (count == 1) {  // a shared block, each time: push_back costs less than the general insert
            bin.push_back(*items);
        } else {
            bin.insert(bin.end(), items, items + count);
        }
    } catch (const std::bad_alloc&) {
        for (unsigned i = 0; i < count; ++i) merge(arena, items[i]);
        return;
    }
    Arena::Unmerged& unmerged = arena.unmerged_of(index);
    unmerged.nbytes += count * size_of(index);
    arena.kept[index / 64] |= std::uint64_t{1} << index % 64;
    // Merges faster than blocks come, but only a few each time, because this call pays for them.
    const std::size_t most = is_shared(index) ? kMostShared : kMostUnmerged;
    const unsigned first = is_shared(index) ? class_of(kLargestOwn) + 1 : kSmallClasses;
    const unsigned last = is_shared(index) ? kClasses - 1 : class_of(kLargestKept);
    for (unsigned left = std::max(2 * count, kMostMerged); left != 0 && unmerged.nbytes > most; --left) {
        unmerged.next = arena.next_kept(std::max(unmerged.next, first));
        if (unmerged.next > last) unmerged.next = arena.next_kept(first);
        merge_one(arena, unmerged.next);
    }
}

unsigned Heap::take_kept(Arena& arena, unsigned index, Item* items, unsigned most) noexcept {
    std::vector<Item>& bin = arena.bins[index];
    const auto count = static_cast<unsigned>(std::min<std::size_t>(most, bin.size()));
    if (count == 0) return 0;
    if (count == 1) {
        *items = bin.back();
        bin.pop_back();
    } else {
        std::copy(bin.end() - count, bin.end(), items);
        bin.resize(bin.size() - count);
    }
    arena.unmerged_of(index).nbytes -= count * size_of(index);
    if (bin.empty()) arena.kept[index / 64] &= ~(std::uint64_t{1} << index % 64);
    return count;
}

void Heap::merge_one(Arena& arena, unsigned index) noexcept {
    Item item{};
    (void)take_kept(arena, index, &item, 1);
    merge(arena, item);
}

bool Heap::merge_kept(Arena& arena, const Block& block) noexcept {
    if (!is_kept(block.index)) return false;
    std::vector<Item>& bin = arena.bins[block.index];
    const auto found =
        std::find_if(bin.begin(), bin.end(), [&](const Item& each) { return each.address == block.base; });
    if (found == bin.end()) return false;
    std::swap(*found, bin.back());
    merge_one(arena, block.index);
    return true;
}

bool Heap::merge_larger(Arena& arena, std::size_t length, std::size_t most) noexcept {
    if (length > most) return false;
    const unsigned index = arena.next_kept(class_of(length));
    if (index > class_of(most)) return false;
    merge_one(arena, index);
    return true;
}

}  // namespace portamem::pool
