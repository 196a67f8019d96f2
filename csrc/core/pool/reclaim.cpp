// SPDX-License-Identifier: MIT
// core/pool/reclaim.cpp: everything that is free, put together: for those who find nothing, and to give it back.
#include <algorithm>
#include <thread>
#include <utility>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {

// Now, on the stream itself; behind the latest mark where only another thread could make one.
MarkPtr Pool::mark_of(Arena& arena) {
    void* event = nullptr;
    const int status = ops_.mark(self_, arena.ref, nullptr, &event);
    if (status == PORTAMEM_POOL_OK) return make_mark(event);
    if (status == PORTAMEM_POOL_BUSY) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (arena.has_ended || (arena.is_per_thread && arena.is_marked)) return arena.latest;
    }
    thrown(status);
}

// ---- caches ----

void Pool::spill(const std::shared_ptr<Arena>& arena, std::vector<Item>& ready, std::vector<Item>& unmarked) {
    if (!ready.empty()) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (defers()) {
            heap_.give(heap_.common(), ready.data(), ready.size());
        } else {
            Batch batch;
            batch.stream = arena->stream;
            batch.items.swap(ready);
            return_batch(*arena, batch);
            arena->is_marked = arena->has_ended;
        }
    }
    if (unmarked.empty()) return;
    Batch batch;
    batch.stream = arena->stream;
    batch.items.swap(unmarked);
    try {
        // The runtime may have taken the ended thread's stream down already, and give the thread another one.
        if (arena->is_per_thread && !thread_takes_caches()) thrown(PORTAMEM_POOL_BUSY);
        batch.mark = mark_of(*arena);
    } catch (const Refused&) {  // captured, or the runtime fails: whoever marks the stream next marks this
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (!arena->has_ended) {
            arena->unmarked.insert(arena->unmarked.end(), batch.items.begin(), batch.items.end());
            return;
        }
        batch.mark = arena->latest;
    }
    put_behind(arena, std::move(batch));
}

// Empties caches. What only their own thread can mark stays with it, unless the caches end.
void Pool::raid(const std::vector<std::shared_ptr<Cache>>& caches, bool for_good) {
    struct Spoils {
        std::shared_ptr<Arena> arena;
        std::vector<Item> ready;
        std::vector<Item> unmarked;
    };
    std::vector<Spoils> spoils;
    std::exception_ptr failed;
    spoils.reserve(caches.size());
    {
        const std::lock_guard<std::mutex> lock(registry_);
        std::vector<std::shared_ptr<Cache>> raided;
        raided.reserve(caches.size());
        for (const auto& cache : caches) {
            if (cache->has_ended.load(std::memory_order_relaxed)) continue;
            if (!for_good && cache->arena->is_per_thread && find_cache(this, cache->stream) != cache.get()) continue;
            raided.push_back(cache);
        }
        for (const auto& cache : raided) cache->lock.begin_shut();
        process_barrier();
        for (const auto& cache : raided) cache->lock.end_shut();
        for (const auto& cache : raided) {
            Spoils& part = spoils.emplace_back();
            part.arena = cache->arena;
            try {
                if (!failed) cache->empty_into(part.ready, part.unmarked);
            } catch (const std::bad_alloc&) {
                failed = std::current_exception();  // what the caches before it held is still to be put away
            }
            if (failed) {
                cache->lock.open();
                continue;
            }
            if (!for_good) {
                cache->lock.open();
                continue;
            }
            cache->has_ended.store(true, std::memory_order_release);
            hits_.fetch_add(cache->hits.get(), std::memory_order_relaxed);
            frees_.fetch_add(cache->frees.get(), std::memory_order_relaxed);
            live_bytes_.fetch_add(cache->live_bytes.get(), std::memory_order_relaxed);
            caches_.erase(std::find(caches_.begin(), caches_.end(), cache));
        }
    }
    for (Spoils& part : spoils) spill(part.arena, part.ready, part.unmarked);
    if (failed) std::rethrow_exception(failed);
}

void Pool::raid_all() {
    std::vector<std::shared_ptr<Cache>> all;
    {
        const std::lock_guard<std::mutex> lock(registry_);
        all = caches_;
    }
    raid(all, false);
}

void Pool::retire(const std::shared_ptr<Cache>& cache) noexcept {
    try {
        const Inside inside(*this);
        {
            // Its own stream ends with a thread. It is not marked from here on: the runtime may have taken it down
            // already, and give the thread another one.
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            cache->arena->has_lost_thread = cache->arena->is_per_thread;
        }
        raid({cache}, true);
    } catch (...) {
        // The pool is closed, and has emptied the cache; or there is no host memory, and what it holds is lost.
    }
}

// ---- streams ----

