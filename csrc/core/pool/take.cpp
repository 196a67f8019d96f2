// SPDX-License-Identifier: MIT
// core/pool/take.cpp: where memory is looked for: on the stream, where nobody uses it, on other streams, upstream.
#include <algorithm>
#include <new>
#include <utility>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {
namespace {

constexpr std::size_t kLeastChunk = std::size_t{2} << 20;
constexpr std::size_t kMostChunk = std::size_t{256} << 20;
constexpr std::size_t kChunkShare = 8;  // a chunk is this part of what the pool has already,
constexpr std::size_t kRoomShare = 6;   // or has this part beside what is asked for
constexpr std::size_t kMostBytesAtOnce = std::size_t{256} << 10;
constexpr std::size_t kLeastPiece = std::size_t{2} << 20;  // what is taken from another stream, where it has as much

constexpr unsigned kMostAsked = 32;          // streams whose events are asked for by one call
constexpr std::size_t kMostLookedAt = 1024;  // blocks behind events that one call looks at

constexpr std::size_t round_up(std::size_t value, std::size_t step) noexcept {
    return (value + step - 1) / step * step;
}

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

unsigned Pool::take_locked(const Place& place, const Ask& ask, Item* items, unsigned most) {
    // An arena that has ended may go with this call, and would take with it what is cut up for it.
    Arena& from = own(place).has_ended ? heap_.common() : own(place);
    if (ask.is_small()) return heap_.take(from, ask.index, items, most);
    if (ask.alignment > kGrain) most = 1;
    const bool may_be_kept = is_kept(ask.index) && ask.alignment <= kGrain;
    unsigned count = may_be_kept ? heap_.take_kept(from, ask.index, items, most) : 0;
    if (count != 0) return count;
    // More than one, of up to kMostBytesAtOnce, only of what the stream has freed.
    try {
        while (count < most && (count == 0 || count * ask.size < kMostBytesAtOnce) &&
               heap_.take_large_from(from, ask.size, ask.index, ask.alignment, items[count])) {
            ++count;
        }
    } catch (const std::bad_alloc&) {
        if (count == 0) throw;
    }
    if (count != 0) return count;
    if (from.unmerged != 0 && heap_.merge_larger(from, ask.stands_in()) &&
        heap_.take_large_from(from, ask.size, ask.index, ask.alignment, items[0])) {
        return 1;
    }
    if (&from == &heap_.common()) return 0;
    return heap_.take_large_from(heap_.common(), ask.size, ask.index, ask.alignment, items[0]) ? 1 : 0;
}

unsigned Pool::take(const Place& place, const Ask& ask, Item* items, unsigned most) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    return take_locked(place, ask, items, most);
}

unsigned Pool::take_with_calls(const Place& place, const Ask& ask, Item* items, unsigned most) {
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        retry_aside(place);
        const bool own_dissolved = heap_.dissolve(own(place));
        if (heap_.dissolve(heap_.common()) || own_dissolved) {
            if (const unsigned count = take_locked(place, ask, items, most); count != 0) return count;
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
        // What was taken over may be gone to another thread of the stream before this one has it.
        while (steal(place, ask)) {
            if (const unsigned count = take(place, ask, items, most); count != 0) return count;
        }
    }
    if (const unsigned count = gather(place, ask, items, most); count != 0) return count;
    return grow(place, ask, items, most);
}

// ---- events ----

// What host memory was missing for may have it now. Under the heap's lock.
void Pool::retry_aside(const Place& place) noexcept {
    if (defers() || place.arena == nullptr || place.arena->has_ended) return;
    try {
        for (Batches& aside = place.arena->aside; !aside.empty(); aside.pop_front()) {
            heap_.give(*place.arena, aside.front());
        }
    } catch (const std::bad_alloc&) {
        return;
    }
}

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
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    heap_.give_happened(stream, mark);
    return true;
}

// The stream's own events, and some other streams' by turns. Each stream is asked until one has not happened.
void Pool::poll(const Place& place) {
    while (poll_one(place.identity)) {
    }
    std::size_t most = kMostAsked;
    for (std::size_t asked = 0; asked < most; ++asked) {
        std::uint64_t stream = 0;
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (asked == 0) most = std::min(most, heap_.waiting().streams());
            stream = heap_.waiting().next();
        }
        if (stream == place.identity) continue;
        while (poll_one(stream)) {
        }
    }
}

