// SPDX-License-Identifier: MIT
// core/pool/take.cpp: looks for memory on the stream, in the common arena and on other streams.
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
std::size_t Pool::Request::stands_in() const noexcept {
    return is_small() ? std::size_t{2} << 20 : size + (alignment > kGrain ? alignment : 0);
}

std::size_t Pool::Request::need() const noexcept {
    if (index == kExact) return nbytes + (alignment > kGrain ? alignment : 0);
    if (is_small()) return round_up(std::max<std::size_t>(8 * size, 2 * kPage) * 2 + kPage, 2 * kPage);
    return round_up(size + (alignment > kGrain ? alignment : 0), 2 * kPage);
}

// Returns the bytes of the largest free block that a request may cut. A much smaller block is not cut from a large one
// while memory may come from the upstream or come back, because that would keep the large one from requests of its
// size.
std::size_t Pool::most_cut_for(const Request& request) noexcept {
    if (request.index == kExact || upstream_.shortage().cuts_all.load(std::memory_order_relaxed)) return SIZE_MAX;
    if (request.is_small()) return heap_.reserved() <= kFewBytes ? kLeastCut : 0;
    return std::max({kLeastCut, heap_.reserved() / kCutShare, kCutTimes * request.need()});
}

unsigned Pool::take_locked(Arena& own, const Request& request, Item* items, unsigned most, bool cuts_all) {
    // An arena that has ended may go with this call, and would take the memory cut up for the call with it.
    Arena& from = own.has_ended ? heap_.common() : own;
    const bool may_be_kept = is_kept(request.index) && request.alignment <= kGrain;
    if (may_be_kept) {
        if (const unsigned count = heap_.take_kept(from, request.index, items, most); count != 0) return count;
    }
    const std::size_t most_cut = cuts_all ? SIZE_MAX : most_cut_for(request);
    if (request.is_small()) return heap_.take(from, request.index, items, most, most_cut);
    const auto take_from = [&](Arena& arena) {
        if (request.index == kExact) return heap_.take_exact_from(arena, request.size, request.alignment, items[0]);
        return heap_.take_large_from(arena, request.size, request.index, request.alignment, items[0], most_cut);
    };
    // A shared class is also served by a slightly larger block, which costs less than cutting one.
    const unsigned above =
        may_be_kept && is_shared(request.index) ? std::min(request.index + kMostAbove, kClasses - 1) : 0;
    for (unsigned serving = request.index + 1; serving <= above; ++serving) {
        if (heap_.take_kept(from, serving, items, 1) != 0) return 1;
    }
    // Takes one block only: each is cut by itself, and this call would pay for other calls.
    if (take_from(from)) return 1;
    if (from.unmerged.nbytes != 0 && heap_.merge_larger(from, request.stands_in(), kLargestKept) && take_from(from))
        return 1;
    if (&from != &heap_.common() && take_from(heap_.common())) return 1;
    if (from.shared.nbytes == 0) return 0;
    return heap_.merge_larger(from, request.stands_in(), std::min(most_cut, kLargestCached)) && take_from(from) ? 1 : 0;
}

unsigned Pool::take(const CallContext& context, const Request& request, Item* items, unsigned most, bool cuts_all) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    return take_locked(own(context), request, items, most, cuts_all);
}

// Takes from free blocks of any size. Success means that there is no other place: later calls do the same until memory
// goes back to the upstream.
unsigned Pool::take_any(const CallContext& context, const Request& request, Item* items, unsigned most) {
    const unsigned count = take(context, request, items, most, true);
    if (count != 0) upstream_.shortage().cuts_all.store(true, std::memory_order_relaxed);
    return count;
}

unsigned Pool::take_with_calls(const CallContext& context, const Request& request, Item* items, unsigned most) {
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (context.arena != nullptr) events_.retry_unmarked(*context.arena);
        const bool own_dissolved = heap_.dissolve(own(context));
        if (heap_.dissolve(heap_.common()) || own_dissolved) {
            if (const unsigned count = take_locked(own(context), request, items, most); count != 0) return count;
        }
    }
    if (is_captured(context.stream)) {
        if (const unsigned count = take(context, request, items, most, true); count != 0) return count;
        throw Refused{PORTAMEM_POOL_INVALID, kCaptured};
    }
    if (!needs_event_before_reuse()) {
        if (const unsigned count = take_from_idle_cache(context, request, items); count != 0) return count;
    }
    if (needs_event_before_reuse() && context.cache != nullptr) flush_pending(context);
    events_.poll(context.identity);
    if (const unsigned count = take(context, request, items, most); count != 0) return count;
    if (!needs_event_before_reuse()) {
        if (const unsigned count = take_across_streams(context, request, items, most); count != 0) {
            // Streams that have to take from each other had better cut the large blocks that they have.
            upstream_.shortage().cuts_all.store(true, std::memory_order_relaxed);
            return count;
        }
    }
    return merge_own(context, request, items, most);
}

// Merges the memory of the thread's own cache with the free memory of the stream and of the common arena: blocks of
// sizes that are no longer wanted become other sizes. It calls the runtime only where the stream is the thread's own.
unsigned Pool::merge_own(const CallContext& context, const Request& request, Item* items, unsigned most) {
    if (context.cache != nullptr && context.cache->cached.get() != 0) {
        bool is_marked = false;
        MarkPtr mark = needs_event_before_reuse() ? nullptr : mark_of_own(context, is_marked);
        const CacheLock entered(caches_, *context.cache);
        caches_.empty(*context.cache);
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (is_marked && !context.arena->has_ended) {
            context.arena->latest = std::move(mark);
            context.arena->is_marked = true;
        }
    }
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    Arena& from = own(context);
    if (from.has_ended) return 0;
    heap_.cut_up(from);
    (void)heap_.dissolve(from);
    if (const unsigned count = take_locked(own(context), request, items, most); count != 0) return count;
    if (&from == &heap_.common() || !heap_.join_common(from, request.stands_in())) return 0;
    from.is_marked = false;
    return take_locked(own(context), request, items, most);
}

}  // namespace portamem::pool
