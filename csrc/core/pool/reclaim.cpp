// SPDX-License-Identifier: MIT
// core/pool/reclaim.cpp: everything that is free, put together: for those who find nothing, and to give it back.
#include <algorithm>
#include <thread>
#include <utility>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {

// ---- caches ----

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
        if (arena.has_ended && !defers()) {
            Batches one = one_batch(arena.stream);
            one.front().items.assign(bin.items.get(), bin.items.get() + bin.count);
            heap_.put(arena, std::move(one));
        } else {
            heap_.give(defers() ? heap_.common() : arena, bin.items.get(), bin.count);
            if (!defers()) arena.is_marked = false;
        }
        cache.cached.add(0 - bin.count * size_of(index));
        bin.count = 0;
    }
    if (late.empty()) return;
    if (arena.has_ended) {
        heap_.put(arena, std::move(late));
    } else {
        arena.aside.splice(arena.aside.end(), late);
    }
    cache.pending.clear();
    cache.cached.add(0 - cache.pending_bytes);
    cache.pending_bytes = 0;
}

// Empties caches. What only their own thread can mark stays with it, unless the caches end. Throws std::bad_alloc, where
// some are not empty.
template <class Which>
void Pool::raid(const Which& which, bool for_good) {
    bool all_empty = true;
    const std::lock_guard<std::mutex> lock(registry_);
    const auto ends = [for_good](const Cache& c) {
        return for_good || c.has_lost_thread.load(std::memory_order_relaxed);
    };
    bool any = false;
    for (const auto& cache : caches_) {
        cache->is_raided =
            !cache->has_ended.load(std::memory_order_relaxed) && which(*cache) &&
            (ends(*cache) || !cache->arena->is_per_thread || find_cache(this, cache->stream) == cache.get());
        if (!cache->is_raided) continue;
        cache->lock.begin_shut();
        any = true;
    }
    if (!any) return;
    process_barrier();
    for (const auto& cache : caches_) {
        if (cache->is_raided) cache->lock.end_shut();
    }
    for (const auto& cache : caches_) {
        if (!cache->is_raided) continue;
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

void Pool::raid_all() {
    raid([](const Cache&) { return true; }, false);
}

void Pool::retire(const std::shared_ptr<Cache>& cache) noexcept {
    struct Rest {
        Pool& pool;
        ~Rest() { pool.rest(PORTAMEM_POOL_OK, false); }
    };
    try {
        const Inside inside(*this);
        const Rest rest{*this};
        cache->has_lost_thread.store(true, std::memory_order_relaxed);
        if (!cache->arena->is_per_thread) {
            raid([&cache](const Cache& c) { return &c == cache.get(); }, true);
            if (defers()) mark_aside(*cache->arena);
            return;
        }
        // Its own stream ends with a thread.
        MarkPtr mark;
        bool is_orphan = !thread_has_own_streams();
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

// ---- streams ----

void Pool::stream_ended(std::uint64_t identity, void* event) {
    MarkPtr mark;
    bool is_orphan = false;
    if (event != nullptr) {
        try {
            mark = std::make_shared<Mark>(ops_, self_, event);
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
}

// Gives what an ended stream has to all, behind its last mark. Where host memory is missing for that, the next who puts
// everything together does it.
void Pool::end_arena(const std::shared_ptr<Arena>& arena) noexcept {
    try {
        raid([&arena](const Cache& cache) { return cache.arena == arena; }, true);
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

// Of another thread when the pool ends.
bool Pool::cannot_be_marked(const Arena& arena) {
    if (!arena.is_per_thread) return false;
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    return !arena.is_marked && is_closed();
}

// Everything that is free in an arena becomes nobody's, once the work before it has run.
void Pool::settle(const std::shared_ptr<Arena>& arena, bool waits) {
    Batches all = one_batch(arena->stream);
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        heap_.detach(*arena, all.front());
    }
    if (!all.front().empty()) {
        MarkPtr mark;
        try {
            if (waits && cannot_be_marked(*arena)) {
                const int status = ops_.synchronize(self_, nullptr);  // nothing less is sure
                if (status != PORTAMEM_POOL_OK) thrown(PORTAMEM_POOL_BUSY);
            } else {
                mark = mark_of(*arena);
            }
        } catch (const Refused& refusal) {
            put_back(*arena, std::move(all));
            if (refusal.status != PORTAMEM_POOL_BUSY) throw;
        } catch (...) {
            put_back(*arena, std::move(all));
            throw;
        }
        put_behind(mark, std::move(all));
    }
    finish(arena->stream, waits);
}

// What nobody can mark any more, behind all work of the device.
void Pool::settle_orphans() {
    Batches all;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        all.swap(heap_.orphans());
    }
    if (all.empty()) return;
    if (ops_.synchronize(self_, nullptr) == PORTAMEM_POOL_OK) return put_behind(nullptr, std::move(all));
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    heap_.orphans().splice(heap_.orphans().end(), all);
}

// What a stream has waiting becomes nobody's, in order, up to the first that has not happened.
void Pool::finish(std::uint64_t stream, bool waits) {
    while (poll_one(stream)) {
    }
    for (MarkPtr mark; waits;) {
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (!heap_.waiting().oldest(stream, mark)) return;
        }
        if (mark != nullptr && ops_.synchronize(self_, mark->event()) != PORTAMEM_POOL_OK) {
            thrown(PORTAMEM_POOL_THROWN);
        }
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        heap_.give_happened(stream, mark);
    }
}

void Pool::reclaim(bool waits) {
    // Others who find nothing meanwhile wait for what is under way here; a policy that is asked then has no need to.
    std::unique_lock<std::mutex> one(reclaim_, std::defer_lock);
    if (waits) {
        one.lock();
    } else if (!one.try_lock()) {
        return;
    }
    raid_all();
    std::vector<std::shared_ptr<Arena>> arenas;
    std::vector<std::uint64_t> waiting;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& entry : heap_.arenas()) arenas.push_back(entry.second);
    }
    for (const auto& arena : arenas) {
        bool has_ended = false;
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            has_ended = arena->has_ended;
        }
        if (has_ended) {
            end_arena(arena);
        } else {
            settle(arena, waits);
        }
    }
    if (waits) settle_orphans();
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& queue : heap_.waiting().queues()) waiting.push_back(queue.first);
    }
    for (const std::uint64_t stream : waiting) finish(stream, waits);
    Batches all = one_batch(0);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    heap_.detach(heap_.common(), all.front());  // slabs that were not all cut are from here on
    heap_.put(heap_.common(), std::move(all));
    (void)heap_.dissolve(heap_.common());
}

