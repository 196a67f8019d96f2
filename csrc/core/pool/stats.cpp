// SPDX-License-Identifier: MIT
// core/pool/stats.cpp: the figures and the snapshot of a pool.
#include <algorithm>
#include <unordered_map>

#include "pool.hpp"

namespace portamem::pool {
namespace {

struct Free {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
    std::size_t largest = 0;

    void add(std::uint64_t count, std::size_t size) noexcept {
        blocks += count;
        bytes += count * size;
        if (count != 0) largest = std::max(largest, size);
    }

    // The caller holds the heap's lock.
    void add(const Heap& heap, const Batches& batches) noexcept {
        for (const Batch& batch : batches) {
            for (const Item& item : batch.items) add(1, heap.block_of(item)->size());
            for (const Block* block : batch.blocks) add(1, block->length());
        }
    }
    void add(const Heap& heap, Arena& arena) noexcept {
        blocks += arena.pieces;
        bytes += arena.free;
        largest = std::max(largest, arena.largest_piece());
        for (unsigned index = 0; index < kSmallClasses; ++index) {
            add(arena.bins[index].size(), size_of(index));
            const Block* const slab = arena.carving[index];
            if (slab != nullptr) add(blocks_of(*slab) - slab->slab.carved, size_of(index));
        }
        for (unsigned index = arena.next_kept(kSmallClasses); index < kClasses; index = arena.next_kept(index + 1))
            add(arena.bins[index].size(), size_of(index));
        add(heap, arena.unmarked);
    }
};

}  // namespace

void Pool::live(std::uint64_t& blocks, std::uint64_t& nbytes) {
    const CacheSet::Totals totals = caches_.totals();
    const std::int64_t empty = empty_.load(std::memory_order_relaxed);
    blocks = totals.allocated - totals.freed + static_cast<std::uint64_t>(std::max<std::int64_t>(empty, 0));
    // The sum may be below zero if it is read while threads hand blocks to each other.
    nbytes = static_cast<std::int64_t>(totals.live_bytes) < 0 ? 0 : totals.live_bytes;
}

std::uint64_t Pool::live_bytes() {
    std::uint64_t blocks = 0;
    std::uint64_t nbytes = 0;
    live(blocks, nbytes);
    return nbytes;
}

// Counts free memory where it lies: in caches, in arenas and behind marks. Its cost does not depend on the live blocks.
void Pool::figures(portamem_pool_figures& figures) {
    live(figures.live, figures.used);
    Free free;
    std::uint64_t cached = 0;
    figures.hits = caches_.totals().allocated;
    caches_.for_each([&](const Cache& cache) {
        for (unsigned index = 0; index < kClasses; ++index) free.add(cache.bins[index].count, size_of(index));
        free.add(cache.pending_blocks.get(), cache.pending_most.get());
        cached += cache.cached.get();
    });
    free.bytes = cached;  // pending blocks are of many sizes
    figures.misses = misses_.load(std::memory_order_relaxed);
    figures.hits -= std::min(figures.hits, figures.misses);
    figures.steals = steals_.load(std::memory_order_relaxed);
    figures.releases = upstream_.releases();
    figures.marks = events_.marks();
    figures.reserved = heap_.reserved();
    figures.peak = heap_.peak();
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    figures.chunks = heap_.chunks_here();
    figures.arenas = heap_.arenas().size();
    free.add(heap_, heap_.common());
    for (const auto& entry : heap_.arenas()) free.add(heap_, *entry.second);
    for (const auto& queue : heap_.waiting().queues()) free.add(heap_, queue.second);
    free.add(heap_, heap_.orphans());
    figures.free_blocks = free.blocks;
    figures.free_bytes = free.bytes;
    figures.largest_free = free.largest;
}

void Pool::reserved(std::uint64_t& now, std::uint64_t& peak) {
    now = heap_.reserved();
    peak = std::max<std::uint64_t>(heap_.peak(), now);
}

void Pool::reset_peak() {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    heap_.reset_peak();
}

std::vector<portamem_pool_piece> Pool::snapshot(const void* only) {
    std::vector<portamem_pool_piece> pieces;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        // The streams by the number of their arenas; 0 for the common arena.
        std::unordered_map<std::uint32_t, std::uint64_t> streams;
        if (only == nullptr) {
            for (const auto& entry : heap_.arenas()) streams[entry.second->number] = entry.first;
        }
        for (const Chunk& chunk : heap_.chunks()) {
            if (chunk.is_leaving || (only != nullptr && chunk.ptr != only)) continue;
            for (const Block* block = chunk.first; block != nullptr; block = block->after) {
                portamem_pool_piece piece{};
                piece.chunk = reinterpret_cast<std::uintptr_t>(chunk.ptr);
                piece.chunk_bytes = chunk.nbytes;
                piece.address = block->base;
                piece.nbytes = std::min<std::uint64_t>(block->length(), piece.chunk + piece.chunk_bytes - block->base);
                switch (block->use) {
                    case Block::Use::Free:
                        piece.state = PORTAMEM_POOL_PIECE_FREE;
                        piece.stream = streams[block->arena];
                        break;
                    case Block::Use::Detached:
                        piece.state = PORTAMEM_POOL_PIECE_CACHED;
                        break;
                    case Block::Use::Taken:
                        piece.state = block->own_state.load(std::memory_order_relaxed) == kFree
                                          ? PORTAMEM_POOL_PIECE_CACHED
                                          : PORTAMEM_POOL_PIECE_LIVE;
                        piece.live = piece.state == PORTAMEM_POOL_PIECE_LIVE ? 1 : 0;
                        piece.blocks = 1;
                        piece.block_bytes = block->size();
                        break;
                    case Block::Use::Slab:
                        piece.state = PORTAMEM_POOL_PIECE_SLAB;
                        piece.blocks = blocks_of(*block);
                        piece.block_bytes = block->size();
                        for (std::uint32_t i = 0; i < block->slab.carved; ++i) {
                            const std::size_t state = std::size_t{i} << block->spread;
                            if (block->states[state].load(std::memory_order_relaxed) != kFree) ++piece.live;
                        }
                        break;
                }
                pieces.push_back(piece);
            }
        }
    }
    std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
    return pieces;
}

}  // namespace portamem::pool
