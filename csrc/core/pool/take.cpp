// SPDX-License-Identifier: MIT
// core/pool/take.cpp: where memory is looked for: on the stream, where nobody uses it, on other streams, upstream.
#include <algorithm>
#include <utility>

#include "pool.hpp"

namespace portamem::pool {
namespace {

constexpr const char* kCaptured =
    "the pool has no block at hand for a stream that is captured, and allocating more is forbidden meanwhile: allocate "
    "once before the capture";

}  // namespace

// A slab of any class fits into 2 MiB, wherever its pages begin.
std::size_t Pool::Ask::stands_in() const noexcept {
    return is_small() ? std::size_t{2} << 20 : size + (alignment > kGrain ? alignment : 0);
}

std::size_t Pool::Ask::need() const noexcept {
    if (is_small()) return round_up(std::max<std::size_t>(8 * size, 2 * kPage) * 2 + kPage, 2 * kPage);
    return round_up(size + (alignment > kGrain ? alignment : 0), 2 * kPage);
}

unsigned Pool::take_locked(Arena& own, const Ask& ask, Item* items, unsigned most) {
    // An arena that has ended may go with this call, and would take with it what is cut up for it.
    Arena& from = own.has_ended ? heap_.common() : own;
    if (ask.is_small()) return heap_.take(from, ask.index, items, most);
    const bool may_be_kept = is_kept(ask.index) && ask.alignment <= kGrain;
    const unsigned count = may_be_kept ? heap_.take_kept(from, ask.index, items, most) : 0;
    if (count != 0) return count;
    // One only: each is cut by itself, and what a call does for others is in its own time.
    if (heap_.take_large_from(from, ask.size, ask.index, ask.alignment, items[0])) return 1;
    if (from.unmerged != 0 && heap_.merge_larger(from, ask.stands_in()) &&
        heap_.take_large_from(from, ask.size, ask.index, ask.alignment, items[0])) {
        return 1;
    }
    if (&from == &heap_.common()) return 0;
    return heap_.take_large_from(heap_.common(), ask.size, ask.index, ask.alignment, items[0]) ? 1 : 0;
}

unsigned Pool::take(const Place& place, const Ask& ask, Item* items, unsigned most) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    return take_locked(own(place), ask, items, most);
}

unsigned Pool::take_with_calls(const Place& place, const Ask& ask, Item* items, unsigned most) {
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        retry_aside(place);
        const bool own_dissolved = heap_.dissolve(own(place));
        if (heap_.dissolve(heap_.common()) || own_dissolved) {
            if (const unsigned count = take_locked(own(place), ask, items, most); count != 0) return count;
        }
    }
    refuse_captured(place.stream, kCaptured);
    if (!defers()) {
        if (const unsigned count = pass_on(place, ask, items); count != 0) return count;
    }
    if (defers() && place.cache != nullptr) flush_pending(place);
    poll(place);
    if (const unsigned count = take(place, ask, items, most); count != 0) return count;
    if (!defers()) {
        if (const unsigned count = take_over(place, ask, items, most); count != 0) return count;
    }
    return gather(place, ask, items, most);
}

// What the calling thread's own cache has, put together with what is free on the stream and with what nobody uses: blocks
// of sizes that are wanted no more become those that are. No call of the runtime where the stream is not the thread's own.
unsigned Pool::gather(const Place& place, const Ask& ask, Item* items, unsigned most) {
    if (place.cache != nullptr && place.cache->cached.get() != 0) {
        bool is_marked = false;
        MarkPtr mark = defers() ? nullptr : mark_of_own(place, is_marked);
        const Entered entered(*this, *place.cache);
        empty(*place.cache);
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (is_marked && !place.arena->has_ended) {
            place.arena->latest = std::move(mark);
            place.arena->is_marked = true;
        }
    }
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    Arena& from = own(place);
    if (from.has_ended) return 0;
    heap_.cut_up(from);
    (void)heap_.dissolve(from);
    if (const unsigned count = take_locked(own(place), ask, items, most); count != 0) return count;
    if (&from == &heap_.common() || !heap_.join_common(from, ask.stands_in())) return 0;
    from.is_marked = false;
    return take_locked(own(place), ask, items, most);
}

}  // namespace portamem::pool
