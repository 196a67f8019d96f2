// SPDX-License-Identifier: MIT
// core/pool/temporary_arena.cpp: an arena for one call, on a stream that has none, and what it takes
// of other streams.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "pool.hpp"

namespace portamem::pool {
namespace {

constexpr int kMostTries = 16;  // tries of a call that finds other threads quicker

}  // namespace

// Takes one block that serves, for a temporary arena. The rest of it and of the batch stays behind the batch's mark.
// Under the heap's lock.
unsigned Pool::take_of_batch(Arena& arena, const Request& request, Batch& batch, Item* items) {
    Batch one;
    one.items.reserve(1);
    one.blocks.reserve(1);
    const auto item =
        std::find_if(batch.items.begin(), batch.items.end(), [&](const Item& i) { return serves(request, i); });
    const auto block = std::find_if(batch.blocks.begin(), batch.blocks.end(),
                                    [&](const Block* b) { return b->length() >= request.stands_in(); });
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
    } catch (...) {  // it had room there
        batch.items.insert(batch.items.end(), one.items.begin(), one.items.end());
        batch.blocks.insert(batch.blocks.end(), one.blocks.begin(), one.blocks.end());
        throw;
    }
    const unsigned count = take_locked(arena, request, items, 1);
    try {
        heap_.detach(arena, batch);
    } catch (const std::bad_alloc&) {
        return count;  // the rest goes behind an event of the call's stream
    }
    return count;
}

// The arena of one call, on a stream that may be gone tomorrow. It holds memory only while the heap is locked, except
// where host memory runs out: the rest then goes behind an event of the stream.
class Pool::TemporaryArena {
  public:
    TemporaryArena(Pool& pool, const CallContext& context) : pool_(pool), context_(context) {
        context_.identity = portamem_new_identity();
        context_.arena = std::make_shared<Arena>(context_.identity);
        context_.arena->is_of_call = true;
        context_.arena->ticket.emplace_back(context_.arena);
        const std::lock_guard<std::mutex> lock(pool.heap_.mutex());
        (void)pool.heap_.enlisted(context_.arena);
    }
    ~TemporaryArena() {
        Arena& arena = *context_.arena;
        bool is_empty = false;
        {
            const std::lock_guard<std::mutex> lock(pool_.heap_.mutex());
            is_empty = arena.is_empty();
        }
        MarkPtr mark;
        bool is_orphan = false;
        try {
            if (!is_empty) mark = pool_.events_.mark_here(context_.stream);
        } catch (...) {
            is_orphan = true;  // it cannot be marked now, and there is no later
        }
        {
            const std::lock_guard<std::mutex> lock(pool_.heap_.mutex());
            arena.latest = std::move(mark);
            arena.is_orphan = is_orphan;
            arena.has_ended = true;
        }
        pool_.end_arena(context_.arena);
    }
    TemporaryArena(const TemporaryArena&) = delete;
    TemporaryArena& operator=(const TemporaryArena&) = delete;

    const CallContext& context() const noexcept { return context_; }

  private:
    Pool& pool_;
    CallContext context_;
};

unsigned Pool::take_across_streams(const CallContext& context, const Request& request, Item* items, unsigned most) {
    if (context.arena == nullptr) {
        const TemporaryArena call(*this, context);
        unsigned count = 0;
        for (int i = 0; count == 0 && i < kMostTries && take_from_other_stream(call.context(), request, items, count);
             ++i) {
        }
        return count;
    }
    // Another thread of the stream may get the memory that was taken over before this one does.
    unsigned count = 0;
    while (count == 0 && take_from_other_stream(context, request, items, count))
        count = take(context, request, items, most);
    return count;
}

}  // namespace portamem::pool
