// SPDX-License-Identifier: MIT
// core/pool/cross_stream.cpp: takes over memory that other streams have freed, behind their events.
#include <algorithm>
#include <new>
#include <utility>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {
namespace {

constexpr std::size_t kLeastPiece = std::size_t{16} << 20;  // bytes to take from another stream, where it has as many
constexpr unsigned kMostSmall = 256;                        // small blocks to take from it
constexpr unsigned kMostKept = 64;                          // kept blocks to take from it
constexpr std::size_t kMostLookedAt = 1024;                 // blocks behind marks that one call looks at

}  // namespace

bool Pool::serves(const Request& request, const Item& item) const {
    const Block& block = *heap_.block_of(item);
    return request.is_small() ? block.index == request.index
                              : block.use == Block::Use::Taken && block.length() >= request.stands_in();
}

// Takes over memory that waits behind a mark already: of a stream whose end is not reported, or of an ended stream.
bool Pool::take_batch_of_other_stream(const CallContext& context, const Request& request, Item* items,
                                      unsigned& count) {
    std::uint64_t stream = 0;
    MarkPtr mark;
    std::size_t looked_at = 0;
    const auto fits = [&](const Batch& candidate) {
        for (const Item& item : candidate.items) {
            if (++looked_at > kMostLookedAt) return false;
            if (serves(request, item)) return true;
        }
        looked_at += candidate.blocks.size();
        return std::any_of(candidate.blocks.begin(), candidate.blocks.end(),
                           [&](const Block* block) { return block->length() >= request.stands_in(); });
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
    // The batch stays in the queue until the wait is made. Another thread may take it first.
    events_.wait(context.stream, mark);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    Batches* const queue = heap_.waiting().queue_of(stream);
    if (queue == nullptr || context.arena->has_ended) return false;
    looked_at = 0;
    const auto found = std::find_if(queue->begin(), queue->end(),
                                    [&](const Batch& batch) { return batch.mark == mark && fits(batch); });
    if (found == queue->end()) return false;
    if (context.arena->is_of_call) {
        count = take_of_batch(*context.arena, request, *found, items);
    } else {
        heap_.give(*context.arena, *found);
        context.arena->is_marked = false;
    }
    if (found->empty()) queue->erase(found);
    heap_.waiting().forget_if_empty(stream);
    steals_.fetch_add(1, std::memory_order_relaxed);
    return true;
}

// Takes over all blocks of a class that the calling thread has freed on a stream on which it only frees, behind one
// event. A thread that allocates on one stream and frees on another thus asks the runtime once for a cacheful of
// blocks.
unsigned Pool::take_from_idle_cache(const CallContext& context, const Request& request, Item* items) {
    if (context.cache == nullptr || request.index >= kHuge || (!request.is_small() && request.alignment > kGrain))
        return 0;
    Cache* const donor = find_idle_cache(*context.cache, request.index);
    if (donor == nullptr) return 0;
    const std::shared_ptr<Arena> from = donor->arena;
    Batches taken = one_batch(from->stream);
    Batch& batch = taken.front();
    batch.items.reserve(kMostItems);
    if (!donor->lock.enter()) return 0;            // another thread empties it
    Cache::Bin& bin = donor->bins[request.index];  // empty, if another thread emptied it before
    batch.items.assign(bin.items.get(), bin.items.get() + bin.count);
    donor->cached.add(0 - std::uint64_t{bin.count} * bin.size);
    bin.count = 0;
    donor->lock.leave();
    if (batch.empty()) return 0;
    try {
        events_.wait(context.stream, events_.mark_of(*from));
    } catch (const Refused& refusal) {
        events_.put_back(*from, std::move(taken));
        if (refusal.status != PORTAMEM_POOL_BUSY) throw;
        return 0;  // the stream is captured, or about to end
    } catch (...) {
        events_.put_back(*from, std::move(taken));
        throw;
    }
    std::copy(batch.items.begin(), batch.items.end(), items);
    steals_.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    context.arena->is_marked = false;  // these blocks will come back behind a wait that no mark follows yet
    return static_cast<unsigned>(batch.items.size());
}

// Returns the arena of another stream that can serve a request and has not refused; if possible one whose work the
// call's stream already waits for, because that costs nothing. Null where there is none. Under the heap's lock.
std::shared_ptr<Arena> Pool::donor_for(const CallContext& context, const Request& request,
                                       const std::vector<const Arena*>& refused, bool& is_ordered) {
    const std::size_t most_cut = most_cut_for(request);
    const auto has = [&](const Arena& arena) {
        if (&arena == context.arena.get() || arena.has_ended || arena.is_of_call ||
            (arena.is_per_thread && !arena.is_marked) ||
            std::find(refused.begin(), refused.end(), &arena) != refused.end()) {
            return false;
        }
        if (arena.unmerged.nbytes >= request.size) return true;
        if (!request.is_small()) return arena.find(request.size, request.alignment, most_cut) != nullptr;
        return !arena.bins[request.index].empty() || arena.carving[request.index] != nullptr || arena.whole != 0 ||
               arena.find(request.need(), kGrain, most_cut, true) != nullptr;
    };
    std::shared_ptr<Arena> donor;
    is_ordered = false;
    for (const auto& entry : heap_.arenas()) {
        if (!has(*entry.second)) continue;
        const auto waited = context.arena->waited.find(entry.first);
        is_ordered = waited != context.arena->waited.end() && waited->second == entry.second->insertions;
        donor = entry.second;
        if (is_ordered) break;
    }
    return donor;
}

// Takes the memory that a request needs out of a donor's arena. A temporary arena takes no more than that, because no
// other call would find the rest meanwhile; a stream takes more. False where the donor has no piece for it. Under the
// heap's lock.
bool Pool::detach_from(Arena& donor, const CallContext& context, const Request& request, Batch& batch) {
    const bool is_of_call = context.arena->is_of_call;
    const unsigned most_items = is_of_call ? 1 : kMostSmall;
    const unsigned most_kept = is_of_call ? 1 : kMostKept;
    batch.stream = donor.stream;
    batch.blocks.reserve(1);
    if (request.is_small()) {
        batch.items.resize(most_items);
        batch.items.resize(heap_.take_from(donor, request.index, batch.items.data(), most_items));
    } else if (is_kept(request.index) && !is_shared(request.index) && request.alignment <= kGrain) {
        batch.items.resize(most_kept);
        batch.items.resize(heap_.take_kept(donor, request.index, batch.items.data(), most_kept));
    }
    if (!batch.items.empty()) return true;
    (void)heap_.dissolve(donor, kLargestKept);
    const std::size_t length = request.is_small() ? request.need() : request.size;
    return heap_.detach_some(donor, length, request.alignment, is_of_call ? length : kLeastPiece, batch);
}

// Makes the call's stream wait for the donor's work, and returns the mark. Throws Refused: BUSY where the donor is
// captured or about to end. On an exception the donor's arena has its memory back.
MarkPtr Pool::wait_for_donor(Arena& donor, const CallContext& context, MarkPtr latest, Batches& taken,
                             Transfer& transfer) {
    try {
        MarkPtr mark = donor.is_per_thread ? std::move(latest) : events_.mark_of(donor);
        events_.wait(context.stream, mark);
        return mark;
    } catch (...) {
        events_.put_back(donor, std::move(taken));
        transfer.give_up();
        throw;
    }
}

// Puts the memory that was taken into the call's arena. If the arena is temporary, one block goes to `items` and the
// rest stays behind the mark. Under the heap's lock.
void Pool::accept(const CallContext& context, const Request& request, Batches&& taken, Batches&& left,
                  const MarkPtr& mark, Item* items, unsigned& count) {
    heap_.put(*context.arena, std::move(taken));
    context.arena->is_marked = false;
    steals_.fetch_add(1, std::memory_order_relaxed);
    if (!context.arena->is_of_call) return;
    count = take_locked(*context.arena, request, items, 1);
    try {
        heap_.detach(*context.arena, left.front());
    } catch (const std::bad_alloc&) {
        return;  // the rest goes behind an event of the call's stream
    }
    if (mark != nullptr && !left.front().empty()) {
        left.front().mark = mark;
        heap_.waiting().add(std::move(left));
    } else {
        heap_.put(heap_.common(), std::move(left));
    }
}

// Takes over memory of another stream. True if some came that may serve; a temporary arena gets `count` blocks in
// `items`.
bool Pool::take_from_other_stream(const CallContext& context, const Request& request, Item* items, unsigned& count) {
    if (take_batch_of_other_stream(context, request, items, count)) return true;
    std::vector<const Arena*> refused;
    for (;;) {
        refused.reserve(refused.size() + 1);
        Batches taken = one_batch(0);
        Batches left = one_batch(0);
        std::shared_ptr<Arena> donor;
        MarkPtr mark;
        std::uint64_t seen = 0;
        bool is_ordered = false;
        Transfer transfer(upstream_.transfers());  // calls that find nothing meanwhile wait for it
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (context.arena->has_ended) return false;
            donor = donor_for(context, request, refused, is_ordered);
            if (donor == nullptr) return false;
            context.arena->waited[donor->stream];  // from here on nothing throws that would have to be undone
            left.front().stream = donor->stream;
            if (!detach_from(*donor, context, request, taken.front())) {
                refused.push_back(donor.get());
                continue;
            }
            seen = donor->insertions;
            mark = donor->latest;
            transfer.begin(0);
        }
        try {
            if (!is_ordered) mark = wait_for_donor(*donor, context, std::move(mark), taken, transfer);
        } catch (const Refused& refusal) {
            if (refusal.status != PORTAMEM_POOL_BUSY) throw;
            refused.push_back(donor.get());
            continue;
        }
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        transfer.end(true);
        if (const auto waited = context.arena->waited.find(donor->stream); waited != context.arena->waited.end()) {
            waited->second = seen;  // the entry is gone where the donor has ended
        }
        accept(context, request, std::move(taken), std::move(left), mark, items, count);
        return true;
    }
}

}  // namespace portamem::pool
