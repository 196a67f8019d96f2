// SPDX-License-Identifier: MIT
// core/pool/batches.cpp: moves many blocks at once into an arena and out of it.
#include <algorithm>
#include <new>
#include <utility>

#include "heap.hpp"

namespace portamem::pool {
namespace {

constexpr std::size_t kMostPieces = 32;  // pieces that one call takes from another stream

}  // namespace

void Heap::prefetch(unsigned index, const Item* items, std::size_t count) const noexcept {
    if (index < kSmallClasses) {
        for (std::size_t i = 0; i < count; ++i) pages_.find(items[i].address)->prefetch();
        return;
    }
    for (std::size_t i = 0; i < count; ++i) Block::of(items[i])->prefetch();
    for (std::size_t i = 0; i < count; ++i) {
        const Block& block = *Block::of(items[i]);
        if (block.before != nullptr) block.before->prefetch();
        if (block.after != nullptr) block.after->prefetch();
    }
}

void Heap::give(Arena& arena, const Item* items, std::size_t count) {
    static_assert(kSmallClasses <= 64);
    std::array<std::uint32_t, kSmallClasses> more;  // of the classes whose bit is set
    std::uint64_t classes = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Block& slab = *block_of(items[i]);
        if (slab.use != Block::Use::Slab) continue;
        const std::uint64_t bit = std::uint64_t{1} << slab.index;
        more[slab.index] = (classes & bit) == 0 ? 1 : more[slab.index] + 1;
        classes |= bit;
    }
    for (; classes != 0; classes &= classes - 1) {
        const auto index = static_cast<unsigned>(__builtin_ctzll(classes));
        auto& bin = arena.bins[index];
        if (bin.capacity() - bin.size() >= more[index]) continue;
        bin.reserve(std::max(2 * bin.capacity(), bin.size() + more[index]));
    }
    for (std::size_t i = 0; i < count; ++i) {
        Block* const block = block_of(items[i]);
        if (block->use == Block::Use::Slab) {
            put_in_bin(arena, *block, items[i]);
        } else {
            block->index == kExact ? void(exact_.erase(block->base)) : pages_.clear(block->base);
            give_block(block, arena);
        }
    }
    ++arena.insertions;
}

void Heap::give(Arena& arena, unsigned index, const Item* items, std::size_t count) {
    if (index < kSmallClasses) return give(arena, items, count);
    for (std::size_t i = 0; i < count; ++i) merge(arena, items[i]);
    ++arena.insertions;
}

void Heap::give(Arena& arena, Batch& batch) {
    give(arena, batch.items.data(), batch.items.size());
    batch.items.clear();
    for (Block* const block : batch.blocks) give_block(block, arena);
    batch.blocks.clear();
}

void Heap::put(Arena& arena, Batches&& one) noexcept {
    Batch& batch = one.front();
    if (batch.empty()) return one.clear();
    if (arena.is_orphan) return orphans_.splice(orphans_.end(), one);
    if (arena.has_ended && arena.latest != nullptr) {
        batch.mark = arena.latest;
        return waiting_.add(std::move(one));
    }
    const bool is_anybodys = arena.has_ended || &arena == &common_;
    try {
        give(is_anybodys ? common_ : arena, batch);
        one.clear();
    } catch (const std::bad_alloc&) {
        batch.mark = nullptr;
        if (is_anybodys) return waiting_.add(std::move(one));
        arena.add_unmarked(std::move(one));
    }
}

void Heap::give_happened(std::uint64_t stream, const MarkPtr& mark) {
    Batches* const queue = waiting_.queue_of(stream);
    while (queue != nullptr && !queue->empty() && queue->front().mark == mark) {
        give(common_, queue->front());
        queue->pop_front();
    }
    waiting_.forget_if_empty(stream);
}

