// SPDX-License-Identifier: MIT
// core/pool/endings.cpp: threads and streams that end: their memory goes to the remaining ones.
#include <algorithm>
#include <new>
#include <utility>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {
namespace {

// Streams whose marks a call asks for when one ends: each ended stream leaves a mark, and no call may need its memory
// for long.
constexpr std::size_t kAskedAtEnd = 4;

}  // namespace

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
            caches_.flush([&cache](const Cache& c) { return &c == cache.get(); }, true);
            if (needs_event_before_reuse()) events_.mark_unmarked(*cache->arena);
            return;
        }
        // A per-thread stream ends with its thread.
        MarkPtr mark;
        bool is_orphan = !thread_has_own_streams() || cache->arena->is_marked_in_calls;
        try {
            if (!is_orphan) mark = events_.mark_of(*cache->arena);
        } catch (...) {
            is_orphan = true;  // it is captured, the runtime fails, or there is no host memory
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
        // The pool is closed and has emptied the cache, or the next call that empties or marks the arena does this as
        // well.
    }
}

// ---- streams that end ----

void Pool::stream_ended(std::uint64_t identity, void* event) {
    bool is_orphan = false;
    MarkPtr mark = events_.adopt_last(event, is_orphan);
    std::shared_ptr<Arena> arena;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        const auto found = heap_.arenas().find(identity);
        // Another call may have noticed the stream's end before this report of it. The stream's orphans now wait for
        // this mark, not for the device.
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
        arena->has_ended = true;  // memory that other threads bring from now on goes behind the mark
        arena->is_orphan = is_orphan;
        arena->latest = std::move(mark);
    }
    end_arena(arena);
    const CallGuard inside(*this);  // close() waits for the memory in this call's hands
    events_.poll_others(identity, kAskedAtEnd);
}

// Puts the memory of an ended stream behind its last mark, for all streams. Where host memory is missing, the next call
// that puts everything together does it.
void Pool::end_arena(const std::shared_ptr<Arena>& arena) noexcept {
    try {
        caches_.flush([&arena](const Cache& cache) { return cache.arena == arena; }, true);
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
