// SPDX-License-Identifier: MIT
// core/pool/thread_caches.cpp: all caches of a pool: entered, counted, emptied and ended.
#include "thread_caches.hpp"

#include <utility>

#include "portamem/c_api.h"
#include "refused.hpp"

namespace portamem::pool {

void CacheSet::add(const std::shared_ptr<Cache>& cache) {
    const std::lock_guard<std::mutex> lock(registry_);
    caches_.push_back(cache);
}

// Waits for the registry's lock, which a thread holds while it has caches shut.
void CacheSet::enter(Cache& cache) {
    while (!cache.lock.enter()) {
        const std::lock_guard<std::mutex> flushing(registry_);
        if (cache.has_ended.load(std::memory_order_relaxed)) {
            throw Refused{PORTAMEM_POOL_INVALID, "the stream, or the memory resource, was closed during the call"};
        }
    }
}

void CacheSet::count(Cache* cache, std::int64_t blocks, std::int64_t nbytes) {
    const auto bytes = static_cast<std::uint64_t>(nbytes);
    if (cache != nullptr) {
        try {
            const CacheLock entered(*this, *cache);
            (blocks > 0 ? cache->hits : cache->frees).add(1);
            cache->live_bytes.add(bytes);
            return;
        } catch (const Refused&) {
            // The cache has ended meanwhile, and this set has its counts.
        }
    }
    (blocks > 0 ? allocated_ : freed_).fetch_add(1, std::memory_order_relaxed);
    live_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void CacheSet::empty(Cache& cache) {
    Arena& arena = *cache.arena;
    Batches late;
    if (!cache.pending.empty()) {
        late = one_batch(arena.stream);
        late.front().items = cache.pending;
    }
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    for (unsigned index = 0; index < kClasses; ++index) {
        Cache::Bin& bin = cache.bins[index];
        if (bin.count == 0) continue;
        if (arena.has_ended && !needs_event_) {
            Batches one = one_batch(arena.stream);
            one.front().items.assign(bin.items.get(), bin.items.get() + bin.count);
            heap_.put(arena, std::move(one));
        } else {
            heap_.give(needs_event_ ? heap_.common() : arena, index, bin.items.get(), bin.count);
            if (!needs_event_) arena.is_marked = false;
        }
        cache.cached.add(0 - bin.count * size_of(index));
        bin.count = 0;
    }
    if (late.empty()) return;
    if (arena.has_ended) {
        heap_.put(arena, std::move(late));
    } else {
        arena.add_unmarked(std::move(late));
    }
    cache.pending.clear();
    cache.cached.add(0 - cache.pending_bytes);
    cache.pending_bytes = 0;
    cache.note_pending();
}

void CacheSet::end(Cache& cache) {
    cache.has_ended.store(true, std::memory_order_release);
    allocated_.fetch_add(cache.hits.get(), std::memory_order_relaxed);
    freed_.fetch_add(cache.frees.get(), std::memory_order_relaxed);
    live_bytes_.fetch_add(cache.live_bytes.get(), std::memory_order_relaxed);
}

CacheSet::Totals CacheSet::totals() {
    std::unique_lock<std::mutex> lock(registry_, std::defer_lock);
    if (portamem_forked() == 0) {
        lock.lock();
    } else if (!lock.try_lock()) {
        return {};  // held for ever by a thread that the child does not have
    }
    return totals_locked();
}

// Frees are summed first: a block is allocated before it is freed, so that no sum has more frees than allocations.
CacheSet::Totals CacheSet::totals_locked() const {
    Totals totals;
    totals.freed = freed_.load(std::memory_order_relaxed);
    for (const auto& cache : caches_) totals.freed += cache->frees.get();
    totals.allocated = allocated_.load(std::memory_order_relaxed);
    totals.live_bytes = live_bytes_.load(std::memory_order_relaxed);
    for (const auto& cache : caches_) {
        totals.allocated += cache->hits.get();
        totals.live_bytes += cache->live_bytes.get();
    }
    return totals;
}

}  // namespace portamem::pool
