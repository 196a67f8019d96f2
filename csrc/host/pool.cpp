// SPDX-License-Identifier: MIT
// host/pool.cpp: best fit with splitting and merging, and the rules for reusing a block before its free has run.
#include "pool.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "entry.hpp"

namespace portamem::host {

char* Block::address() const { return chunk == nullptr ? nullptr : chunk->mapping->user() + offset; }

Chunk::Chunk(std::size_t size, bool guarded) : mapping(std::make_shared<Mapping>(size, guarded)), first(new Block) {
    first->chunk = this;
    first->size = size;
}

Chunk::~Chunk() {
    for (Block* block = first; block != nullptr;) delete std::exchange(block, block->next);
}

bool Pool::BySize::operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : std::less<>()(a->address(), b->address());
}

Block* Pool::allocate(State& state, Hold& hold, std::size_t size, Stream& stream) {
    const std::size_t rounded = round_up(size, granule);
    if (rounded == 0) refuse(pmhErrorOutOfMemory, "%zu bytes are more than an address can count", size);
    Block* block = find(state, rounded, stream);
    if (block == nullptr && opportunistic && pending_ != 0) {
        settle();  // neighbours that have both been freed by now may be large enough together
        block = find(state, rounded, stream);
    }
    if (block == nullptr && grow(state, hold, rounded)) block = find(state, rounded, stream);
    if (block == nullptr) block = find_by_waiting(state, rounded, stream);
    if (block == nullptr) {
        const Device& owner = device_of(state, device);
        refuse(pmhErrorOutOfMemory, "the pool has %llu bytes reserved and %llu used; device %d has %zu of %zu reserved",
               static_cast<unsigned long long>(reserved_), static_cast<unsigned long long>(used_), device,
               owner.reserved, owner.capacity);
    }
    block = carve(block, rounded);
    block->asked = size;
    used_ += size;
    used_high_ = std::max(used_high_, used_);
    return block;
}

void Pool::free(State& state, Hold& hold, Block* block, const Point& when) {
    used_ -= block->asked;
    block->used = false;
    if (when.stream != nullptr && !(opportunistic && when.reached())) {
        block->freed = when;
        ++pending_;
    }
    free_.insert(merge_neighbours(block));
    if (destroyed) trim(state, hold, 0);
}

void Pool::trim(State& state, Hold& hold, std::uint64_t keep) {
    if (reserved_ <= keep) return;
    settle();
    for (auto& chunk : chunks_) {
        if (reserved_ <= keep) break;
        if (!chunk->is_idle()) continue;
        const std::size_t size = chunk->mapping->size();
        free_.erase(chunk->first);
        hold.release(std::move(chunk->mapping));
        chunk.reset();
        reserved_ -= size;
        device_of(state, device).reserved -= size;
    }
    chunks_.erase(std::remove(chunks_.begin(), chunks_.end(), nullptr), chunks_.end());
}

void Pool::synchronized(State& state, Hold& hold) {
    if (pending_ != 0) settle();
    trim(state, hold, threshold);
}

bool Pool::holds(const void* ptr) const {
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    return std::any_of(chunks_.begin(), chunks_.end(), [&](const auto& chunk) {
        return address - reinterpret_cast<std::uintptr_t>(chunk->mapping->user()) < chunk->mapping->size();
    });
}

Block* Pool::find(State& state, std::size_t size, const Stream& stream) const {
    Block least;
    least.size = size;
    for (auto candidate = free_.lower_bound(&least); candidate != free_.end(); ++candidate) {
        const Point& freed = (*candidate)->freed;
        if (freed.stream == nullptr || freed.stream.get() == &stream) return *candidate;
        if (opportunistic && freed.reached()) return *candidate;
        if (follow_events && comes_after(state, stream, freed)) return *candidate;
    }
    return nullptr;
}

bool Pool::grow(State& state, Hold& hold, std::size_t size) {
    const std::size_t bytes = round_up(size, chunk_granule);
    Device& owner = device_of(state, device);
    if (bytes == 0 || bytes > owner.capacity || (max_size_ != 0 && bytes > max_size_)) return false;
    if (max_size_ != 0 && reserved_ > max_size_ - bytes) trim(state, hold, 0);
    if (max_size_ != 0 && reserved_ > max_size_ - bytes) return false;
    if (!owner.reserve(state, hold, bytes)) return false;
    try {
        chunks_.push_back(std::make_unique<Chunk>(bytes, state.config.guarded()));
        free_.insert(chunks_.back()->first);
    } catch (...) {
        owner.reserved -= bytes;
        throw;
    }
    reserved_ += bytes;
    reserved_high_ = std::max(reserved_high_, reserved_);
    return true;
}

// Takes a block whose free has to be waited for. The vendors do this only where the pool cannot grow, because a wait
// costs more than a chunk.
Block* Pool::find_by_waiting(State& state, std::size_t size, Stream& stream) const {
    Block least;
    least.size = size;
    const auto candidate = free_.lower_bound(&least);
    if (!internal_dependencies || candidate == free_.end()) return nullptr;
    const Point freed = (*candidate)->freed;
    (void)submit(state, stream, nullptr, {freed});
    stream.seen.raise(freed.stream->identity, freed.ticket);
    return *candidate;
}

// Takes a free block, or the front of it, into use. The rest stays as pending as the whole was.
Block* Pool::carve(Block* block, std::size_t size) {
    std::unique_ptr<Block> rest;
    if (block->size > size) rest = std::make_unique<Block>();
    auto node = free_.extract(block);
    if (rest != nullptr) {
        rest->chunk = block->chunk;
        rest->offset = block->offset + size;
        rest->size = block->size - size;
        rest->freed = block->freed;
        rest->previous = block;
        rest->next = block->next;
        if (rest->next != nullptr) rest->next->previous = rest.get();
        if (rest->is_pending()) ++pending_;
        block->next = rest.get();
        block->size = size;
        node.value() = rest.release();
        free_.insert(std::move(node));
    }
    if (block->is_pending()) --pending_;
    block->freed = {};
    block->used = true;
    return block;
}

void Pool::settle() {
    std::vector<Block*> settled;
    for (Block* block : free_)
        if (block->is_pending() && block->freed.reached()) settled.push_back(block);
    for (Block* block : settled) {
        block->freed = {};
        --pending_;
    }
    // The highest address comes first, so that a merge takes away only blocks that have had their turn.
    std::sort(settled.begin(), settled.end(), [](Block* a, Block* b) { return a->address() > b->address(); });
    for (Block* block : settled) {
        free_.erase(block);
        free_.insert(merge_neighbours(block));
    }
}

// Joins a free block, not in free_, with the free blocks beside it that may be reused under the same condition.
Block* Pool::merge_neighbours(Block* block) {
    const auto alike = [](const Block* a, const Block* b) { return !a->used && a->freed.stream == b->freed.stream; };
    if (block->next != nullptr && alike(block->next, block)) absorb_next(block);
    if (block->previous != nullptr && alike(block->previous, block)) {
        block = block->previous;
        free_.erase(block);
        absorb_next(block);
    }
    return block;
}

void Pool::absorb_next(Block* block) {
    const std::unique_ptr<Block> gone(block->next);
    free_.erase(gone.get());
    block->size += gone->size;
    block->freed.ticket = std::max(block->freed.ticket, gone->freed.ticket);
    if (gone->is_pending()) --pending_;
    block->next = gone->next;
    if (block->next != nullptr) block->next->previous = block;
}

}  // namespace portamem::host
