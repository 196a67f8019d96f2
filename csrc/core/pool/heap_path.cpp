// SPDX-License-Identifier: MIT
// core/pool/heap_path.cpp: the heap path, on which a cache cannot serve a call, but the stream's own memory can.
//
// It takes the heap's lock and calls no callback. Memory that the host reaches is the exception: there it frees with
// the cache alone, and asks the runtime whether the stream is captured and whether its work has run. The full path does
// all the rest: most calls that find a cache empty or full do not need that, and it would cost more than they do.
#include <algorithm>

#include "../order/call.hpp"
#include "pool.hpp"

namespace portamem::pool {
namespace {

// The state of a block of a class, and its value while the block is out for nbytes. Null for any other address.
struct Out {
    std::atomic<State>* state = nullptr;
    State as = kFree;
    unsigned index = 0;
};

Out out_block(Cache& cache, const PageMap& pages, void* ptr, std::size_t nbytes) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    const Block* const block = cache.block_of(pages, address);
    if (block == nullptr || address < block->base || block->index >= kHuge) return {};
    const std::size_t size = size_of(block->index);
    const std::size_t offset = address - block->base;
    const std::size_t number = offset * kReciprocals[block->index] >> 32;
    if (number * size != offset || nbytes - 1 >= size) return {};
    return {block->states + (number << block->spread), out_of(size, nbytes), block->index};
}

}  // namespace

void* Pool::allocate_with_heap(Cache& cache, std::size_t nbytes) noexcept {
    if (nbytes - 1 >= kLargestCached || portamem_forked() != 0 || !cache.lock.enter()) return nullptr;
    const CacheUnlock leaving(cache);
    const unsigned index = class_of(nbytes);
    Cache::Bin& bin = cache.bins[index];
    Item items[kMostAtOnce];
    State out = kFree;
    const bool is_here = cache.holds(index);
    if (!is_here || !cache.take_cached(index, nbytes, items[0], out)) {
        if (is_here && bin.capacity == 0) return nullptr;
        const std::size_t size = size_of(index);
        unsigned count = 0;
        try {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            count = take_locked(own(*cache.arena), {nbytes, size, index, kGrain}, items, is_here ? batch_of(index) : 1);
        } catch (...) {
            return nullptr;
        }
        if (count == 0) return nullptr;
        cache.cached.add((count - 1) * size);
        while (count > 1) bin.items[bin.count++] = items[--count];
        out = out_of(is_here ? size : Block::of(items[0])->size(), nbytes);
    }
    items[0].state->store(out, std::memory_order_relaxed);
    cache.hits.add(1);
    cache.live_bytes.add(nbytes);
    return reinterpret_cast<void*>(items[0].address);
}

bool Pool::deallocate_with_heap(Cache& cache, void* ptr, std::size_t nbytes) noexcept {
    if (needs_event_before_reuse() || portamem_forked() != 0 || !cache.lock.enter()) return false;
    const CacheUnlock leaving(cache);
    const Out out = out_block(cache, pages(), ptr, nbytes);
    if (out.state == nullptr) return false;
    const bool is_here = cache.holds(out.index);
    const bool calls_somebody = callbacks_.ops.keep != nullptr || cache.arena->is_per_thread;
    if (is_here ? cache.bins[out.index].capacity == 0 : calls_somebody) return false;
    State was = out.as;
    if (!out.state->compare_exchange_strong(was, kFree, std::memory_order_acq_rel)) return false;
    const Item item{reinterpret_cast<std::uintptr_t>(ptr), out.state};
    bool is_put =
        is_here ? put_if_room(cache, item, out.index, free_room_of(out.index)) : share(*cache.arena, item, out.index);
    try {
        if (!is_put && is_here && !calls_somebody) {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            is_put = !cache.arena->has_ended;
            if (is_put) put_with_room(cache, *cache.arena, item, out.index);
        }
    } catch (...) {
        is_put = false;
    }
    if (!is_put) {
        out.state->store(out.as, std::memory_order_relaxed);
        return false;
    }
    cache.frees.add(1);
    cache.live_bytes.add(0 - nbytes);
    return true;
}

