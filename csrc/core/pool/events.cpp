// SPDX-License-Identifier: MIT
// core/pool/events.cpp: makes events of streams, asks for them, and puts memory behind them.
#include "events.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "../order/call.hpp"
#include "refused.hpp"

namespace portamem::pool {
namespace {

constexpr std::size_t kMostAsked = 32;  // streams whose marks one call asks for

}  // namespace

MarkPtr EventQueue::make_mark(void* event) {
    marks_.fetch_add(1, std::memory_order_relaxed);
    if (event == nullptr) return nullptr;
    try {
        return std::make_shared<Mark>(back_, event);
    } catch (...) {
        callbacks_.ops.drop(callbacks_.self, event);
        throw;
    }
}

MarkPtr EventQueue::mark_here(void* stream) {
    void* event = nullptr;
    if (const int status = callbacks_.ops.mark(callbacks_.self, nullptr, stream, &event); status != PORTAMEM_POOL_OK)
        throw_refused(status);
    return make_mark(event);
}

MarkPtr EventQueue::mark_of(Arena& arena) {
    void* event = nullptr;
    const int status = arena.is_marked_in_calls ? int{PORTAMEM_POOL_BUSY}
                                                : callbacks_.ops.mark(callbacks_.self, arena.ref, nullptr, &event);
    if (status == PORTAMEM_POOL_OK) return make_mark(event);
    if (status == PORTAMEM_POOL_BUSY) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if ((arena.has_ended && !arena.is_orphan) || (arena.is_per_thread && arena.is_marked)) return arena.latest;
    }
    if (status == PORTAMEM_POOL_GONE) {  // a call that puts everything together waits for the device instead
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (arena.has_ended && !arena.is_orphan) return arena.latest;
        arena.has_ended = arena.is_orphan = true;
        throw Refused{PORTAMEM_POOL_BUSY, {}};
    }
    throw_refused(status);
}

MarkPtr EventQueue::adopt_last(void* event, bool& is_orphan) {
    is_orphan = false;
    if (event == nullptr) return nullptr;
    try {
        MarkPtr mark = std::make_shared<Mark>(back_, event);
        marks_.fetch_add(1, std::memory_order_relaxed);
        return mark;
    } catch (const std::bad_alloc&) {
        is_orphan = callbacks_.ops.synchronize(callbacks_.self, event) != PORTAMEM_POOL_OK;
        callbacks_.ops.drop(callbacks_.self, event);
        return nullptr;
    }
}

void EventQueue::wait(void* stream, const MarkPtr& mark) {
    if (mark == nullptr) return;
    const int status = callbacks_.ops.wait(callbacks_.self, stream, mark->event());
    if (status != PORTAMEM_POOL_OK) throw_refused(status);
}

void EventQueue::synchronize(const MarkPtr& mark) {
    if (mark == nullptr) return;
    const int status = callbacks_.ops.synchronize(callbacks_.self, mark->event());
    if (status != PORTAMEM_POOL_OK) throw_refused(PORTAMEM_POOL_THROWN);
}

bool EventQueue::has_happened(const MarkPtr& mark) {
    const int done = mark == nullptr ? 1 : callbacks_.ops.query(callbacks_.self, mark->event());
    if (done < 0) throw_refused(PORTAMEM_POOL_THROWN);
    return done != 0;
}

bool EventQueue::synchronize_device() {
    return callbacks_.ops.synchronize(callbacks_.self, nullptr) == PORTAMEM_POOL_OK;
}

void EventQueue::synchronize_chunk(const MarkPtr& mark, void* ptr, std::size_t nbytes) {
    synchronize(mark);
    if (mark == nullptr || callbacks_.ops.happened == nullptr || !order::is_on()) return;
    const portamem_order_range chunk{ptr, nbytes};
    callbacks_.ops.happened(callbacks_.self, mark->event(), &chunk, 1);
}

// ---- what waits behind marks ----

bool EventQueue::poll_one(std::uint64_t stream) {
    MarkPtr mark;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (!heap_.waiting().oldest(stream, mark)) return false;
    }
    if (!has_happened(mark)) return false;
    give_happened(stream, mark);
    return true;
}

// The order checker learns of the event here, because the program has not asked for it.
void EventQueue::give_happened(std::uint64_t stream, const MarkPtr& mark) {
    if (callbacks_.ops.happened == nullptr || mark == nullptr || !order::is_on()) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        return heap_.give_happened(stream, mark);
    }
    std::vector<portamem_order_range> ranges;
    Batches told;  // not in the queue while the checker is told: other threads may free more behind the same mark
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        ranges = heap_.ranges_behind(stream, mark);
        heap_.take_happened(stream, mark, told);
    }
    callbacks_.ops.happened(callbacks_.self, mark->event(), ranges.data(), ranges.size());
    put_behind(nullptr, std::move(told));
}

void EventQueue::poll(std::uint64_t stream) {
    while (poll_one(stream)) {
    }
    poll_others(stream, kMostAsked);
}

void EventQueue::poll_others(std::uint64_t own, std::size_t most) {
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

void EventQueue::drain(std::uint64_t stream, bool waits) {
    std::size_t left = 0;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        const Batches* const queue = heap_.waiting().queue_of(stream);
        left = queue == nullptr ? 0 : queue->size();
    }
    while (left != 0 && poll_one(stream)) --left;
    for (MarkPtr mark; waits && left != 0; --left) {
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (!heap_.waiting().oldest(stream, mark)) return;
        }
        synchronize(mark);
        give_happened(stream, mark);
    }
}

void EventQueue::put_one_behind(const MarkPtr& mark, Batches&& one) noexcept {
    if (mark == nullptr) {
        heap_.put(heap_.common(), std::move(one));
    } else if (!one.front().empty()) {
        one.front().mark = mark;
        heap_.waiting().add(std::move(one));
    }
}

void EventQueue::put_behind(const MarkPtr& mark, Batches&& batches) noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    while (!batches.empty()) {
        Batches one;
        one.splice(one.end(), batches, batches.begin());
        put_one_behind(mark, std::move(one));
    }
}

void EventQueue::put_back(Arena& arena, Batches&& batches) noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    while (!batches.empty()) {
        Batches one;
        one.splice(one.end(), batches, batches.begin());
        if (!needs_event_ || arena.has_ended) {
            heap_.put(arena, std::move(one));
        } else if (!one.front().empty()) {
            arena.add_unmarked(std::move(one));
        }
    }
}

std::uint64_t EventQueue::latest_unmarked(const Arena& arena) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    return arena.latest_unmarked;
}

void EventQueue::put_unmarked_behind(const MarkPtr& mark, Arena& arena, std::uint64_t latest) noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    while (!arena.unmarked.empty() && arena.unmarked.front().number <= latest) {
        Batches one;
        one.splice(one.end(), arena.unmarked, arena.unmarked.begin());
        put_one_behind(mark, std::move(one));
    }
}

void EventQueue::mark_unmarked(Arena& arena) {
    std::uint64_t latest = 0;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (arena.unmarked.empty()) return;
        latest = arena.latest_unmarked;
    }
    put_unmarked_behind(mark_of(arena), arena, latest);
}

void EventQueue::retry_unmarked(Arena& arena) noexcept {
    if (needs_event_ || arena.has_ended) return;
    try {
        for (Batches& unmarked = arena.unmarked; !unmarked.empty(); unmarked.pop_front()) {
            heap_.give(arena, unmarked.front());
        }
    } catch (const std::bad_alloc&) {
        return;
    }
}

}  // namespace portamem::pool
