// SPDX-License-Identifier: MIT
// core/pool/flush_caches.cpp: what caches have, taken out: for those who find nothing, and when a thread or a stream ends.
#include <algorithm>
#include <new>
#include <utility>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {
namespace {

// Streams whose events are asked for where one ends: each leaves one behind, and nobody may need the memory for long.
constexpr std::size_t kAskedAtEnd = 4;

}  // namespace

// Everything out of a cache that is shut, under the registry's lock, or by its owner inside of it. Throws
// std::bad_alloc: what has not come out is still there.
void Pool::empty(Cache& cache) {
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
        if (arena.has_ended && !needs_event_before_reuse()) {
            Batches one = one_batch(arena.stream);
            one.front().items.assign(bin.items.get(), bin.items.get() + bin.count);
            heap_.put(arena, std::move(one));
        } else {
            heap_.give(needs_event_before_reuse() ? heap_.common() : arena, index, bin.items.get(), bin.count);
            if (!needs_event_before_reuse()) arena.is_marked = false;
        }
        cache.cached.add(0 - bin.count * size_of(index));
        bin.count = 0;
    }
    if (late.empty()) return;
    if (arena.has_ended) {
        heap_.put(arena, std::move(late));
    } else {
        arena.unmarked.splice(arena.unmarked.end(), late);
    }
    cache.pending.clear();
    cache.cached.add(0 - cache.pending_bytes);
    cache.pending_bytes = 0;
    cache.note_pending();
}

// Empties caches. What only their own thread can mark stays with it, unless the caches end or the caller says how it is
// ordered. Throws std::bad_alloc, where some are not empty.
template <class Which>
void Pool::flush_caches(const Which& which, bool for_good, bool also_of_own_streams) {
    bool all_empty = true;
    const std::lock_guard<std::mutex> lock(registry_);
    const auto ends = [for_good](const Cache& c) {
        return for_good || c.has_lost_thread.load(std::memory_order_relaxed);
    };
    bool any = false;
    for (const auto& cache : caches_) {
        cache->is_flushed = !cache->has_ended.load(std::memory_order_relaxed) && which(*cache) &&
                            (ends(*cache) || also_of_own_streams || !cache->arena->is_per_thread ||
                             find_cache(this, cache->stream) == cache.get());
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
        if (!is_empty || !ends(*cache)) {
            cache->lock.open();
            continue;
        }
        cache->has_ended.store(true, std::memory_order_release);
        hits_.fetch_add(cache->hits.get(), std::memory_order_relaxed);
        frees_.fetch_add(cache->frees.get(), std::memory_order_relaxed);
        live_bytes_.fetch_add(cache->live_bytes.get(), std::memory_order_relaxed);
    }
    caches_.erase(std::remove_if(caches_.begin(), caches_.end(),
                                 [](const auto& cache) { return cache->has_ended.load(std::memory_order_relaxed); }),
                  caches_.end());
    if (!all_empty) throw std::bad_alloc();
}

void Pool::flush_all_caches(bool for_good) {
    flush_caches([](const Cache&) { return true; }, for_good);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    for (const auto& entry : heap_.arenas()) (void)heap_.dissolve(*entry.second);
}

void Pool::flush_own_streams() {
    flush_caches([](const Cache& cache) { return cache.arena->is_per_thread; }, false, true);
}

// ---- threads that end ----

void Pool::retire(const std::shared_ptr<Cache>& cache) noexcept {
    struct Rest {
        Pool& pool;
        ~Rest() { pool.rest(PORTAMEM_POOL_OK, false); }
    };
    try {
        const CallGuard inside(*this);
        const Rest rest{*this};
        cache->has_lost_thread.store(true, std::memory_order_relaxed);
        if (!cache->arena->is_per_thread) {
            flush_caches([&cache](const Cache& c) { return &c == cache.get(); }, true);
            if (needs_event_before_reuse()) mark_unmarked(*cache->arena);
            return;
        }
        // Its own stream ends with a thread.
        MarkPtr mark;
        bool is_orphan = !thread_has_own_streams() || cache->arena->is_marked_in_calls;
        try {
            if (!is_orphan) mark = mark_of(*cache->arena);
        } catch (...) {
            is_orphan = true;  // captured, the runtime fails, or there is no host memory
        }
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            Arena& arena = *cache->arena;
            if (arena.has_ended) return;
            if (is_orphan && arena.is_marked && cache->cached.get() == 0) {
                mark = arena.latest;
                is_orphan = false;
            }
            arena.has_ended = true;
            arena.is_orphan = is_orphan;
            arena.latest = std::move(mark);
        }
        end_arena(cache->arena);
    } catch (...) {
        // The pool is closed, and has emptied the cache; or whoever empties or marks it next does this as well.
    }
}

// ---- streams that end ----

void Pool::stream_ended(std::uint64_t identity, void* event) {
    MarkPtr mark;
    bool is_orphan = false;
    if (event != nullptr) {
        try {
            mark = std::make_shared<Mark>(events_back_, event);
            marks_.fetch_add(1, std::memory_order_relaxed);
        } catch (const std::bad_alloc&) {  // no host memory to keep the event
            is_orphan = ops_.synchronize(self_, event) != PORTAMEM_POOL_OK;
            ops_.drop(self_, event);
        }
    }
    std::shared_ptr<Arena> arena;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        const auto found = heap_.arenas().find(identity);
        // Somebody has seen that the stream is gone before this was told: what it had waits for less than the device.
        for (auto at = heap_.orphans().begin(); !is_orphan && at != heap_.orphans().end();) {
            const auto orphan = at++;
            if (orphan->stream != identity) continue;
            Batches one;
            one.splice(one.end(), heap_.orphans(), orphan);
            one.front().mark = mark;
            heap_.waiting().add(std::move(one));
        }
        if (found == heap_.arenas().end() || (found->second->has_ended && !found->second->is_orphan)) return;
        arena = found->second;
        if (mark == nullptr && arena->is_per_thread && arena->is_marked) mark = arena->latest;
        arena->has_ended = true;  // what others bring from now on goes behind the mark
        arena->is_orphan = is_orphan;
        arena->latest = std::move(mark);
    }
    end_arena(arena);
    const CallGuard inside(*this);  // what it has in its hands is waited for by who closes
    poll_others(identity, kAskedAtEnd);
}

// Gives what an ended stream has to all, behind its last mark. Where host memory is missing for that, the next who puts
// everything together does it.
void Pool::end_arena(const std::shared_ptr<Arena>& arena) noexcept {
    try {
        flush_caches([&arena](const Cache& cache) { return cache.arena == arena; }, true);
        Batches all = one_batch(arena->stream);
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        heap_.detach(*arena, all.front());
        heap_.put(*arena, std::move(all));
        for (auto& other : heap_.arenas()) other.second->waited.erase(arena->stream);
        ended_.remove_if([](const auto& e) { return e.expired(); });
        ended_.splice(ended_.end(), arena->ticket);
        heap_.arenas().erase(arena->stream);
    } catch (const std::bad_alloc&) {
        return;
    }
}

}  // namespace portamem::pool