void Heap::take_happened(std::uint64_t stream, const MarkPtr& mark, Batches& taken) noexcept {
    Batches* const queue = waiting_.queue_of(stream);
    while (queue != nullptr && !queue->empty() && queue->front().mark == mark) {
        taken.splice(taken.end(), *queue, queue->begin());
    }
    waiting_.forget_if_empty(stream);
}

std::vector<portamem_order_range> Heap::ranges_behind(std::uint64_t stream, const MarkPtr& mark) {
    std::vector<portamem_order_range> ranges;
    const Batches* const queue = waiting_.queue_of(stream);
    if (queue == nullptr) return ranges;
    for (const Batch& batch : *queue) {
        if (batch.mark != mark) break;
        for (const Item& item : batch.items) {
            const Block& block = *block_of(item);
            const std::size_t offset = item.address - block.base;
            const bool is_last = block.use != Block::Use::Slab || offset / block.size() + 1 == blocks_of(block);
            // The last block of a slab counts with the bytes left over behind it.
            const std::size_t nbytes = is_last ? block.length() - offset : block.size();
            ranges.push_back({reinterpret_cast<void*>(item.address), nbytes});
        }
        for (const Block* const block : batch.blocks) {
            ranges.push_back({reinterpret_cast<void*>(block->base), block->length()});
        }
    }
    return ranges;
}

void Heap::detach(Arena& arena, Batch& batch) {
    std::size_t items = batch.items.size();
    std::size_t blocks = batch.blocks.size();
    for (const auto& bin : arena.bins) items += bin.size();
    for (const Batch& unmarked : arena.unmarked) {
        items += unmarked.items.size();
        blocks += unmarked.blocks.size();
    }
    for (const Block* slab : arena.carving) items += slab == nullptr ? 0 : uncut_of(*slab);
    for (unsigned list = arena.next_list(0); list < Arena::kAllLists; list = arena.next_list(list + 1)) {
        for (const Block* block = arena.lists[list]; block != nullptr; block = block->list.after) ++blocks;
    }
    batch.items.reserve(items);
    batch.blocks.reserve(blocks);

    for (unsigned index = 0; index < kClasses; ++index) {
        auto& bin = arena.bins[index];
        for (const Item& item : bin) {
            if (index < kSmallClasses) taken_from_bin(arena, item);
            batch.items.push_back(item);
        }
        bin.clear();
    }
    arena.kept = {};
    arena.unmerged.nbytes = arena.shared.nbytes = 0;
    for (const Batch& unmarked : arena.unmarked) {
        batch.items.insert(batch.items.end(), unmarked.items.begin(), unmarked.items.end());
        batch.blocks.insert(batch.blocks.end(), unmarked.blocks.begin(), unmarked.blocks.end());
    }
    arena.unmarked.clear();
    for (Block*& slab : arena.carving) {
        while (slab != nullptr && uncut_of(*slab) != 0) batch.items.push_back(item_of(*slab, slab->slab.carved++));
        slab = nullptr;
    }
    for (unsigned list = arena.next_list(0); list < Arena::kAllLists; list = arena.next_list(list + 1)) {
        while (Block* const block = arena.lists[list]) {
            arena.unlink(*block);
            block->use = Block::Use::Detached;
            batch.blocks.push_back(block);
        }
    }
}

bool Heap::detach_some(Arena& arena, std::size_t length, std::size_t alignment, std::size_t piece, Batch& batch) {
    batch.blocks.reserve(kMostPieces);
    std::size_t next = std::max(length, piece);
    for (std::size_t total = 0; total < piece && batch.blocks.size() < kMostPieces;) {
        Block* block = nullptr;
        try {
            block = take_block(arena, next, alignment);
        } catch (const std::bad_alloc&) {
            if (batch.blocks.empty()) throw;
            break;
        }
        if (block != nullptr) {
            total += block->length();
            block->use = Block::Use::Detached;
            batch.blocks.push_back(block);
        } else if (next == length) {
            break;
        }
        next = length;  // no free block has all: takes several that waste nothing
    }
    return !batch.blocks.empty();
}

}  // namespace portamem::pool
