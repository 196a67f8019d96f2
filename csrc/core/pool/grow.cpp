// SPDX-License-Identifier: MIT
// core/pool/grow.cpp: memory of the upstream: how much is asked for, and what is done where there is no more.
#include <algorithm>
#include <chrono>
#include <utility>

#include "../order/call.hpp"
#include "pool.hpp"

namespace portamem::pool {
namespace {

constexpr std::size_t kLeastChunk = std::size_t{2} << 20;
constexpr std::size_t kMostChunk = std::size_t{256} << 20;
constexpr std::size_t kChunkShare = 8;  // a chunk is this part of what the pool has already, or up to twice that,
constexpr std::size_t kRoomShare = 6;   // or has this part beside what is asked for
constexpr std::size_t kSlabShare = 16;  // of chunks for slabs this part,
constexpr std::size_t kLeftOver = 8;    // and of this part of its blocks more than they take
constexpr std::size_t kSpareShare = 6;  // on one stream, reserved may be this part more than what was out at once,
constexpr std::size_t kLeastSpare = std::size_t{4} << 20;  // or so much; on several, so many times as much
constexpr std::size_t kMostStreams = 4;                    // as there are streams, up to these
constexpr std::chrono::seconds kLongestWait{5};  // for memory that others move: an upstream may wait for who asks here
constexpr unsigned kMostLooks = 16;              // of a call, where something arrives each time,
constexpr unsigned kMostLooksInVain = 2;         // and where nothing does, but others have done something meanwhile

std::size_t power_of_two_from(std::size_t nbytes) {
    std::size_t power = 1;
    while (power < nbytes) power *= 2;
    return power;
}

}  // namespace

// Geometric, so that a pool of any size is made of few chunks, and little of it is not asked for. The fewer and larger,
// the more streams find large blocks in what is theirs, and the less they take from each other. For small blocks in powers
// of two, so that the next chunk is mostly of the size of the last: an upstream that prepares one ahead of time has the
// right one. For large ones a chunk has an eighth and kLeastChunk over at most when it is filled with them. Where what is
// free would do, were it in one piece, the pool is in pieces too small for that: the next one gets room for more.
std::size_t Pool::chunk_size(const CallContext& context, const Request& request) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    const std::size_t reserved = heap_.reserved();
    const std::size_t most = std::clamp(round_up(upstream_.shortage().nbytes / 2, 2 * kPage), 2 * kPage, kMostChunk);
    const std::size_t most_cut = request.is_small()
                                     ? power_of_two_from(reserved / kSlabShare)
                                     : power_of_two_from(most_cut_for(request) / 2 + 1);  // or it serves nobody
    const std::size_t share = std::min(
        most, std::clamp(std::min(most_cut, power_of_two_from(reserved / kChunkShare)), kLeastChunk, kMostChunk));
    if (request.index == kExact || request.stands_in() > kMostChunk) return request.need();
    const std::size_t blocks = std::max<std::size_t>(share / request.need(), 1) * request.need();
    const std::size_t fitting = std::min(share, round_up(blocks + blocks / kLeftOver, kLeastChunk));
    if (request.need() <= share / 2) return fitting;
    const std::size_t common = heap_.common().free;
    const std::size_t free = &own(context) == &heap_.common() ? common : common + own(context).free;
    std::size_t room = free < request.need() ? 0 : std::min(reserved / kRoomShare, kMostChunk);
    if (room >= request.need()) room -= room % request.need();  // or it would be left over itself
    return std::max(fitting, round_up(request.need() + room, kLeastChunk));
}

// The bytes that may be reserved, where chunks that nobody uses can go back instead.
std::size_t Pool::allowance(const Request& request) {
    const std::uint64_t nbytes = live_bytes();
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    growth_.most_live = std::max<std::size_t>(growth_.most_live, nbytes + request.size);
    const std::size_t streams = heap_.arenas().size();  // each keeps what was freed on it
    if (streams > 1) return std::min(streams, kMostStreams) * growth_.most_live + kLeastSpare;
    return growth_.most_live + std::max(growth_.most_live / kSpareShare, kLeastSpare);
}