MarkPtr Pool::make_mark(void* event) {
    marks_.fetch_add(1, std::memory_order_relaxed);
    if (event == nullptr) return nullptr;
    try {
        return std::make_shared<Mark>(ops_, self_, event);
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

// ---- other streams ----

// Memory that a stream without a teller has freed, or that ended streams have: behind the event that it has already.
bool Pool::steal_batch(const Place& place, const Ask& ask) {
    if (place.arena == nullptr) return false;  // a stream that may be gone tomorrow keeps nothing
    std::uint64_t stream = 0;
    MarkPtr mark;
    std::size_t looked_at = 0;
    const auto fits = [&](const Batch& candidate) {
        for (const Item& item : candidate.items) {
            if (++looked_at > kMostLookedAt) return false;
            const Block& block = *heap_.pages().find(item.address);
            if (ask.is_small() ? block.index == ask.index
                               : block.use == Block::Use::Taken && block.length >= ask.stands_in()) {
                return true;
            }
        }
        looked_at += candidate.blocks.size();
        return std::any_of(candidate.blocks.begin(), candidate.blocks.end(),
                           [&](const Block* block) { return block->length >= ask.stands_in(); });
    };
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        bool is_found = false;
        for (auto queue = heap_.waiting().queues().begin();
             !is_found && looked_at < kMostLookedAt && queue != heap_.waiting().queues().end(); ++queue) {
            const auto found = std::find_if(queue->second.begin(), queue->second.end(), fits);
            is_found = found != queue->second.end();
            if (!is_found) continue;
            stream = queue->first;
            mark = found->mark;
        }
        if (!is_found) return false;
    }
    // It stays where it is until then: another thread may be quicker.
    const int status = mark == nullptr ? 0 : ops_.wait(self_, place.stream, mark->event());
    if (status != PORTAMEM_POOL_OK) thrown(status);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    Batches* const queue = heap_.waiting().queue_of(stream);
    if (queue == nullptr || place.arena->has_ended) return false;
    looked_at = 0;
    const auto found = std::find_if(queue->begin(), queue->end(),
                                    [&](const Batch& batch) { return batch.mark == mark && fits(batch); });
    if (found == queue->end()) return false;
    heap_.give(*place.arena, *found);
    place.arena->is_marked = false;
    queue->erase(found);
    heap_.waiting().forget_if_empty(stream);
    steals_.fetch_add(1, std::memory_order_relaxed);
    return true;
}

// What could not be ordered goes back to where it was.
void Pool::put_back(Arena& arena, Batches&& batches) noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    while (!batches.empty()) {
        Batches one;
        one.splice(one.end(), batches, batches.begin());
        if (!defers() || arena.has_ended) {
            heap_.put(arena, std::move(one));
        } else if (!one.front().empty()) {
            arena.aside.splice(arena.aside.end(), one);
        }
    }
}

// All that the calling thread has freed of a class on a stream on which it only frees, behind one event: a thread that
// allocates on one stream and frees on another asks the runtime once for a cacheful of blocks.
unsigned Pool::pass_on(const Place& place, const Ask& ask, Item* items) {
    if (place.cache == nullptr || ask.index == kHuge || (!ask.is_small() && ask.alignment > kGrain)) return 0;
    Cache* const donor = find_idle_cache(*place.cache, ask.index);
    if (donor == nullptr) return 0;
    const std::shared_ptr<Arena> from = donor->arena;
    Batches taken = one_batch(from->stream);
    Batch& batch = taken.front();
    batch.items.reserve(kMostItems);
    if (!donor->lock.enter()) return 0;        // somebody empties it
    Cache::Bin& bin = donor->bins[ask.index];  // empty, if somebody was here before
    batch.items.assign(bin.items.get(), bin.items.get() + bin.count);
    donor->cached.add(0 - std::uint64_t{bin.count} * bin.size);
    bin.count = 0;
    donor->lock.leave();
    if (batch.empty()) return 0;
    try {
        const MarkPtr mark = mark_of(*from);
        if (mark != nullptr) {
            if (const int status = ops_.wait(self_, place.stream, mark->event()); status != PORTAMEM_POOL_OK) {
                thrown(status);
            }
        }
    } catch (const Refused& refusal) {
        put_back(*from, std::move(taken));
        if (refusal.status != PORTAMEM_POOL_BUSY) throw;
        return 0;  // captured, or about to end
    } catch (...) {
        put_back(*from, std::move(taken));
        throw;
    }
    std::copy(batch.items.begin(), batch.items.end(), items);
    steals_.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    place.arena->is_marked = false;  // what comes there of these is behind a wait that no mark is after yet
    return static_cast<unsigned>(batch.items.size());
}

