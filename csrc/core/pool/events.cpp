// SPDX-License-Identifier: MIT
// core/pool/events.cpp: events of streams: made, asked for, and what is to be behind them.
#include <algorithm>
#include <new>
#include <utility>

#include "../order/call.hpp"
#include "pool.hpp"

namespace portamem::pool {
namespace {

constexpr unsigned kMostAsked = 32;  // streams whose events are asked for by one call

}  // namespace

MarkPtr Pool::make_mark(void* event) {
    marks_.fetch_add(1, std::memory_order_relaxed);
    if (event == nullptr) return nullptr;
    try {
        return std::make_shared<Mark>(events_back_, event);
    } catch (...) {
        ops_.drop(self_, event);
        throw;
    }
}

MarkPtr Pool::mark_here(void* stream) {
    void* event = nullptr;
    if (const int status = ops_.mark(self_, nullptr, stream, &event); status != PORTAMEM_POOL_OK) thrown(status);
    return make_mark(event);
}

// Now, on the stream itself; behind the latest mark where only another thread could make one.
MarkPtr Pool::mark_of(Arena& arena) {
    void* event = nullptr;
    const int status =
        arena.is_marked_in_calls ? int{PORTAMEM_POOL_BUSY} : ops_.mark(self_, arena.ref, nullptr, &event);
    if (status == PORTAMEM_POOL_OK) return make_mark(event);
    if (status == PORTAMEM_POOL_BUSY) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if ((arena.has_ended && !arena.is_orphan) || (arena.is_per_thread && arena.is_marked)) return arena.latest;
    }
    if (status == PORTAMEM_POOL_GONE) {  // whoever puts everything together waits for the device instead
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (arena.has_ended && !arena.is_orphan) return arena.latest;
        arena.has_ended = arena.is_orphan = true;
        throw Refused{PORTAMEM_POOL_BUSY, {}};
    }
    thrown(status);
}

// ---- asked for ----

// What a stream has waiting longest is nobody's where its event has happened.
bool Pool::poll_one(std::uint64_t stream) {
    MarkPtr mark;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (!heap_.waiting().oldest(stream, mark)) return false;
    }
    const int done = mark == nullptr ? 1 : ops_.query(self_, mark->event());
    if (done < 0) thrown(PORTAMEM_POOL_THROWN);
    if (done == 0) return false;
    give_happened(stream, mark);
    return true;
}

// What a stream has waiting behind an event that has happened is nobody's. It is settled by the event for the order
// checker, which learns nothing else: the program has not asked.
void Pool::give_happened(std::uint64_t stream, const MarkPtr& mark) {
    if (ops_.happened == nullptr || mark == nullptr || !order::is_on()) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        return heap_.give_happened(stream, mark);
    }
    std::vector<portamem_order_range> ranges;
    Batches told;  // out of the queue while it is told of: meanwhile others may free more behind the same event
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        ranges = heap_.ranges_behind(stream, mark);
        heap_.take_happened(stream, mark, told);
    }
    ops_.happened(self_, mark->event(), ranges.data(), ranges.size());
    put_behind(nullptr, std::move(told));
}

// The stream's own events, and some other streams' by turns. Each stream is asked until one has not happened.
void Pool::poll(const CallContext& context) {
    while (poll_one(context.identity)) {
    }
    poll_others(context.identity, kMostAsked);
}

void Pool::poll_others(std::uint64_t own, std::size_t most) {
    for (std::size_t asked = 0; asked < most; ++asked) {
        std::uint64_t stream = 0;
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (asked == 0) most = std::min(most, heap_.waiting().streams());
            stream = heap_.waiting().next();
        }
        if (stream == own) continue;
        while (poll_one(stream)) {
        }
    }
}

// ---- what is behind them ----

// Null: nothing to wait for.
void Pool::put_behind(const MarkPtr& mark, Batches&& batches) noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    while (!batches.empty()) {
        Batches one;
        one.splice(one.end(), batches, batches.begin());
        if (mark == nullptr) {
            heap_.put(heap_.common(), std::move(one));
        } else if (!one.front().empty()) {
            one.front().mark = mark;
            heap_.waiting().add(std::move(one));
        }
    }
}

// What could not be ordered goes back to where it was.
void Pool::put_back(Arena& arena, Batches&& batches) noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    while (!batches.empty()) {
        Batches one;
        one.splice(one.end(), batches, batches.begin());
        if (!needs_event_before_reuse() || arena.has_ended) {
            heap_.put(arena, std::move(one));
        } else if (!one.front().empty()) {
            arena.unmarked.splice(arena.unmarked.end(), one);
        }
    }
}

// Puts what waits for an event behind one. Throws Refused and std::bad_alloc: then it waits still.
void Pool::mark_unmarked(Arena& arena) {
    Batches late;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        late.splice(late.end(), arena.unmarked);
    }
    if (late.empty()) return;
    MarkPtr mark;
    try {
        mark = mark_of(arena);
    } catch (...) {
        put_back(arena, std::move(late));
        throw;
    }
    put_behind(mark, std::move(late));
}

// What host memory was missing for may have it now. Under the heap's lock.
void Pool::retry_unmarked(const CallContext& context) noexcept {
    if (needs_event_before_reuse() || context.arena == nullptr || context.arena->has_ended) return;
    try {
        for (Batches& unmarked = context.arena->unmarked; !unmarked.empty(); unmarked.pop_front()) {
            heap_.give(*context.arena, unmarked.front());
        }
    } catch (const std::bad_alloc&) {
        return;
    }
}

}  // namespace portamem::pool
