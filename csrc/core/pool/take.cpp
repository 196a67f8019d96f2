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
    if (index == kExact) return nbytes + (alignment > kGrain ? alignment : 0);
    if (is_small()) return round_up(std::max<std::size_t>(8 * size, 2 * kPage) * 2 + kPage, 2 * kPage);
    return round_up(size + (alignment > kGrain ? alignment : 0), 2 * kPage);
}

// A block that is much smaller is not cut from a large one while there may be another place: of the upstream, or when
// more comes back. It would keep the large one from those who want that much in one piece.
std::size_t Pool::most_cut_for(const Ask& ask) noexcept {
    if (ask.index == kExact || cuts_all_.load(std::memory_order_relaxed)) return SIZE_MAX;
    if (ask.is_small()) return heap_.reserved() <= kFewBytes ? kLeastCut : 0;
    return std::max({kLeastCut, heap_.reserved() / kCutShare, kCutTimes * ask.need()});
}

unsigned Pool::take_locked(Arena& own, const Ask& ask, Item* items, unsigned most, bool cuts_all) {
    const std::size_t most_cut = cuts_all ? SIZE_MAX : most_cut_for(ask);
    // An arena that has ended may go with this call, and would take with it what is cut up for it.
    Arena& from = own.has_ended ? heap_.common() : own;
    if (ask.is_small()) return heap_.take(from, ask.index, items, most, most_cut);
    const auto take_from = [&](Arena& arena) {
        if (ask.index == kExact) return heap_.take_exact_from(arena, ask.size, ask.alignment, items[0]);
        return heap_.take_large_from(arena, ask.size, ask.index, ask.alignment, items[0], most_cut);
    };
    const bool may_be_kept = is_kept(ask.index) && ask.alignment <= kGrain;
    const unsigned count = may_be_kept ? heap_.take_kept(from, ask.index, items, most) : 0;
    if (count != 0) return count;
    // Of those that threads share a little larger one serves as well, which costs less than to have one cut.
    const unsigned above = may_be_kept && is_shared(ask.index) ? std::min(ask.index + kMostAbove, kClasses - 1) : 0;
    for (unsigned serving = ask.index + 1; serving <= above; ++serving) {
        if (heap_.take_kept(from, serving, items, 1) != 0) return 1;
    }
    // One only: each is cut by itself, and what a call does for others is in its own time.
    if (take_from(from)) return 1;
    if (from.unmerged.nbytes != 0 && heap_.merge_larger(from, ask.stands_in(), kLargestKept) && take_from(from))
        return 1;
    if (&from != &heap_.common() && take_from(heap_.common())) return 1;
    if (from.shared.nbytes == 0) return 0;
    return heap_.merge_larger(from, ask.stands_in(), std::min(most_cut, kLargestCached)) && take_from(from) ? 1 : 0;
}

unsigned Pool::take(const Place& place, const Ask& ask, Item* items, unsigned most, bool cuts_all) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    return take_locked(own(place), ask, items, most, cuts_all);
}

// Where there is no other place, also for those who come next, until there is: memory has gone back to the upstream.
unsigned Pool::take_any(const Place& place, const Ask& ask, Item* items, unsigned most) {
    const unsigned count = take(place, ask, items, most, true);
    if (count != 0) cuts_all_.store(true, std::memory_order_relaxed);
    return count;
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
    if (is_captured(place.stream)) {
        if (const unsigned count = take(place, ask, items, most, true); count != 0) return count;
        throw Refused{PORTAMEM_POOL_INVALID, kCaptured};
    }
    if (!defers()) {
        if (const unsigned count = pass_on(place, ask, items); count != 0) return count;
    }
    if (defers() && place.cache != nullptr) flush_pending(place);
    poll(place);
    if (const unsigned count = take(place, ask, items, most); count != 0) return count;
    if (!defers()) {
        if (const unsigned count = take_over(place, ask, items, most); count != 0) {
            // Streams that have to take from each other had better cut what they have.
            cuts_all_.store(true, std::memory_order_relaxed);
            return count;
        }
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
