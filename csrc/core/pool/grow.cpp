// SPDX-License-Identifier: MIT
// core/pool/grow.cpp: asks the upstream for memory: how much, and the steps where it has no more.
#include <algorithm>
#include <chrono>
#include <utility>

#include "pool.hpp"

namespace portamem::pool {
namespace {

constexpr std::size_t kLeastChunk = std::size_t{2} << 20;
constexpr std::size_t kMostChunk = std::size_t{256} << 20;
constexpr std::size_t kChunkShare = 8;  // a chunk has this part of the pool's bytes, or up to twice that,
constexpr std::size_t kRoomShare = 6;   // or this part beside the request
constexpr std::size_t kSlabShare = 16;  // a chunk for slabs has this part,
constexpr std::size_t kLeftOver = 8;    // and any chunk this part of its blocks' bytes on top of them
// On one stream, the reserved bytes may exceed the most bytes that were out at once by this part of those, or by
// kLeastSpare. On several streams they may be those bytes times the number of streams, kMostStreams at most, and
// kLeastSpare.
constexpr std::size_t kSpareShare = 6;
constexpr std::size_t kLeastSpare = std::size_t{4} << 20;
constexpr std::size_t kMostStreams = 4;
constexpr std::chrono::seconds kLongestWait{5};  // an upstream may itself wait for the thread that asks here
constexpr unsigned kMostLooks = 16;              // of one call, if memory arrives each time,
constexpr unsigned kMostLooksInVain = 2;  // and if none does, but other threads have allocated or freed meanwhile

std::size_t power_of_two_from(std::size_t nbytes) {
    std::size_t power = 1;
    while (power < nbytes) power *= 2;
    return power;
}

}  // namespace

// Chunks grow with the pool, so that there are few and little is reserved in vain; in large ones streams seldom need
// each other's memory. A chunk for slabs is a power of two. A chunk of large blocks has at most an eighth and
// kLeastChunk left over. If enough is free, but in pieces, the next has extra room.
std::size_t Pool::chunk_size(const CallContext& context, const Request& request) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    const std::size_t reserved = heap_.reserved();
    const std::size_t most = std::clamp(round_up(upstream_.shortage().nbytes / 2, 2 * kPage), 2 * kPage, kMostChunk);
    const std::size_t most_cut = request.is_small() ? power_of_two_from(reserved / kSlabShare)
                                                    // A larger chunk would not be cut for it.
                                                    : power_of_two_from(most_cut_for(request) / 2 + 1);
    const std::size_t share = std::min(
        most, std::clamp(std::min(most_cut, power_of_two_from(reserved / kChunkShare)), kLeastChunk, kMostChunk));
    if (request.index == kExact || request.stands_in() > kMostChunk) return request.need();
    const std::size_t blocks = std::max<std::size_t>(share / request.need(), 1) * request.need();
    const std::size_t fitting = std::min(share, round_up(blocks + blocks / kLeftOver, kLeastChunk));
    if (request.need() <= share / 2) return fitting;
    const std::size_t common = heap_.common().free;
    const std::size_t free = &own(context) == &heap_.common() ? common : common + own(context).free;
    std::size_t room = free < request.need() ? 0 : std::min(reserved / kRoomShare, kMostChunk);
    if (room >= request.need()) room -= room % request.need();  // otherwise it would be left over itself
    return std::max(fitting, round_up(request.need() + room, kLeastChunk));
}

// Returns the bytes that may be reserved before unused chunks go back instead.
std::size_t Pool::allowance(const Request& request) {
    const std::uint64_t nbytes = live_bytes();
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    growth_.most_live = std::max<std::size_t>(growth_.most_live, nbytes + request.size);
    const std::size_t streams = heap_.arenas().size();  // each stream keeps the memory freed on it
    if (streams > 1) return std::min(streams, kMostStreams) * growth_.most_live + kLeastSpare;
    return growth_.most_live + std::max(growth_.most_live / kSpareShare, kLeastSpare);
}

// Gives back idle memory, or takes free blocks, before the pool outgrows the need of its blocks. Returns how many
// blocks it took; if none, the caller asks the upstream for nbytes.
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
    const std::size_t some = std::max({left, allowed / kSlabShare, kLeastChunk});  // few large chunks are cut up less
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

// Asks the upstream, and looks again while memory arrives or other threads allocate and free: their memory was not
// waited for, or lies in caches that were emptied before. Transfers have to arrive before the call is refused. Last of
// all, other pools of the same memory give idle memory back, one after the other, so that no more goes than is needed.
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
        // Takes one block only, because the upstream may have run code that has filled the cache.
        if (const unsigned count = take(context, request, items, 1); count != 0) return count;
        const bool is_late = looks == kMostLooks || std::chrono::steady_clock::now() >= until;
        const bool is_vain = !has_arrived && (calls_so_far() == before || ++in_vain > kMostLooksInVain);
        if (!is_late && !is_vain) continue;
        // Other pools cannot help with a limit of this pool's own.
        const bool may_help = status == PORTAMEM_POOL_OUT_OF_MEMORY || limit() == 0;
        if (!may_help || !other_pools.have_given_back()) throw Refused{status, {}};
    }
}

// Whether live memory leaves no room for the request, so that only a free can help.
bool Pool::is_beyond_limit(const Request& request) {
    const std::size_t limit = upstream_.limit();
    if (limit == 0) return false;
    const std::uint64_t nbytes = live_bytes();
    return nbytes >= limit || request.size > limit - nbytes;
}

// Counts the allocations and frees of all threads that have ended.
std::uint64_t Pool::calls_so_far() {
    const CacheSet::Totals totals = caches_.totals();
    return totals.allocated + totals.freed;
}

// Adds a chunk of the upstream to the pool, and takes of it. Memory that only one stream may use goes to that stream's
// arena or is waited for; any other goes to the common arena. A chunk that cannot be added goes back to the upstream.
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
        if (shortage.nbytes <= kMostChunk) shortage.nbytes *= 2;  // the upstream may have got memory back meanwhile
        // Takes one block only, because the upstream may have run code that has filled the cache.
        return is_whole ? 1 : take_locked(own(context), request, items, 1);
    } catch (...) {
        if (!is_added) (void)upstream_.deallocate(ptr, nbytes);
        throw;
    }
}

// Asks the upstream for a chunk of nbytes, then for smaller ones down to the need of the request. A chunk has whole
// granules of the upstream, as far as limits leave room, unless it is cut to the byte. Returns 0 with status OK where
// other threads were quicker, or where the chunk is oddly aligned.
unsigned Pool::ask_upstream(portamem_pool_status& status, bool& is_asked, std::size_t nbytes,
                            const CallContext& context, const Request& request, Item* items, bool is_first) {
    const std::size_t least = request.need();
    if (request.index != kExact) nbytes = upstream_.whole(nbytes);
    for (;;) {
        status = PORTAMEM_POOL_OK;
        Upstream::Claim claim(upstream_, least, nbytes);  // other threads that grow meanwhile count this claim
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

// Takes memory that is free anywhere in the pool, because the upstream has no more. It looks first without a wait of
// the CPU, then waits for the streams, and last for the whole device, for memory that only other threads can mark.
// Whole chunks go back, so that the upstream can be asked again.
unsigned Pool::take_everywhere(const CallContext& context, const Request& request, Item* items, unsigned most) {
    upstream_.shortage().cuts_all.store(true, std::memory_order_relaxed);
    flush_all_caches();
    if (const unsigned count = take(context, request, items, most); count != 0) return count;
    if (!needs_event_before_reuse()) {
        if (const unsigned count = take_across_streams(context, request, items, most); count != 0) return count;
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