// Before the pool becomes larger than what its blocks need: gives back what is idle, or takes a block out of what is there.
// Answers how many were taken; for none, nbytes is what the upstream is asked for.
unsigned Pool::keep_within(std::size_t allowed, std::size_t& nbytes, const CallContext& context, const Request& request,
                           Item* items, unsigned most) {
    const std::size_t least = request.need();
    const auto has = [this] {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        return heap_.reserved() + upstream_.transfers().nbytes;
    };
    std::size_t taken = has();
    if (taken != 0 && taken + least > allowed) {
        (void)give_idle(context, allowed > least ? allowed - least : 0, taken + least > 2 * allowed);
        if (const unsigned count = take(context, request, items, most); count != 0) return count;
        taken = has();
        if (taken + least > allowed) {
            if (const unsigned count = take_any(context, request, items, most); count != 0) return count;
        }
    }
    const std::size_t left = allowed > taken ? allowed - taken : 0;
    if (nbytes <= left) return 0;
    const std::size_t some = std::max({left, allowed / kSlabShare, kLeastChunk});  // few chunks are cut up less
    if (request.is_small() || 8 * least <= some) {
        nbytes = std::min(nbytes, power_of_two_from(some / 2 + 1));
    } else {
        nbytes = std::min(nbytes, std::max(some / least, std::size_t{1}) * least);
    }
    return 0;
}

unsigned Pool::grow(const CallContext& context, const Request& request, Item* items, unsigned most) {
    bool is_asked = false;
    const unsigned count = grow_with(is_asked, context, request, items, most);
    if (is_asked) misses_.fetch_add(1, std::memory_order_relaxed);
    return count;
}

// Before anybody is refused, memory that is on its way to the pool or from it has to arrive. And what other threads have
// taken and freed while the call waited for work was not waited for, or is in caches that had been emptied before: where
// there was such, everything is looked through again. Last of all, other pools give back what they keep idle of the same
// memory: one after the other, so that no more goes than is needed.
unsigned Pool::grow_with(bool& is_asked, const CallContext& context, const Request& request, Item* items,
                         unsigned most) {
    const auto until = std::chrono::steady_clock::now() + kLongestWait;
    TransferWait others(upstream_.transfers());
    OtherPools other_pools(*this);
    unsigned in_vain = 0;
    for (unsigned looks = 1;; ++looks) {
        const std::uint64_t before = calls_so_far();
        portamem_pool_status status = PORTAMEM_POOL_OK;
        if (const unsigned count = ask_upstream_and_grow(status, is_asked, context, request, items, most); count != 0)
            return count;
        const bool has_no_room = status == PORTAMEM_POOL_LIMIT || status == PORTAMEM_POOL_OUT_OF_MEMORY;
        if (!has_no_room || is_beyond_limit(request)) throw Refused{status, {}};
        const bool has_arrived = others.has_arrived(until, status == PORTAMEM_POOL_LIMIT);
        // One only: the upstream may have run code that has filled the cache.
        if (const unsigned count = take(context, request, items, 1); count != 0) return count;
        const bool is_late = looks == kMostLooks || std::chrono::steady_clock::now() >= until;
        const bool is_vain = !has_arrived && (calls_so_far() == before || ++in_vain > kMostLooksInVain);
        if (!is_late && !is_vain) continue;
        // A limit of this pool's own is none that other pools can help with.
        const bool may_help = status == PORTAMEM_POOL_OUT_OF_MEMORY || options_.limit == 0;
        if (!may_help || !other_pools.have_given_back()) throw Refused{status, {}};
    }
}

// Whether what is out leaves no room for it: nothing that others do but free can help.
bool Pool::is_beyond_limit(const Request& request) {
    if (options_.limit == 0) return false;
    const std::uint64_t nbytes = live_bytes();
    return nbytes >= options_.limit || request.size > options_.limit - nbytes;
}

// Allocations and frees that have ended, of all threads.
std::uint64_t Pool::calls_so_far() {
    const CacheSet::Totals totals = caches_.totals();
    return totals.allocated + totals.freed;
}

