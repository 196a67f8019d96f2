// SPDX-License-Identifier: MIT
// core/pool/take_over.cpp: a block out of what other streams have freed, for a stream with an arena or for one call.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "pool.hpp"

namespace portamem::pool {
namespace {

constexpr int kMostTries = 16;  // of a call that finds that others were quicker

}  // namespace

// One that serves, for one call; what is left of it, and all else, stays behind the batch's event. Under the heap's lock.
unsigned Pool::take_of_batch(Arena& arena, const Ask& ask, Batch& batch, Item* items) {
    Batch one;
    one.items.reserve(1);
    one.blocks.reserve(1);
    const auto item =
        std::find_if(batch.items.begin(), batch.items.end(), [&](const Item& i) { return serves(ask, i); });
    const auto block = std::find_if(batch.blocks.begin(), batch.blocks.end(),
                                    [&](const Block* b) { return b->length() >= ask.stands_in(); });
    if (item != batch.items.end()) {
        one.items.push_back(*item);
        *item = batch.items.back();
        batch.items.pop_back();
    } else if (block != batch.blocks.end()) {
        one.blocks.push_back(*block);
        *block = batch.blocks.back();
        batch.blocks.pop_back();
    }
    try {
        heap_.give(arena, one);
    } catch (...) {  // there was room for it
        batch.items.insert(batch.items.end(), one.items.begin(), one.items.end());
        batch.blocks.insert(batch.blocks.end(), one.blocks.begin(), one.blocks.end());
        throw;
    }
    const unsigned count = take_locked(arena, ask, items, 1);
    try {
        heap_.detach(arena, batch);
    } catch (const std::bad_alloc&) {
        return count;  // what is left goes behind an event of the call's stream
    }
    return count;
}

// The arena of a call on a stream that may be gone tomorrow. It has something for as long as the heap is locked, but where
// host memory runs out: what is left in it then goes behind an event of the stream.
class Pool::OfCall {
  public:
    OfCall(Pool& pool, const Place& place) : pool_(pool), place_(place) {
        place_.identity = portamem_new_identity();
        place_.arena = std::make_shared<Arena>(place_.identity);
        place_.arena->is_of_call = true;
        place_.arena->ticket.emplace_back(place_.arena);
        const std::lock_guard<std::mutex> lock(pool.heap_.mutex());
        (void)pool.heap_.enlisted(place_.arena);
    }
    ~OfCall() {
        Arena& arena = *place_.arena;
        bool is_empty = false;
        {
            const std::lock_guard<std::mutex> lock(pool_.heap_.mutex());
            is_empty = arena.is_empty();
        }
        MarkPtr mark;
        bool is_orphan = false;
        try {
            if (!is_empty) mark = pool_.mark_here(place_.stream);
        } catch (...) {
            is_orphan = true;  // it cannot be marked now, and there is no later
        }
        {
            const std::lock_guard<std::mutex> lock(pool_.heap_.mutex());
            arena.latest = std::move(mark);
            arena.is_orphan = is_orphan;
            arena.has_ended = true;
        }
        pool_.end_arena(place_.arena);
    }
    OfCall(const OfCall&) = delete;
    OfCall& operator=(const OfCall&) = delete;

    const Place& place() const noexcept { return place_; }

  private:
    Pool& pool_;
    Place place_;
};

unsigned Pool::take_over(const Place& place, const Ask& ask, Item* items, unsigned most) {
    if (place.arena == nullptr) {
        const OfCall call(*this, place);
        unsigned count = 0;
        for (int i = 0; count == 0 && i < kMostTries && steal(call.place(), ask, items, count); ++i) {
        }
        return count;
    }
    // What was taken over may be gone to another thread of the stream before this one has it.
    unsigned count = 0;
    while (count == 0 && steal(place, ask, items, count)) count = take(place, ask, items, most);
    return count;
}

}  // namespace portamem::pool
