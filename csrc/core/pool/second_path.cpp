// SPDX-License-Identifier: MIT
// core/pool/second_path.cpp: the path on which a cache does not serve at once, and the stream's own memory does.
//
// It takes the heap's lock and calls nobody; of memory that the host reaches it frees with the cache alone, and asks
// the runtime whether the stream is captured. All that is not so simple is left to the third path, which does
// everything: most calls that find a cache empty, or full, need none of that, and it costs more than what they do.
#include "pool.hpp"

namespace portamem::pool {
namespace {

// The state of a block of a class, and what that is when the block is out for so many bytes. Null for all else.
struct Out {
    std::atomic<State>* state = nullptr;
    State as = kIn;
    unsigned index = 0;
};

Out out_block(Cache& cache, const PageMap& pages, void* ptr, std::size_t nbytes) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    const Block* const block = cache.block_of(pages, address);
    if (block == nullptr || address < block->base || block->index == kHuge) return {};
    const std::size_t size = size_of(block->index);
    const std::size_t offset = address - block->base;
    const std::size_t number = offset * kReciprocals[block->index] >> 32;
    if (number * size != offset || nbytes - 1 >= size) return {};
    return {block->states + (number << block->spread), out_of(size, nbytes), block->index};
}

}  // namespace

void* Pool::allocate_with_heap(Cache& cache, std::size_t nbytes) noexcept {
    if (nbytes - 1 >= kLargestCached || portamem_forked() != 0 || !cache.lock.enter()) return nullptr;
    const Leaving leaving(cache);
    const unsigned index = class_of(nbytes);
    Cache::Bin& bin = cache.bins[index];
    Item items[kMostAtOnce];
    State out = kIn;
    if (!cache.take_at_hand(index, nbytes, items[0], out)) {
        if (bin.capacity == 0) return nullptr;
        unsigned count = 0;
        try {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            count = take_locked(own(*cache.arena), {nbytes, bin.size, index, kGrain}, items, batch_of(index));
        } catch (...) {
            return nullptr;
        }
        if (count == 0) return nullptr;
        cache.cached.add((count - 1) * std::uint64_t{bin.size});
        while (count > 1) bin.items[bin.count++] = items[--count];
        out = out_of(bin.size, nbytes);
    }
    items[0].state->store(out, std::memory_order_relaxed);
    cache.hits.add(1);
    cache.live_bytes.add(nbytes);
    return reinterpret_cast<void*>(items[0].address);
}

bool Pool::deallocate_with_heap(Cache& cache, void* ptr, std::size_t nbytes) noexcept {
    if (defers() || portamem_forked() != 0 || !cache.lock.enter()) return false;
    const Leaving leaving(cache);
    const Out out = out_block(cache, pages(), ptr, nbytes);
    if (out.state == nullptr || cache.bins[out.index].capacity == 0) return false;
    State was = out.as;
    if (!out.state->compare_exchange_strong(was, kIn, std::memory_order_acq_rel)) return false;
    const Item item{reinterpret_cast<std::uintptr_t>(ptr), out.state};
    bool is_put = put_if_room(cache, item, out.index, free_room_of(out.index));
    const bool calls_somebody = ops_.keep != nullptr || cache.arena->is_per_thread;
    try {
        if (!is_put && !calls_somebody) {
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
    if (!defers() || ops_.keep != nullptr || nbytes - 1 >= kMostPendingBytes) return Served::No;
    if (portamem_forked() != 0 || cache.has_ended.load(std::memory_order_acquire)) return Served::No;
    const int captured = ops_.is_captured(self_, stream);
    if (captured < 0) return Served::Thrown;
    if (captured != 0 || !cache.lock.enter()) return Served::No;
    const Leaving leaving(cache);
    if (cache.pending.capacity() == 0) return Served::No;
    const Out out = out_block(cache, pages(), ptr, nbytes);
    if (out.state == nullptr || !cache.has_pending_room(size_of(out.index))) return Served::No;
    State was = out.as;
    if (!out.state->compare_exchange_strong(was, kIn, std::memory_order_acq_rel)) return Served::No;
    cache.put_pending({reinterpret_cast<std::uintptr_t>(ptr), out.state}, size_of(out.index));
    cache.frees.add(1);
    cache.live_bytes.add(0 - nbytes);
    return Served::Yes;
}

}  // namespace portamem::pool