// True if something came over that may serve.
bool Pool::steal(const Place& place, const Ask& ask) {
    if (steal_batch(place, ask)) return true;
    if (place.arena == nullptr) return false;
    std::vector<const Arena*> refused;
    for (;;) {
        refused.reserve(refused.size() + 1);
        std::shared_ptr<Arena> donor;
        Batches taken = one_batch(0);
        Batch& batch = taken.front();
        MarkPtr mark;
        std::uint64_t seen = 0;
        bool is_ordered = false;
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            const auto has = [&](const Arena& arena) {
                if (&arena == place.arena.get() || arena.has_ended || (arena.is_per_thread && !arena.is_marked) ||
                    std::find(refused.begin(), refused.end(), &arena) != refused.end()) {
                    return false;
                }
                if (arena.unmerged >= ask.size) return true;
                if (!ask.is_small()) return arena.find(ask.size, ask.alignment) != nullptr;
                return !arena.bins[ask.index].empty() || arena.carving[ask.index] != nullptr || arena.whole != 0 ||
                       arena.find(ask.need(), kGrain) != nullptr;
            };
            for (const auto& entry : heap_.arenas()) {
                if (!has(*entry.second)) continue;
                const auto waited = place.arena->waited.find(entry.first);
                is_ordered = waited != place.arena->waited.end() && waited->second == entry.second->insertions;
                donor = entry.second;
                if (is_ordered) break;  // costs nothing
            }
            if (donor == nullptr) return false;
            place.arena->waited[donor->stream];  // from here on nothing throws that would have to be undone
            batch.stream = donor->stream;
            batch.blocks.reserve(1);
            if (ask.is_small()) {
                batch.items.resize(256);
                batch.items.resize(heap_.take_from(*donor, ask.index, batch.items.data(), 256));
            } else if (is_kept(ask.index) && ask.alignment <= kGrain) {
                const auto most = static_cast<unsigned>(std::max<std::size_t>(kLeastPiece / ask.size, 1));
                batch.items.resize(most);
                batch.items.resize(heap_.take_kept(*donor, ask.index, batch.items.data(), most));
            }
            if (batch.items.empty()) (void)heap_.dissolve(*donor);
            if (batch.items.empty()) {
                const std::size_t length = ask.is_small() ? ask.need() : ask.size;
                if (!heap_.detach_some(*donor, length, ask.alignment, kLeastPiece, batch)) {
                    refused.push_back(donor.get());
                    continue;
                }
            }
            seen = donor->insertions;
            mark = donor->latest;
        }
        try {
            if (!is_ordered) {
                if (!donor->is_per_thread) mark = mark_of(*donor);
                if (mark != nullptr) {
                    if (const int status = ops_.wait(self_, place.stream, mark->event()); status != PORTAMEM_POOL_OK) {
                        thrown(status);
                    }
                }
            }
        } catch (const Refused& refusal) {
            put_back(*donor, std::move(taken));
            if (refusal.status != PORTAMEM_POOL_BUSY) throw;
            refused.push_back(donor.get());  // cannot be marked now: captured, or about to end
            continue;
        } catch (...) {
            put_back(*donor, std::move(taken));
            throw;
        }
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (const auto waited = place.arena->waited.find(donor->stream); waited != place.arena->waited.end()) {
            waited->second = seen;  // not there any more where the donor has ended
        }
        heap_.put(*place.arena, std::move(taken));
        place.arena->is_marked = false;
        steals_.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
}

// ---- upstream ----

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
    if (const unsigned count = take_locked(place, ask, items, most); count != 0) return count;
    if (&from == &heap_.common() || !heap_.join_common(from, ask.stands_in())) return 0;
    from.is_marked = false;
    return take_locked(place, ask, items, most);
}

// Geometric, so that a pool of any size is made of few chunks, and little of it is not asked for. Where what is free would
// do, were it in one piece, the pool is in pieces too small for what is wanted now: the next one gets room for more.
std::size_t Pool::chunk_size(const Place& place, const Ask& ask) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    const std::size_t reserved = heap_.reserved();
    const std::size_t share = std::min(round_up(reserved / kChunkShare, kLeastChunk), kMostChunk);
    if (ask.stands_in() > kMostChunk) return ask.need();
    if (ask.need() <= share / 2) return share;
    const std::size_t common = heap_.common().free;
    const std::size_t free = &own(place) == &heap_.common() ? common : common + own(place).free;
    const std::size_t room = free < ask.need() ? 0 : std::min(reserved / kRoomShare, kMostChunk);
    return std::max(share, round_up(ask.need() + room, kLeastChunk));
}

