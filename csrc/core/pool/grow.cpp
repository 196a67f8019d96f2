// SPDX-License-Identifier: MIT
// core/pool/grow.cpp: memory of the upstream: how much is asked for, and what is done where there is no more.
#include <algorithm>
#include <chrono>
#include <utility>

#include "../order/call.hpp"
#include "pool.hpp"
#include "transfer.hpp"

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
    const std::size_t most = std::clamp(round_up(refused_ / 2, 2 * kPage), 2 * kPage, kMostChunk);
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
    std::uint64_t blocks = 0;
    std::uint64_t nbytes = 0;
    live(blocks, nbytes);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    most_live_ = std::max<std::size_t>(most_live_, nbytes + request.size);
    const std::size_t streams = heap_.arenas().size();  // each keeps what was freed on it
    if (streams > 1) return std::min(streams, kMostStreams) * most_live_ + kLeastSpare;
    return most_live_ + std::max(most_live_ / kSpareShare, kLeastSpare);
}

// Before the pool becomes larger than what its blocks need: gives back what is idle, or takes a block out of what is there.
// Answers how many were taken; for none, nbytes is what the upstream is asked for.
unsigned Pool::keep_within(std::size_t allowed, std::size_t& nbytes, const CallContext& context, const Request& request,
                           Item* items, unsigned most) {
    const std::size_t least = request.need();
    const auto has = [this] {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        return heap_.reserved() + transfers_.nbytes;
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

// Half as much where the upstream had not so much, and the next chunks are as small from the start, until memory has gone
// back: what it has left is used up in few pieces, and in few calls.
std::size_t Pool::next_smaller(std::size_t nbytes, std::size_t least) {
    const std::size_t half = std::max(least, round_up(nbytes / 2, 2 * kPage));
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    refused_ = std::min(refused_, nbytes);
    return half < nbytes ? half : least;
}

portamem_pool_status Pool::ask_upstream(std::size_t nbytes, const CallContext& context, void** ptr) {
    return static_cast<portamem_pool_status>(ops_.allocate(self_, nbytes, context.stream, ptr));
}

// Bytes that the upstream is being asked for: room under the limits is checked and taken in one step. nbytes becomes what
// there is room for, or 0 where that is not enough.
class Pool::UpstreamClaim {
  public:
    UpstreamClaim(Pool& pool, std::size_t least, std::size_t& nbytes) : pool_(pool), transfer_(pool) {
        const std::size_t limit = pool.options_.limit;
        {
            const std::lock_guard<std::mutex> lock(pool.heap_.mutex());
            if (limit != 0) {
                const std::size_t taken = pool.heap_.reserved() + pool.transfers_.nbytes;
                const std::size_t left = limit > taken ? limit - taken : 0;
                nbytes = left < least ? 0 : std::min(nbytes, std::max(least, left & ~(kGrain - 1)));
            }
            if (nbytes != 0) transfer_.begin(nbytes);
        }
        if (nbytes == 0 || pool.ops_.claim == nullptr) return;
        const int status = pool.ops_.claim(pool.self_, least, &nbytes);
        if (status == PORTAMEM_POOL_OK) {
            claimed_ = nbytes;
            return;
        }
        nbytes = 0;
        give_up();
        if (status != PORTAMEM_POOL_LIMIT) thrown(status);
    }
    ~UpstreamClaim() { give_up(); }
    /// They are reserved now. Under the heap's lock.
    void end() noexcept {
        transfer_.end(true);
        claimed_ = 0;
    }
    UpstreamClaim(const UpstreamClaim&) = delete;
    UpstreamClaim& operator=(const UpstreamClaim&) = delete;

  private:
    void give_up() noexcept {
        if (claimed_ != 0) pool_.ops_.unclaim(pool_.self_, std::exchange(claimed_, 0));
        const std::lock_guard<std::mutex> lock(pool_.heap_.mutex());
        transfer_.end(false);
    }

    Pool& pool_;
    Transfer transfer_;
    std::size_t claimed_ = 0;
};

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
    TransferWait others(*this);
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
    std::uint64_t blocks = 0;
    std::uint64_t nbytes = 0;
    live(blocks, nbytes);
    return nbytes >= options_.limit || request.size > options_.limit - nbytes;
}

// Allocations and frees that have ended, of all threads.
std::uint64_t Pool::calls_so_far() {
    const std::lock_guard<std::mutex> lock(registry_);
    std::uint64_t calls = hits_.load(std::memory_order_relaxed) + frees_.load(std::memory_order_relaxed);
    for (const auto& cache : caches_) calls += cache->hits.get() + cache->frees.get();
    return calls;
}

unsigned Pool::ask_upstream_and_grow(portamem_pool_status& status, bool& is_asked, const CallContext& context,
                                     const Request& request, Item* items, unsigned most) {
    const std::size_t least = request.need();
    for (int attempt = 0; attempt < 2; ++attempt) {
        std::size_t nbytes = attempt != 0 ? least : chunk_size(context, request);
        if (attempt == 0 && request.index != kExact) {
            const unsigned count = keep_within(allowance(request), nbytes, context, request, items, most);
            if (count != 0) return count;
        }
        while (true) {
            status = PORTAMEM_POOL_OK;
            UpstreamClaim claim(*this, least, nbytes);  // others who grow meanwhile count this
            if (nbytes == 0) {
                status = PORTAMEM_POOL_LIMIT;
                break;
            }
            void* ptr = nullptr;
            is_asked = true;
            status = ask_upstream(nbytes, context, &ptr);
            if (status == PORTAMEM_POOL_OUT_OF_MEMORY && nbytes > least) {
                nbytes = next_smaller(nbytes, least);
                continue;
            }
            if (status == PORTAMEM_POOL_THROWN) thrown(status);
            if (status != PORTAMEM_POOL_OK) break;
            // Memory that may be used on one stream only is that one's, or is waited for; any other is nobody's.
            const bool is_own = options_.stream_ordered != 0 && !needs_event_before_reuse() && context.arena != nullptr;
            bool is_added = false;
            try {
                if (options_.stream_ordered != 0 && !is_own) {
                    const MarkPtr mark = mark_here(context.stream);
                    if (mark != nullptr && ops_.synchronize(self_, mark->event()) != PORTAMEM_POOL_OK) {
                        thrown(PORTAMEM_POOL_THROWN);
                    }
                    if (mark != nullptr && ops_.happened != nullptr && order::is_on()) {
                        const portamem_order_range chunk{ptr, nbytes};
                        ops_.happened(self_, mark->event(), &chunk, 1);
                    }
                }
                const std::lock_guard<std::mutex> lock(heap_.mutex());
                if (is_own && context.arena->has_ended) {
                    throw Refused{PORTAMEM_POOL_INVALID, "the stream was closed during the call"};
                }
                Arena& arena = is_own ? *context.arena : heap_.common();
                const bool is_whole = request.index == kExact && reinterpret_cast<std::uintptr_t>(ptr) % kGrain == 0 &&
                                      request.alignment <= kGrain;
                if (is_whole) {
                    heap_.add_exact_chunk(ptr, nbytes, arena, items[0]);
                } else {
                    heap_.add_chunk(ptr, nbytes, arena, request.is_small());
                }
                claim.end();
                is_added = true;
                if (attempt == 0) cuts_all_.store(false, std::memory_order_relaxed);
                if (refused_ <= kMostChunk) refused_ *= 2;  // others may have given back to the upstream
                if (is_whole) return 1;
                // One only: the upstream may have run code that has filled the cache.
                if (const unsigned count = take_locked(own(context), request, items, 1); count != 0) return count;
            } catch (...) {
                if (!is_added) (void)ops_.deallocate(self_, ptr, nbytes);
                throw;
            }
            break;  // others were quicker, or the chunk is oddly aligned
        }
        if (attempt != 0) break;
        cuts_all_.store(true, std::memory_order_relaxed);
        // What other threads' caches hold can be taken over without a wait of the host.
        flush_all_caches();
        if (const unsigned count = take(context, request, items, most); count != 0) return count;
        if (!needs_event_before_reuse()) {
            if (const unsigned count = take_from_batches(context, request, items, most); count != 0) return count;
        }
        // What the streams have is waited for, put together, and what is a whole chunk goes back.
        (void)reclaim(true);
        if (const unsigned count = take(context, request, items, most); count != 0) return count;
        // The last of all, as it waits for the whole device.
        if (drain_own_streams()) {
            if (const unsigned count = take(context, request, items, most); count != 0) return count;
        }
        (void)release(0, false);
    }
    if (status == PORTAMEM_POOL_OK) status = PORTAMEM_POOL_OUT_OF_MEMORY;
    return 0;
}

}  // namespace portamem::pool