// ---- upstream ----

std::size_t Pool::release(std::size_t keep, bool throws) {
    std::size_t released = 0;
    for (;;) {
        Chunk chunk;
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (heap_.reserved() <= keep || !heap_.remove_chunk(heap_.reserved() - keep, chunk)) return released;
        }
        const int status = ops_.deallocate(self_, chunk.ptr, chunk.nbytes);
        if (status == PORTAMEM_POOL_OK) {
            {
                const std::lock_guard<std::mutex> lock(heap_.mutex());
                heap_.forget_chunk(chunk);
            }
            if (ops_.unclaim != nullptr) ops_.unclaim(self_, chunk.nbytes);
            releases_.fetch_add(1, std::memory_order_relaxed);
            released += chunk.nbytes;
            continue;
        }
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            heap_.restore_chunk(chunk);
        }
        if (throws) thrown(status);
        return released;
    }
}

// Asks the policy once for every part of the pool that came back.
void Pool::after_free() {
    if (ops_.keep == nullptr) return;
    std::size_t reserved = 0;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        reserved = heap_.reserved();
    }
    if (reserved == 0) return;
    const std::size_t keep = ops_.keep(self_);
    if (reserved <= keep) return;
    reclaim(false);
    (void)release(keep, false);
}

void Pool::trim(std::size_t keep) {
    const Inside inside(*this);
    reclaim(true);
    (void)release(keep, true);
}

bool Pool::close() {
    if (is_closed()) return true;
    std::uint64_t blocks = 0;
    std::uint64_t nbytes = 0;
    live(blocks, nbytes);
    if (blocks != 0) return false;
    trim(0);  // what can fail, fails while the pool is open
    std::vector<std::shared_ptr<Arena>> left;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& [stream, arena] : heap_.arenas()) {
            if (heap_.reserved() != 0 && !arena->is_per_thread && !arena->has_ended) left.push_back(arena);
        }
    }
    // Of a captured stream a mark is refused: what it used could never go back.
    try {
        for (const auto& arena : left) (void)mark_of(*arena);
    } catch (const Refused& refusal) {
        if (refusal.status != PORTAMEM_POOL_BUSY) throw;
        throw Refused{PORTAMEM_POOL_INVALID,
                      "nothing is out, but a stream that used the pool is captured, and its work cannot be waited for "
                      "meanwhile: end the capture, then close the pool, which is open still"};
    }
    {
        const std::lock_guard<std::mutex> lock(registry_);
        for (const auto& cache : caches_) cache->lock.begin_shut();
        process_barrier();
        for (const auto& cache : caches_) cache->lock.end_shut();
        std::uint64_t allocated = hits_.load();
        std::uint64_t freed = frees_.load();
        for (const auto& cache : caches_) {
            allocated += cache->hits.get();
            freed += cache->frees.get();
        }
        std::uint64_t none = 0;
        const bool is_unused = allocated == freed && empty_.load() == 0;
        const bool closes = is_unused && inside_.compare_exchange_strong(none, kClosed);
        if (!closes) {
            for (const auto& cache : caches_) cache->lock.open();
            return (none & kClosed) != 0;
        }
    }
    shut_down();
    return true;
}

void Pool::shut_down() noexcept {
    inside_.fetch_or(kClosed);
    while (inside_.load() != kClosed) std::this_thread::yield();
    const auto attempt = [](const auto& function) noexcept {
        for (int i = 0; i < 3; ++i) {
            try {
                return function();
            } catch (const std::bad_alloc&) {
                continue;  // nothing is lost by it, and host memory may be back
            } catch (...) {
                return;
            }
        }
    };
    attempt([this] { raid([](const Cache&) { return true; }, true); });
    attempt([this] { reclaim(true); });  // what cannot be waited for is not given back: somebody may still use it
    try {
        (void)release(0, false);
    } catch (...) {
    }
    forget_owner();
}

// Threads keep arenas for as long as they remember their caches; the owner is gone by then.
void Pool::forget_owner() noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    const auto strip = [this](Arena& arena) {
        arena.latest.reset();
        if (arena.ref != nullptr) ops_.forget(self_, std::exchange(arena.ref, nullptr));
    };
    for (const auto& entry : heap_.arenas()) strip(*entry.second);
    heap_.arenas().clear();
    heap_.waiting().clear();
    for (const auto& weak : ended_) {
        if (const auto arena = weak.lock()) strip(*arena);
    }
    strip(heap_.common());
}

}  // namespace portamem::pool