Pool::Served Pool::deallocate_pending(Cache& cache, void* ptr, std::size_t nbytes, void* stream) noexcept {
    if (!needs_event_before_reuse() || callbacks_.ops.keep != nullptr || nbytes - 1 >= kLargestCached)
        return Served::No;
    if (portamem_forked() != 0 || cache.has_ended.load(std::memory_order_acquire)) return Served::No;
    bool has_room = false;
    {
        if (!cache.lock.enter()) return Served::No;
        const CacheUnlock leaving(cache);
        if (cache.pending.capacity() == 0) return Served::No;
        has_room = cache.has_pending_room(rounded(nbytes));
    }
    if (!has_room && !drain_pending(cache, stream)) return Served::No;
    const int captured = callbacks_.ops.is_captured(callbacks_.self, stream);
    if (captured < 0) return Served::Thrown;
    if (captured != 0 || !cache.lock.enter()) return Served::No;
    const CacheUnlock leaving(cache);
    const Out out = out_block(cache, pages(), ptr, nbytes);
    if (out.state == nullptr || !cache.has_pending_room(size_of(out.index))) return Served::No;
    State was = out.as;
    if (!out.state->compare_exchange_strong(was, kFree, std::memory_order_acq_rel)) return Served::No;
    cache.put_pending({reinterpret_cast<std::uintptr_t>(ptr), out.state}, size_of(out.index));
    cache.frees.add(1);
    cache.live_bytes.add(0 - nbytes);
    return Served::Yes;
}

void* Pool::allocate_drained(Cache& cache, std::size_t nbytes, void* stream) noexcept {
    if (nbytes - 1 >= kLargestCached || portamem_forked() != 0) return nullptr;
    return drain_pending(cache, stream) ? allocate_with_heap(cache, nbytes) : nullptr;
}

// Ends the wait of the cache's pending blocks where all work of the stream has run. It does nothing while the order
// checker is on, because the checker learns only from events that work has run.
bool Pool::drain_pending(Cache& cache, void* stream) noexcept {
    if (callbacks_.ops.has_run == nullptr || order::is_on()) return false;
    std::size_t count = 0;
    {
        if (!cache.lock.enter()) return false;
        const CacheUnlock leaving(cache);
        count = cache.pending.size();
    }
    if (count == 0 || count < cache.asks_from) return false;
    if (callbacks_.ops.has_run(callbacks_.self, stream) == 0) {
        cache.asks_from = 2 * count;
        return false;
    }
    if (!cache.lock.enter()) return false;
    const CacheUnlock leaving(cache);
    return put_drained(cache, std::min(count, cache.pending.size()));  // fewer, or none, where another thread took them
}

// Moves the first `count` pending blocks to the cache, as far as there is room, and the rest to the common arena.
bool Pool::put_drained(Cache& cache, std::size_t count) noexcept {
    std::vector<Item>& pending = cache.pending;
    std::size_t left = 0;      // blocks for the heap, at the front of `pending`
    std::size_t settled = 0;   // bytes of all `count` blocks
    std::size_t for_heap = 0;  // bytes of those for the heap
    for (std::size_t i = 0; i < count; ++i) {
        const Item item = pending[i];
        const Block* block = cache.block_of(pages(), item.address);
        if (block == nullptr || item.address < block->base) block = Block::of(item);  // a kExact block, in no page map
        const std::size_t size = block->size();
        Cache::Bin* const bin = block->index < kHuge ? &cache.bins[block->index] : nullptr;
        settled += size;
        if (bin != nullptr && bin->count < bin->capacity && cache.cached.get() <= free_room_of(block->index)) {
            bin->items[bin->count++] = item;
            continue;
        }
        pending[left++] = item;
        for_heap += size;
    }
    if (left != 0) {
        try {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            heap_.give(heap_.common(), pending.data(), left);
        } catch (...) {  // no host memory: these stay pending
            settled -= for_heap;
            count -= left;
            pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(left),
                          pending.begin() + static_cast<std::ptrdiff_t>(left + count));
            cache.pending_bytes -= settled;
            cache.note_pending();
            return count != 0;
        }
    }
    pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(count));
    cache.pending_bytes -= settled;
    cache.note_pending();
    cache.cached.add(0 - for_heap);
    return count != 0;
}

}  // namespace portamem::pool
