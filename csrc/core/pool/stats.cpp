// SPDX-License-Identifier: MIT
// core/pool/stats.cpp: what a pool says of itself.
#include <algorithm>
#include <unordered_map>

#include "pool.hpp"

namespace portamem::pool {

void Pool::live(std::uint64_t& blocks, std::uint64_t& nbytes) {
    const std::lock_guard<std::mutex> lock(registry_);
    std::uint64_t freed = frees_.load(std::memory_order_relaxed);
    for (const auto& cache : caches_) freed += cache->frees.get();  // first: a block is allocated before it is freed
    std::uint64_t allocated = hits_.load(std::memory_order_relaxed);
    nbytes = live_bytes_.load(std::memory_order_relaxed);
    for (const auto& cache : caches_) {
        allocated += cache->hits.get();
        nbytes += cache->live_bytes.get();
    }
    const std::int64_t empty = empty_.load(std::memory_order_relaxed);
    blocks = allocated - freed + static_cast<std::uint64_t>(std::max<std::int64_t>(empty, 0));
    if (static_cast<std::int64_t>(nbytes) < 0) nbytes = 0;  // asked while threads hand blocks to each other
}

void Pool::figures(portamem_pool_figures& figures) {
    live(figures.live, figures.used);
    std::size_t cached_most = 0;
    figures.hits = hits_.load(std::memory_order_relaxed);
    figures.free_blocks = 0;
    figures.free_bytes = 0;
    {
        const std::lock_guard<std::mutex> lock(registry_);
        for (const auto& cache : caches_) {
            figures.hits += cache->hits.get();
            figures.free_bytes += cache->cached.get();
        }
    }
    figures.misses = misses_.load(std::memory_order_relaxed);
    figures.hits -= std::min(figures.hits, figures.misses);
    figures.steals = steals_.load(std::memory_order_relaxed);
    figures.releases = releases_.load(std::memory_order_relaxed);
    figures.marks = marks_.load(std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    figures.reserved = heap_.reserved();
    figures.peak = heap_.peak();
    figures.chunks = heap_.chunks_here();
    figures.arenas = heap_.arenas().size();
    figures.largest_free = 0;
    std::uint64_t idle = 0;
    for (const Chunk& chunk : heap_.chunks()) {
        if (chunk.is_leaving) continue;
        for (const Block* block = chunk.first; block != nullptr; block = block->after) {
            std::size_t free = 0;
            std::uint64_t blocks = 0;
            if (block->use == Block::Use::Slab) {
                std::uint64_t out = 0;
                for (std::uint32_t i = 0; i < block->slab.carved; ++i) {
                    const std::size_t state = std::size_t{i} << block->spread;
                    if (block->states[state].load(std::memory_order_relaxed) != kIn) ++out;
                }
                blocks = blocks_of(*block) - out;
                free = blocks * block->size();
                if (blocks != 0) cached_most = std::max(cached_most, block->size());
            } else if (block->use != Block::Use::Taken || block->own_state.load(std::memory_order_relaxed) == kIn) {
                blocks = 1;
                free = block->length();
                cached_most = std::max(cached_most, free);
            }
            figures.free_blocks += blocks;
            idle += free;
        }
    }
    figures.free_bytes = idle;
    figures.largest_free = cached_most;
}

void Pool::reserved(std::uint64_t& now, std::uint64_t& peak) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    now = heap_.reserved();
    peak = heap_.peak();
}

void Pool::reset_peak() {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    heap_.reset_peak();
}

std::vector<portamem_pool_piece> Pool::snapshot() {
    std::vector<portamem_pool_piece> pieces;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        std::unordered_map<std::uint32_t, std::uint64_t> streams;  // of arenas; of the common one 0
        for (const auto& entry : heap_.arenas()) streams[entry.second->number] = entry.first;
        for (const Chunk& chunk : heap_.chunks()) {
            if (chunk.is_leaving) continue;
            for (const Block* block = chunk.first; block != nullptr; block = block->after) {
                portamem_pool_piece piece{};
                piece.chunk = reinterpret_cast<std::uintptr_t>(chunk.ptr);
                piece.chunk_bytes = chunk.nbytes;
                piece.address = block->base;
                piece.nbytes = block->length();
                switch (block->use) {
                    case Block::Use::Free:
                        piece.state = PORTAMEM_POOL_PIECE_FREE;
                        piece.stream = streams[block->arena];
                        break;
                    case Block::Use::Limbo:
                        piece.state = PORTAMEM_POOL_PIECE_CACHED;
                        break;
                    case Block::Use::Taken:
                        piece.state = block->own_state.load(std::memory_order_relaxed) == kIn
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
                            if (block->states[state].load(std::memory_order_relaxed) != kIn) ++piece.live;
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
