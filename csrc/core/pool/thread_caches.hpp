// SPDX-License-Identifier: MIT
// core/pool/thread_caches.hpp: all caches of a pool, one for each thread and stream.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "cache.hpp"
#include "heap.hpp"
#include "thread.hpp"

namespace portamem::pool {

/// Owns the list of caches, and the counts of calls that no cache counts.
/// Invariant: a cache leaves the list shut and empty, and its counts come here, so that sums never go back.
/// Locks: a thread holds the registry's for the list, and while it shuts another thread's cache; cache and heap come
/// under it.
class CacheSet {
  public:
    CacheSet(const Pool& pool, Heap& heap, bool needs_event_before_reuse)
        : pool_(pool), heap_(heap), needs_event_(needs_event_before_reuse) {}

    void add(const std::shared_ptr<Cache>& cache);

    /// Enters a cache as its owner thread. Throws Refused where the cache has ended.
    void enter(Cache& cache);

    /// Counts an allocation (blocks 1) or a free (blocks -1) of nbytes, in the cache or, where that is null, in the
    /// set.
    void count(Cache* cache, std::int64_t blocks, std::int64_t nbytes);

    /// Counts that a block that is out has become so much larger, or smaller.
    void count_resized(std::int64_t nbytes) noexcept {
        live_bytes_.fetch_add(static_cast<std::uint64_t>(nbytes), std::memory_order_relaxed);
    }

    /// Moves everything in a cache to the heap. The cache is shut, or its owner thread is inside. On std::bad_alloc the
    /// rest is still in the cache.
    void empty(Cache& cache);

    /// Empties the caches that `which` chooses, and ends them with `for_good` or where their thread is gone. A cache
    /// that only its own thread can mark is left alone, unless it ends or `also_of_own_streams` says that the caller
    /// orders it. On std::bad_alloc some are not empty.
    template <class Which>
    void flush(const Which& which, bool for_good, bool also_of_own_streams = false);

    struct Totals {
        std::uint64_t allocated = 0;
        std::uint64_t freed = 0;
        std::uint64_t live_bytes = 0;  ///< requested bytes; may be below zero while threads hand blocks to each other
    };
    Totals totals();

    /// Shuts every cache, and leaves all shut where `stays` returns true for the counts of that moment.
    template <class Stays>
    void shut_all(const Stays& stays);

    /// Calls `look` with each cache, under the registry's lock.
    template <class Look>
    void for_each(const Look& look);

  private:
    Totals totals_locked() const;
    /// Ends a cache that is shut and empty.
    void end(Cache& cache);

    const Pool& pool_;
    Heap& heap_;
    const bool needs_event_;
    std::mutex registry_;
    std::vector<std::shared_ptr<Cache>> caches_;
    // These count calls without a cache, and calls on caches that have ended.
    std::atomic<std::uint64_t> allocated_{0};
    std::atomic<std::uint64_t> freed_{0};
    std::atomic<std::uint64_t> live_bytes_{0};
};

/// Leaves a cache's lock, which the owner thread is inside of.
class CacheUnlock {
  public:
    explicit CacheUnlock(Cache& cache) noexcept : cache_(cache) {}
    ~CacheUnlock() { cache_.lock.leave(); }
    CacheUnlock(const CacheUnlock&) = delete;
    CacheUnlock& operator=(const CacheUnlock&) = delete;

  private:
    Cache& cache_;
};

/// Enters a cache's lock as its owner thread. Throws Refused where the cache has ended.
class CacheLock {
  public:
    CacheLock(CacheSet& caches, Cache& cache) : unlock_((caches.enter(cache), cache)) {}

  private:
    const CacheUnlock unlock_;
};

template <class Which>
void CacheSet::flush(const Which& which, bool for_good, bool also_of_own_streams) {
    bool all_empty = true;
    const std::lock_guard<std::mutex> lock(registry_);
    const auto ends = [for_good](const Cache& c) {
        return for_good || c.has_lost_thread.load(std::memory_order_relaxed);
    };
    bool any = false;
    for (const auto& cache : caches_) {
        cache->is_flushed = !cache->has_ended.load(std::memory_order_relaxed) && which(*cache) &&
                            (ends(*cache) || also_of_own_streams || !cache->arena->is_per_thread ||
                             find_cache(&pool_, cache->stream) == cache.get());
        if (!cache->is_flushed) continue;
        cache->lock.begin_shut();
        any = true;
    }
    if (!any) return;
    process_barrier();
    for (const auto& cache : caches_) {
        if (cache->is_flushed) cache->lock.end_shut();
    }
    for (const auto& cache : caches_) {
        if (!cache->is_flushed) continue;
        bool is_empty = true;
        try {
            empty(*cache);
        } catch (const std::bad_alloc&) {
            is_empty = all_empty = false;
        }
        if (is_empty && ends(*cache)) {
            end(*cache);
        } else {
            cache->lock.open();
        }
    }
    caches_.erase(std::remove_if(caches_.begin(), caches_.end(),
                                 [](const auto& cache) { return cache->has_ended.load(std::memory_order_relaxed); }),
                  caches_.end());
    if (!all_empty) throw std::bad_alloc();
}

template <class Stays>
void CacheSet::shut_all(const Stays& stays) {
    const std::lock_guard<std::mutex> lock(registry_);
    for (const auto& cache : caches_) cache->lock.begin_shut();
    process_barrier();
    for (const auto& cache : caches_) cache->lock.end_shut();
    if (stays(totals_locked())) return;
    for (const auto& cache : caches_) cache->lock.open();
}

template <class Look>
void CacheSet::for_each(const Look& look) {
    const std::lock_guard<std::mutex> lock(registry_);
    for (const auto& cache : caches_) look(*cache);
}

}  // namespace portamem::pool