// Makes a chunk of the upstream's the pool's, and takes of it. Memory that may be used on one stream only is that
// stream's, or is waited for; any other is nobody's. Where the pool cannot take it, it goes back.
unsigned Pool::add_chunk(void* ptr, std::size_t nbytes, Upstream::Claim& claim, const CallContext& context,
                         const Request& request, Item* items, bool is_first) {
    const bool is_own = options_.stream_ordered != 0 && !needs_event_before_reuse() && context.arena != nullptr;
    const bool is_whole =
        request.index == kExact && reinterpret_cast<std::uintptr_t>(ptr) % kGrain == 0 && request.alignment <= kGrain;
    bool is_added = false;
    try {
        if (options_.stream_ordered != 0 && !is_own) {
            events_.synchronize_chunk(events_.mark_here(context.stream), ptr, nbytes);
        }
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (is_own && context.arena->has_ended) {
            throw Refused{PORTAMEM_POOL_INVALID, "the stream was closed during the call"};
        }
        Arena& arena = is_own ? *context.arena : heap_.common();
        if (is_whole) {
            heap_.add_exact_chunk(ptr, nbytes, arena, items[0]);
        } else {
            heap_.add_chunk(ptr, nbytes, arena, request.is_small());
        }
        claim.end();
        is_added = true;
        Upstream::Shortage& shortage = upstream_.shortage();
        if (is_first) shortage.cuts_all.store(false, std::memory_order_relaxed);
        if (shortage.nbytes <= kMostChunk) shortage.nbytes *= 2;  // others may have given back to the upstream
        // One only: the upstream may have run code that has filled the cache.
        return is_whole ? 1 : take_locked(own(context), request, items, 1);
    } catch (...) {
        if (!is_added) (void)upstream_.deallocate(ptr, nbytes);
        throw;
    }
}

// Asks the upstream for a chunk of nbytes, and for smaller ones down to what the request needs, until it has one. None
// taken and status OK: other threads were quicker, or the chunk is oddly aligned.
unsigned Pool::ask_upstream(portamem_pool_status& status, bool& is_asked, std::size_t nbytes,
                            const CallContext& context, const Request& request, Item* items, bool is_first) {
    const std::size_t least = request.need();
    for (;;) {
        status = PORTAMEM_POOL_OK;
        Upstream::Claim claim(upstream_, least, nbytes);  // others who grow meanwhile count this
        if (nbytes == 0) {
            status = PORTAMEM_POOL_LIMIT;
            return 0;
        }
        void* ptr = nullptr;
        is_asked = true;
        status = upstream_.allocate(nbytes, context.stream, &ptr);
        if (status == PORTAMEM_POOL_OUT_OF_MEMORY && nbytes > least) {
            nbytes = upstream_.next_smaller(nbytes, least);
            continue;
        }
        if (status == PORTAMEM_POOL_THROWN) throw_refused(status);
        if (status != PORTAMEM_POOL_OK) return 0;
        return add_chunk(ptr, nbytes, claim, context, request, items, is_first);
    }
}

// Where the upstream has no more: takes what is free anywhere in the pool. First without a wait of the CPU, then what
// the streams have once their work has run; last of all what only other threads can mark, which waits for the whole
// device. Whole chunks go back, so that the upstream can be asked again.
unsigned Pool::take_everywhere(const CallContext& context, const Request& request, Item* items, unsigned most) {
    upstream_.shortage().cuts_all.store(true, std::memory_order_relaxed);
    flush_all_caches();
    if (const unsigned count = take(context, request, items, most); count != 0) return count;
    if (!needs_event_before_reuse()) {
        if (const unsigned count = take_from_batches(context, request, items, most); count != 0) return count;
    }
    (void)reclaim(true);
    if (const unsigned count = take(context, request, items, most); count != 0) return count;
    if (drain_own_streams()) {
        if (const unsigned count = take(context, request, items, most); count != 0) return count;
    }
    (void)upstream_.release(0, false);
    return 0;
}

unsigned Pool::ask_upstream_and_grow(portamem_pool_status& status, bool& is_asked, const CallContext& context,
                                     const Request& request, Item* items, unsigned most) {
    std::size_t nbytes = chunk_size(context, request);
    if (request.index != kExact) {
        const unsigned count = keep_within(allowance(request), nbytes, context, request, items, most);
        if (count != 0) return count;
    }
    unsigned count = ask_upstream(status, is_asked, nbytes, context, request, items, true);
    if (count == 0) count = take_everywhere(context, request, items, most);
    if (count == 0) count = ask_upstream(status, is_asked, request.need(), context, request, items, false);
    if (count == 0 && status == PORTAMEM_POOL_OK) status = PORTAMEM_POOL_OUT_OF_MEMORY;
    return count;
}

}  // namespace portamem::pool
