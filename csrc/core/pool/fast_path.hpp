// SPDX-License-Identifier: MIT
// core/pool/fast_path.hpp: the hit path, on which a cache alone serves a call.
//
// It reads the thread's memo and the cache, and writes the cache and the block's state. It takes no lock and touches no
// memory that other threads write. The last two functions leave it for shared blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pool.hpp"
#include "slab_shape.hpp"
#include "thread.hpp"

namespace portamem::pool {

// Returns the state of a block of class `index`, whose blocks have `size` bytes; null where the address needs a closer
// look.
[[gnu::always_inline]] inline std::atomic<State>* state_of(Cache& cache, const PageMap& pages, std::uintptr_t address,
                                                           unsigned index, std::size_t size) {
    const Block* const block = cache.block_of(pages, address);
    if (block == nullptr) return nullptr;
    const std::size_t offset = address - block->base;
    const std::size_t number = offset * kReciprocals[index] >> 32;
    if (number * size != offset || block->index != index) return nullptr;
    return block->states + (number << block->spread);
}

// Takes back a block whose state was just seen to be `out`. An exchange costs less than comparing first. Where another
// thread freed the block meanwhile, and a third already has it again, the exchange is undone.
[[gnu::always_inline]] inline bool becomes_in(std::atomic<State>& state, State out) noexcept {
    const State was = state.exchange(kFree, std::memory_order_acq_rel);
    if (__builtin_expect(was == out, 1)) return true;
    State in = kFree;
    if (was != kFree) state.compare_exchange_strong(in, was, std::memory_order_acq_rel);
    return false;
}

// The functions below return null or false where a cache alone cannot serve the call. The first two leave out what is
// above kLargestOwn: only few caches hold that, and the functions that are called next look there.

[[gnu::always_inline]] inline void* allocate_from_cache(Cache* cache, std::size_t nbytes) noexcept {
    if (__builtin_expect(cache != nullptr && nbytes - 1 < kLargestOwn && cache->lock.enter(), 1)) {
        const unsigned index = class_of(nbytes);
        Cache::Bin& bin = cache->bins[index];
        if (__builtin_expect(bin.count != 0, 1)) {
            const Item item = bin.items[--bin.count];
            item.state->store(out_of(bin.size, nbytes), std::memory_order_relaxed);
            cache->hits.add(1);
            cache->live_bytes.add(nbytes);
            cache->cached.add(0 - std::uint64_t{bin.size});
            cache->lock.leave();
            return reinterpret_cast<void*>(item.address);
        }
        cache->lock.leave();
    }
    return nullptr;
}

[[gnu::always_inline]] inline bool deallocate_into_cache(Cache* cache, const Pool& pool, void* ptr,
                                                         std::size_t nbytes) noexcept {
    if (__builtin_expect(cache != nullptr && nbytes - 1 < kLargestOwn && !cache->deferred && cache->lock.enter(), 1)) {
        const unsigned index = class_of(nbytes);
        const auto address = reinterpret_cast<std::uintptr_t>(ptr);
        Cache::Bin& bin = cache->bins[index];
        std::atomic<State>* const state = state_of(*cache, pool.pages(), address, index, bin.size);
        const State out = out_of(bin.size, nbytes);
        const std::size_t cached = cache->cached.get() + bin.size;
        if (__builtin_expect(state != nullptr && bin.count < bin.capacity && cached <= free_room_of(index) &&
                                 state->load(std::memory_order_relaxed) == out && becomes_in(*state, out),
                             1)) {
            bin.items[bin.count++] = {address, state};
            cache->frees.add(1);
            cache->live_bytes.add(0 - nbytes);
            cache->cached.add(bin.size);
            cache->lock.leave();
            return true;
        }
        cache->lock.leave();
    }
    return false;
}

// Frees a block by its address alone: its record has the class, and its state the bytes that were asked for.
[[gnu::always_inline]] inline bool deallocate_at_into_cache(Cache* cache, const Pool& pool, void* ptr) noexcept {
    if (cache == nullptr || cache->deferred || !cache->lock.enter()) return false;
    bool is_done = false;
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    const Block* const block = cache->block_of(pool.pages(), address);
    if (block != nullptr && block->index < kClasses) {
        const unsigned index = block->index;
        Cache::Bin& bin = cache->bins[index];
        const std::size_t offset = address - block->base;
        const std::size_t number = offset * kReciprocals[index] >> 32;
        if (number * bin.size == offset && bin.count < bin.capacity &&
            cache->cached.get() + bin.size <= free_room_of(index)) {
            std::atomic<State>& state = block->states[number << block->spread];
            const State out = state.load(std::memory_order_relaxed);
            if (out != kFree && becomes_in(state, out)) {
                bin.items[bin.count++] = {address, &state};
                cache->frees.add(1);
                cache->live_bytes.add(0 - asked_of(bin.size, out));
                cache->cached.add(bin.size);
                is_done = true;
            }
        }
    }
    cache->lock.leave();
    return is_done;
}

// These two serve from the classes just above. The path above calls them last and does not inline them, so that it
// needs no stack frame; the functions below follow the same rule.

[[gnu::noinline]] inline void* allocate_from_next_class(Cache* cache, std::size_t nbytes) noexcept {
    if (cache == nullptr || nbytes - 1 >= kLargestCached || !cache->lock.enter()) return nullptr;
    Item item{};
    State out = kFree;
    if (cache->take_cached(class_of(nbytes), nbytes, item, out)) {
        item.state->store(out, std::memory_order_relaxed);
        cache->hits.add(1);
        cache->live_bytes.add(nbytes);
    }
    cache->lock.leave();
    return reinterpret_cast<void*>(item.address);
}

[[gnu::noinline]] inline bool deallocate_into_next_class(Cache* cache, const Pool& pool, void* ptr,
                                                         std::size_t nbytes) noexcept {
    if (cache == nullptr || cache->deferred || nbytes <= kLargestSmall || nbytes > kLargestCached) return false;
    if (!cache->lock.enter()) return false;
    bool is_done = false;
    const unsigned index = class_of(nbytes);
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    const Block* const block = cache->block_of(pool.pages(), address);
    const unsigned serving = block != nullptr && block->base == address ? block->index : 0;
    if (serving > index && serving <= index + kMostAbove && serving < kClasses) {
        std::atomic<State>* const state = block->states;
        Cache::Bin& bin = cache->bins[serving];
        State out = out_of(bin.size, nbytes);
        if (bin.count < bin.capacity && cache->cached.get() + bin.size <= free_room_of(serving) &&
            state->compare_exchange_strong(out, kFree, std::memory_order_acq_rel)) {
            bin.items[bin.count++] = {address, state};
            cache->frees.add(1);
            cache->live_bytes.add(0 - nbytes);
            cache->cached.add(bin.size);
            is_done = true;
        }
    }
    cache->lock.leave();
    return is_done;
}

// These two search all caches of the thread, where the memo's slot holds another stream's cache.

[[gnu::noinline]] inline void* allocate_by_search(Pool& pool, std::size_t nbytes, std::uint64_t identity) noexcept {
    Cache* const cache = find_cache(&pool, identity);
    void* const ptr = allocate_from_cache(cache, nbytes);
    return ptr != nullptr ? ptr : allocate_from_next_class(cache, nbytes);
}

[[gnu::noinline]] inline bool deallocate_by_search(Pool& pool, void* ptr, std::size_t nbytes,
                                                   std::uint64_t identity) noexcept {
    Cache* const cache = find_cache(&pool, identity);
    return deallocate_into_cache(cache, pool, ptr, nbytes) || deallocate_into_next_class(cache, pool, ptr, nbytes);
}

// These two serve without a callback but `drop`, so the caller can keep a lock of its own meanwhile. For shared blocks
// they take the heap's lock.

inline void* allocate_cached(Pool& pool, std::size_t nbytes, std::uint64_t identity) noexcept {
    Cache* const cache = remembered_cache(&pool, identity);
    if (__builtin_expect(cache == nullptr, 0)) return allocate_by_search(pool, nbytes, identity);
    void* const ptr = allocate_from_cache(cache, nbytes);
    if (__builtin_expect(ptr != nullptr, 1)) return ptr;
    return nbytes > kLargestOwn ? pool.allocate_with_heap(*cache, nbytes) : allocate_from_next_class(cache, nbytes);
}

inline bool deallocate_cached(Pool& pool, void* ptr, std::size_t nbytes, std::uint64_t identity) noexcept {
    Cache* const cache = remembered_cache(&pool, identity);
    if (__builtin_expect(cache == nullptr, 0)) return deallocate_by_search(pool, ptr, nbytes, identity);
    if (__builtin_expect(deallocate_into_cache(cache, pool, ptr, nbytes), 1)) return true;
    if (nbytes > kLargestOwn) return pool.deallocate_with_heap(*cache, ptr, nbytes);
    return deallocate_into_next_class(cache, pool, ptr, nbytes);
}

}  // namespace portamem::pool