portamem_pool_status Pool::ask_upstream(std::size_t nbytes, const Place& place, void** ptr) {
    return static_cast<portamem_pool_status>(ops_.allocate(self_, nbytes, place.stream, ptr));
}

// Bytes that the upstream is being asked for: room under the limits is checked and taken in one step. nbytes becomes what
// there is room for, or 0 where that is not enough.
class Pool::Growing {
  public:
    Growing(Pool& pool, std::size_t least, std::size_t& nbytes) : pool_(pool) {
        const std::size_t limit = pool.options_.limit;
        {
            const std::lock_guard<std::mutex> lock(pool.heap_.mutex());
            if (limit != 0) {
                const std::size_t taken = pool.heap_.reserved() + pool.growing_;
                const std::size_t left = limit > taken ? limit - taken : 0;
                nbytes = left < least ? 0 : std::min(nbytes, left & ~(kGrain - 1));
            }
            pool.growing_ += growing_ = nbytes;
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
    ~Growing() { give_up(); }
    /// They are reserved now. Under the heap's lock.
    void end() noexcept {
        pool_.growing_ -= std::exchange(growing_, 0);
        claimed_ = 0;
    }
    Growing(const Growing&) = delete;
    Growing& operator=(const Growing&) = delete;

  private:
    void give_up() noexcept {
        if (claimed_ != 0) pool_.ops_.unclaim(pool_.self_, std::exchange(claimed_, 0));
        const std::lock_guard<std::mutex> lock(pool_.heap_.mutex());
        pool_.growing_ -= std::exchange(growing_, 0);
    }

    Pool& pool_;
    std::size_t growing_ = 0;
    std::size_t claimed_ = 0;
};

unsigned Pool::grow(const Place& place, const Ask& ask, Item* items, unsigned most) {
    misses_.fetch_add(1, std::memory_order_relaxed);
    const std::size_t least = ask.need();
    portamem_pool_status status = PORTAMEM_POOL_OK;
    for (int attempt = 0; attempt < 2; ++attempt) {
        std::size_t nbytes = attempt != 0 ? least : chunk_size(place, ask);
        while (true) {
            status = PORTAMEM_POOL_OK;
            Growing growing(*this, least, nbytes);  // others who grow meanwhile count this
            if (nbytes == 0) {
                status = PORTAMEM_POOL_LIMIT;
                break;
            }
            void* ptr = nullptr;
            status = ask_upstream(nbytes, place, &ptr);
            if (status == PORTAMEM_POOL_OUT_OF_MEMORY && nbytes > least) {
                nbytes = least;
                continue;
            }
            if (status == PORTAMEM_POOL_THROWN) thrown(status);
            if (status != PORTAMEM_POOL_OK) break;
            // Memory that may be used on one stream only is that one's, or is waited for; any other is nobody's.
            const bool is_own = options_.stream_ordered != 0 && !defers() && place.arena != nullptr;
            bool is_added = false;
            try {
                if (options_.stream_ordered != 0 && !is_own) {
                    const MarkPtr mark = mark_here(place.stream);
                    if (mark != nullptr && ops_.synchronize(self_, mark->event()) != PORTAMEM_POOL_OK) {
                        thrown(PORTAMEM_POOL_THROWN);
                    }
                }
                const std::lock_guard<std::mutex> lock(heap_.mutex());
                if (is_own && place.arena->has_ended) {
                    throw Refused{PORTAMEM_POOL_INVALID, "the stream was closed during the call"};
                }
                heap_.add_chunk(ptr, nbytes, is_own ? *place.arena : heap_.common());
                growing.end();
                is_added = true;
                // One only: the upstream may have run code that has filled the cache.
                if (const unsigned count = take_locked(place, ask, items, 1); count != 0) return count;
            } catch (...) {
                if (!is_added) (void)ops_.deallocate(self_, ptr, nbytes);
                throw;
            }
            break;  // others were quicker, or the chunk is oddly aligned
        }
        if (attempt != 0) break;
        // What other threads' caches hold can be taken over without a wait of the host.
        raid_all();
        if (const unsigned count = take(place, ask, items, most); count != 0) return count;
        while (!defers() && steal(place, ask)) {
            if (const unsigned count = take(place, ask, items, most); count != 0) return count;
        }
        // What the streams have is waited for, put together, and what is a whole chunk goes back.
        reclaim(true);
        if (const unsigned count = take(place, ask, items, most); count != 0) return count;
        (void)release(0, false);
    }
    throw Refused{status == PORTAMEM_POOL_OK ? PORTAMEM_POOL_OUT_OF_MEMORY : status, {}};
}

}  // namespace portamem::pool
