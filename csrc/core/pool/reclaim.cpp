// SPDX-License-Identifier: MIT
// core/pool/reclaim.cpp: puts all free memory together: for calls that find none, and to give it back.
#include <algorithm>
#include <utility>

#include "pool.hpp"

namespace portamem::pool {
namespace {

constexpr std::size_t kStreamsAsked = 8;  // streams whose marks one look asks for
constexpr unsigned kMostVain = 6;         // looks in vain, after which the next 64 are skipped

}  // namespace

void Pool::flush_all_caches(bool for_good) {
    caches_.flush([](const Cache&) { return true; }, for_good);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    for (const auto& entry : heap_.arenas()) (void)heap_.dissolve(*entry.second);
}

void Pool::flush_own_streams() {
    caches_.flush([](const Cache& cache) { return cache.arena->is_per_thread; }, false, true);
}

// Whether the arena's stream is another thread's own and unmarked, and the pool is closed.
bool Pool::cannot_be_marked(const Arena& arena) {
    if (!arena.is_per_thread) return false;
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    return !arena.is_marked && is_closed();
}

// Marks the stream before it detaches, so that a stream that cannot be marked loses nothing, and a captured one finds
// its memory at hand. False where another thread frees on the stream too fast for that, and for memory that the host
// reaches, which no stream finds in its arena.
bool Pool::drain_behind_mark(const std::shared_ptr<Arena>& arena, void* stream) {
    if (needs_event_before_reuse()) return false;
    for (int attempt = 0; attempt < 3; ++attempt) {
        std::uint64_t seen = 0;
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (arena->is_empty()) return true;
            seen = arena->insertions;
        }
        MarkPtr mark;
        try {
            mark = stream != nullptr ? events_.mark_here(stream) : events_.mark_of(*arena);
        } catch (const Refused& refusal) {
            if (refusal.status != PORTAMEM_POOL_BUSY) throw;
            bool has_ended = false;
            {
                const std::lock_guard<std::mutex> lock(heap_.mutex());
                has_ended = arena->has_ended;
            }
            if (has_ended) end_arena(arena);
            return true;
        }
        Batches all = one_batch(arena->stream);
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (arena->insertions != seen || !arena->unmarked.empty()) continue;
            heap_.detach(*arena, all.front());
            events_.put_one_behind(mark, std::move(all));
        }
        return true;
    }
    return false;
}

// Moves everything that is free in an arena to the common arena, once the work before it has run. `stream`: the arena's
// own, for a call that names it; null otherwise.
void Pool::drain(const std::shared_ptr<Arena>& arena, bool waits, void* stream) {
    const bool is_sure = !waits || !cannot_be_marked(*arena);
    if (is_sure && drain_behind_mark(arena, stream)) return events_.drain(arena->stream, waits);
    Batches all = one_batch(arena->stream);
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        heap_.detach(*arena, all.front());
    }
    if (!all.front().empty()) {
        MarkPtr mark;
        try {
            if (!is_sure) {
                if (!events_.synchronize_device()) throw_refused(PORTAMEM_POOL_BUSY);  // only the whole device is sure
            } else {
                mark = stream != nullptr ? events_.mark_here(stream) : events_.mark_of(*arena);
            }
        } catch (const Refused& refusal) {
            events_.put_back(*arena, std::move(all));
            if (refusal.status != PORTAMEM_POOL_BUSY) throw;
        } catch (...) {
            events_.put_back(*arena, std::move(all));
            throw;
        }
        events_.put_behind(mark, std::move(all));
    }
    events_.drain(arena->stream, waits);
}

// Moves the orphans to the common arena, behind all work of the device.
void Pool::drain_orphans() {
    Batches all;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        all.swap(heap_.orphans());
    }
    if (all.empty()) return;
    if (events_.synchronize_device()) return events_.put_behind(nullptr, std::move(all));
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    heap_.orphans().splice(heap_.orphans().end(), all);
}

// Moves the memory that threads have freed on their own default streams, which only they can mark, to the common arena,
// behind all work of the device. False where there is none, or where the owner cannot wait for the device.
bool Pool::drain_own_streams() {
    const std::lock_guard<std::mutex> one(reclaim_);
    flush_own_streams();
    std::vector<std::shared_ptr<Arena>> arenas;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& entry : heap_.arenas()) {
            if (entry.second->is_per_thread) arenas.push_back(entry.second);
        }
    }
    std::vector<Batches> all;  // made before any memory is in them
    for (const auto& arena : arenas) all.push_back(one_batch(arena->stream));
    bool is_any = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (arenas[i]->has_ended) continue;
        try {
            heap_.detach(*arenas[i], all[i].front());
        } catch (
            const std::bad_alloc&) {  // this arena keeps its memory; that of the other arenas is ordered, or goes back
            continue;
        }
        is_any = is_any || !all[i].front().empty();
    }
    const bool has_run = is_any && events_.synchronize_device();
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (has_run) {
            events_.put_behind(nullptr, std::move(all[i]));
        } else {
            events_.put_back(*arenas[i], std::move(all[i]));
        }
    }
    if (has_run) join_common();
    return has_run;
}