void Pool::stream_ended(std::uint64_t identity, void* event) {
    MarkPtr mark = event == nullptr ? nullptr : make_mark(event);
    std::shared_ptr<Arena> arena;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        const auto found = heap_.arenas().find(identity);
        if (found == heap_.arenas().end()) return;
        arena = found->second;
        if (mark == nullptr && arena->is_per_thread && arena->is_marked) mark = arena->latest;
        arena->has_ended = true;  // what others bring from now on goes behind the mark
        arena->latest = mark;
        ended_.erase(std::remove_if(ended_.begin(), ended_.end(), [](const auto& e) { return e.expired(); }),
                     ended_.end());
        ended_.push_back(arena);
        heap_.arenas().erase(found);
    }
    std::vector<std::shared_ptr<Cache>> caches;
    {
        const std::lock_guard<std::mutex> lock(registry_);
        for (const auto& cache : caches_) {
            if (cache->stream == identity) caches.push_back(cache);
        }
    }
    raid(caches, true);
    Batch batch;
    batch.stream = identity;
    batch.mark = mark;
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    heap_.detach(*arena, batch);
    for (Batch& older : arena->batches) heap_.common().batches.push_back(std::move(older));
    arena->batches.clear();
    for (auto& other : heap_.arenas()) other.second->waited.erase(identity);
    if (mark == nullptr) {
        heap_.give(heap_.common(), batch);
    } else if (!batch.empty()) {
        heap_.common().batches.push_back(std::move(batch));
    }
}

// Of a thread that has ended, or of any other thread when the pool ends.
bool Pool::cannot_be_marked(const Arena& arena) {
    if (!arena.is_per_thread) return false;
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    return !arena.is_marked && (arena.has_lost_thread || is_closed());
}

// Everything that is free in an arena becomes nobody's, once the work before it has run.
void Pool::settle(const std::shared_ptr<Arena>& arena, bool waits) {
    const auto finish = [&](Batch& batch) {
        int done = 1;
        if (batch.mark != nullptr) {
            if (waits) {
                const int status = ops_.synchronize(self_, batch.mark->event());
                done = status == PORTAMEM_POOL_OK ? 1 : -1;
            } else {
                done = ops_.query(self_, batch.mark->event());
            }
        }
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (done == 1) {
            heap_.give(heap_.common(), batch);
        } else {
            heap_.common().batches.push_back(std::move(batch));
        }
        if (done < 0) thrown(PORTAMEM_POOL_THROWN);
    };
    std::deque<Batch> batches;
    Batch batch;
    batch.stream = arena == nullptr ? 0 : arena->stream;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        batches.swap(arena == nullptr ? heap_.common().batches : arena->batches);
        if (arena != nullptr) heap_.detach(*arena, batch);
    }
    if (!batch.empty()) {
        try {
            if (waits && !batch.empty() && cannot_be_marked(*arena)) {
                const int status = ops_.synchronize(self_, nullptr);  // nothing less is sure
                if (status != PORTAMEM_POOL_OK) thrown(PORTAMEM_POOL_BUSY);
            } else {
                batch.mark = mark_of(*arena);
            }
            batches.push_back(std::move(batch));
        } catch (const Refused& refusal) {
            {
                const std::lock_guard<std::mutex> lock(heap_.mutex());
                return_batch(*arena, batch);
                if (refusal.status != PORTAMEM_POOL_BUSY) {
                    for (Batch& older : batches) heap_.common().batches.push_back(std::move(older));
                }
            }
            if (refusal.status != PORTAMEM_POOL_BUSY) throw;
        }
    }
    while (!batches.empty()) {
        Batch oldest = std::move(batches.front());
        batches.pop_front();
        try {
            finish(oldest);
        } catch (const Refused&) {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            for (Batch& left : batches) heap_.common().batches.push_back(std::move(left));
            throw;
        }
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
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& entry : heap_.arenas()) arenas.push_back(entry.second);
    }
    for (const auto& arena : arenas) settle(arena, waits);
    settle(nullptr, waits);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    Batch all;
    heap_.detach(heap_.common(), all);  // slabs that were not all cut are from here on
    heap_.give(heap_.common(), all);
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
    for (const auto& arena : left) (void)mark_of(*arena);
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
    try {
        std::vector<std::shared_ptr<Cache>> all;
        {
            const std::lock_guard<std::mutex> lock(registry_);
            all = caches_;
        }
        raid(all, true);
    } catch (...) {
    }
    try {
        reclaim(true);
    } catch (...) {
        // What cannot be waited for is not given back: somebody may still use it.
    }
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
        arena.batches.clear();
        if (arena.ref != nullptr) ops_.forget(self_, std::exchange(arena.ref, nullptr));
    };
    for (const auto& entry : heap_.arenas()) strip(*entry.second);
    heap_.arenas().clear();
    for (const auto& weak : ended_) {
        if (const auto arena = weak.lock()) strip(*arena);
    }
    strip(heap_.common());
}

}  // namespace portamem::pool
