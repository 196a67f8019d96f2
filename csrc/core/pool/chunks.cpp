// SPDX-License-Identifier: MIT
// core/pool/chunks.cpp: the heap's chunks: added, and taken out again.
#include <algorithm>
#include <new>

#include "heap.hpp"

namespace portamem::pool {

void Heap::add_chunk(void* ptr, std::size_t nbytes, Arena& arena, bool for_slabs) {
    if (chunks_.size() == chunks_.capacity()) chunks_.reserve(2 * chunks_.size() + 1);
    const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
    const std::uintptr_t aligned = (begin + kGrain - 1) & ~(kGrain - 1);
    const std::size_t length = (nbytes - (aligned - begin)) & ~(kGrain - 1);
    if (!PageMap::covers(aligned + length - 1)) throw std::bad_alloc();
    Block* const block = new_block();
    block->base = aligned;
    block->set_length(length);
    block->for_slabs = for_slabs ? 1 : 0;
    block->before = nullptr;
    block->after = nullptr;
    chunks_.push_back({ptr, nbytes, block});
    arena.link(*block);
    // The chunk counts as freed here: a stream that takes it over waits for the work that this stream has now.
    ++arena.insertions;
    arena.is_marked = false;
    reserved_ += nbytes;
    peak_ = std::max(peak(), reserved());
}

void Heap::add_exact_chunk(void* ptr, std::size_t nbytes, Arena& arena, Item& item) {
    const auto entry = exact_.emplace(reinterpret_cast<std::uintptr_t>(ptr), nullptr).first;
    try {
        add_chunk(ptr, nbytes, arena);
    } catch (...) {
        exact_.erase(entry);
        throw;
    }
    Block& block = *chunks_.back().first;
    arena.unlink(block);
    const std::size_t whole = block.length();
    block.set_length(round_up(nbytes, kGrain));
    hand_out(block, kExact);
    block.overhang = static_cast<std::uint32_t>(block.length() - whole);
    entry->second = &block;
    item = {block.base, &block.own_state};
}

bool Heap::remove_chunk(std::size_t most, Chunk& chunk) {
    auto chosen = chunks_.end();
    for (auto it = chunks_.begin(); it != chunks_.end(); ++it) {
        const Block& first = *it->first;
        if (first.use != Block::Use::Free || first.arena != common_.number || first.after != nullptr) continue;
        const auto is_better = [most](const Chunk& one, const Chunk& other) {
            if ((one.nbytes <= most) != (other.nbytes <= most)) return one.nbytes <= most;
            return one.nbytes <= most ? one.nbytes > other.nbytes : one.nbytes < other.nbytes;
        };
        if (chosen == chunks_.end() || is_better(*it, *chosen)) chosen = it;
    }
    if (chosen == chunks_.end()) return false;
    chosen->is_leaving = true;
    chunk = *chosen;
    common_.unlink(*chunk.first);
    chunk.first->use = Block::Use::Detached;
    reserved_ -= chunk.nbytes;
    return true;
}

void Heap::forget_chunk(const Chunk& chunk) noexcept {
    const auto found =
        std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& c) { return c.first == chunk.first; });
    *found = chunks_.back();
    chunks_.pop_back();
    recycle(chunk.first);
}

std::size_t Heap::chunks_here() const noexcept {
    const auto is_here = [](const Chunk& chunk) { return !chunk.is_leaving; };
    return static_cast<std::size_t>(std::count_if(chunks_.begin(), chunks_.end(), is_here));
}

void Heap::restore_chunk(const Chunk& chunk) noexcept {
    const auto found =
        std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& c) { return c.first == chunk.first; });
    found->is_leaving = false;
    common_.link(*chunk.first);
    reserved_ += chunk.nbytes;
    peak_ = std::max(peak(), reserved());
}

}  // namespace portamem::pool