bool Pool::reclaim(bool waits) {
    // Other calls that find no memory wait here for the transfers of this one. A policy that is asked now need not
    // wait.
    std::unique_lock<std::mutex> one(reclaim_, std::defer_lock);
    if (waits) {
        one.lock();
    } else if (!one.try_lock()) {
        return false;
    }
    flush_all_caches();
    std::vector<std::shared_ptr<Arena>> arenas;
    std::vector<std::uint64_t> waiting;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& entry : heap_.arenas()) {
            if (!entry.second->is_of_call || entry.second->has_ended) arenas.push_back(entry.second);
        }
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
            drain(arena, waits);
        }
    }
    if (waits) drain_orphans();
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& queue : heap_.waiting().queues()) waiting.push_back(queue.first);
    }
    for (const std::uint64_t stream : waiting) events_.drain(stream, waits);
    join_common();
    return true;
}

// Puts together what one stream has freed, which is waited for, and all else that has run. What is free on other
// streams, whose work has not, stays at hand there.
void Pool::reclaim_behind(std::uint64_t identity, void* stream) {
    const std::lock_guard<std::mutex> one(reclaim_);
    flush_all_caches();
    std::shared_ptr<Arena> own;
    std::vector<std::shared_ptr<Arena>> ended;
    std::vector<std::shared_ptr<Arena>> others;
    std::vector<std::uint64_t> waiting;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& entry : heap_.arenas()) {
            const Arena& arena = *entry.second;
            if (arena.has_ended) {
                ended.push_back(entry.second);
            } else if (entry.first == identity) {
                own = entry.second;
            } else if (!arena.is_of_call && !arena.is_per_thread) {
                others.push_back(entry.second);
            }
        }
    }
    for (const auto& arena : ended) end_arena(arena);
    if (own && !own->is_of_call) drain(own, true, stream);
    for (const auto& arena : others) {
        if (needs_event_before_reuse()) {
            drain(arena, false);
        } else {
            drain_if_idle(arena, false);
        }
    }
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& queue : heap_.waiting().queues()) waiting.push_back(queue.first);
    }
    for (const std::uint64_t queue : waiting) events_.drain(queue, queue == identity);
    join_common();
}

// Merges the common arena's memory into pieces as large as possible.
void Pool::join_common() {
    Batches all = one_batch(0);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    heap_.detach(heap_.common(), all.front());  // slabs that were not fully cut are from here on
    heap_.put(heap_.common(), std::move(all));
    (void)heap_.dissolve(heap_.common());
}

// ---- what is idle ----

// Moves the free memory of a stream whose work has run to the common arena. While work still runs the memory stays, and
// the stream finds it at once; if the call is urgent, the memory goes behind a mark for the next call that looks.
void Pool::drain_if_idle(const std::shared_ptr<Arena>& arena, bool is_urgent) {
    std::uint64_t seen = 0;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (arena->has_ended || arena->is_of_call || arena->is_empty()) return;
        seen = arena->insertions;
    }
    MarkPtr mark;
    try {
        mark = events_.mark_of(*arena);
    } catch (const Refused& refusal) {
        if (refusal.status != PORTAMEM_POOL_BUSY) throw;
        return;
    }
    if (!events_.has_happened(mark) && !is_urgent) return;
    Batches all = one_batch(arena->stream);
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (arena->has_ended || arena->insertions != seen || !arena->unmarked.empty()) return;
        heap_.detach(*arena, all.front());
        events_.put_one_behind(mark, std::move(all));
    }
    events_.drain(arena->stream, false);
}

// Gives back whole unused chunks until at most `keep` bytes are reserved. It waits for nothing. False where this look
// was in vain, or was skipped because too many were.
bool Pool::give_idle(const CallContext& context, std::size_t keep, bool is_urgent) {
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (growth_.looks_to_leave_out != 0) {
            --growth_.looks_to_leave_out;
            return false;
        }
    }
    std::size_t released = 0;
    if (!needs_event_before_reuse() && context.arena != nullptr) drain_if_idle(context.arena, is_urgent);
    join_common();
    released += upstream_.release(keep, false);
    std::vector<std::shared_ptr<Arena>> others;
    bool is_left = false;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        is_left = is_urgent && heap_.reserved() > keep;
        if (is_left && !needs_event_before_reuse()) {
            for (const auto& entry : heap_.arenas()) {
                if (entry.second != context.arena && !entry.second->is_per_thread) others.push_back(entry.second);
            }
        }
    }
    if (is_left) {
        flush_all_caches();
        for (const auto& arena : others) drain_if_idle(arena, is_urgent);
        events_.poll_others(context.identity, kStreamsAsked);
        join_common();
        released += upstream_.release(keep, false);
    }
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    growth_.vain = released != 0 ? 0 : std::min(growth_.vain + 1, kMostVain);
    growth_.looks_to_leave_out = growth_.vain == 0 ? 0 : 1U << growth_.vain;
    return released != 0;
}

}  // namespace portamem::pool
