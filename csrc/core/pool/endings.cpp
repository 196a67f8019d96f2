// SPDX-License-Identifier: MIT
// core/pool/endings.cpp: threads and streams that end: what they had goes to the others.
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
        // Its own stream ends with a thread.
        MarkPtr mark;
        bool is_orphan = !thread_has_own_streams() || cache->arena->is_marked_in_calls;
        try {
            if (!is_orphan) mark = events_.mark_of(*cache->arena);
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
    bool is_orphan = false;
    MarkPtr mark = events_.adopt_last(event, is_orphan);
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
    events_.poll_others(identity, kAskedAtEnd);
}

// Gives what an ended stream has to all, behind its last mark. Where host memory is missing for that, the next who puts
// everything together does it.
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
