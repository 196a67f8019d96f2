// SPDX-License-Identifier: MIT
// core/pool/pool.cpp: the full path: allocating and freeing where a cache and the heap alone cannot do it.
#include "pool.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "thread.hpp"

namespace portamem::pool {
namespace {

std::string bytes_text(std::size_t nbytes) { return std::to_string(nbytes) + " bytes"; }

std::string address_text(const void* ptr) {
    static constexpr char kDigits[] = "0123456789abcdef";
    auto value = reinterpret_cast<std::uintptr_t>(ptr);
    std::string text;
    do {
        text.insert(text.begin(), kDigits[value & 15]);
        value >>= 4;
    } while (value != 0);
    return "0x" + text;
}

[[noreturn]] void refuse_pointer(const std::string& text) { throw Refused{PORTAMEM_POOL_INVALID, text}; }

// A pointer's block, and its state. found_block() throws Refused for a pointer that the pool has not given out.
struct Found {
    Block* block;
    std::atomic<State>* state;
};

Found found_block(Heap& heap, const void* ptr) {
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    Block* block = heap.pages().find(address);
    if (block == nullptr || address < block->base) {
        const std::lock_guard<std::mutex> lock(heap.mutex());
        block = heap.exact_at(address);
    }
    if (block == nullptr) {
        refuse_pointer("the pool has no block at " + address_text(ptr) +
                       ": it was freed before, or is another resource's");
    }
    const std::size_t offset = address - block->base;
    const std::size_t number = offset * kReciprocals[block->index] >> 32;
    if (number * block->size() != offset) {
        refuse_pointer("the address " + address_text(ptr) + " is inside of a block of the pool: free its beginning");
    }
    return {block, block->states + (number << block->spread)};
}

}  // namespace

thread_local unsigned Pool::calls_of_thread_ = 0;
thread_local const Pool::CallGuard* Pool::CallGuard::innermost_ = nullptr;
thread_local bool Pool::forgets_after_call_ = false;

void Pool::call_has_ended() noexcept {
    forgets_after_call_ = false;
    look_for_ended_caches();
}

Refusal& last_refusal() noexcept {
    static thread_local Refusal refusal;
    return refusal;
}

std::shared_ptr<Arena> Pool::arena_for(std::uint64_t identity, const portamem_pool_stream& about) {
    const auto forget = [forgets = callbacks_.ops.forget, self = callbacks_.self](Arena* arena) {
        if (arena->ref != nullptr) forgets(self, arena->ref);
        delete arena;
    };
    std::shared_ptr<Arena> made;
    try {
        made = std::shared_ptr<Arena>(new Arena(identity), forget);
    } catch (...) {
        if (about.ref != nullptr) callbacks_.ops.forget(callbacks_.self, about.ref);
        throw;
    }
    made->ref = about.ref;
    made->is_per_thread = about.is_per_thread != 0;
    made->is_marked_in_calls = about.is_marked_in_calls != 0;
    made->ticket.emplace_back(made);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    return heap_.enlisted(made);
}

Pool::CallContext Pool::context_of(std::uint64_t identity, void* stream) {
    CallContext context;
    context.identity = identity;
    context.stream = stream;
    Cache* known = remembered_cache(this, identity);
    if (known == nullptr) known = find_cache(this, identity);
    if (known != nullptr && !known->has_ended.load(std::memory_order_acquire)) {
        context.cache = known;
        context.arena = known->arena;
        return context;
    }
    if (known != nullptr) forget_ended_caches();
    portamem_pool_stream about{};
    if (const int status = callbacks_.ops.describe(callbacks_.self, stream, &about); status != PORTAMEM_POOL_OK)
        throw_refused(status);
    context.ends_unseen = about.ends_unseen != 0;
    if (context.ends_unseen) {
        if (about.ref != nullptr) callbacks_.ops.forget(callbacks_.self, about.ref);
        return context;
    }
    if (about.is_per_thread != 0) {
        if (!thread_has_own_streams()) {
            if (about.ref != nullptr) callbacks_.ops.forget(callbacks_.self, about.ref);
            context.arena = std::make_shared<Arena>(identity);  // no thread can say when its memory is free
            context.arena->has_ended = context.arena->is_orphan = true;
            return context;
        }
        try {
            (void)callbacks_.ops.is_captured(callbacks_.self,
                                             stream);  // this question makes the runtime know the thread's streams
            watch_own_streams();
        } catch (...) {
            if (about.ref != nullptr) callbacks_.ops.forget(callbacks_.self, about.ref);
            throw;
        }
    }
    context.arena = arena_for(identity, about);
    if (!thread_takes_caches()) return context;
    auto cache = std::make_shared<Cache>(shared_from_this(), context.arena, identity, needs_event_before_reuse());
    cache->spare = one_batch(identity);
    cache->spare.front().items.reserve(kMostItems);
    caches_.add(cache);
    context.cache = cache.get();
    try {
        if (!adopt_cache(cache)) cache->has_lost_thread.store(true, std::memory_order_relaxed);
    } catch (...) {
        cache->has_lost_thread.store(true, std::memory_order_relaxed);
        throw;
    }
    if (cache->has_lost_thread.load(std::memory_order_relaxed)) context.cache = nullptr;
    return context;
}

Pool::Request Pool::request_for(std::size_t nbytes, std::size_t alignment) {
    Request request{nbytes, rounded(nbytes), kHuge, alignment};
    if (nbytes <= kLargestCached) request.index = class_of(nbytes);
    if (alignment <= kGrain) return request;
    if (nbytes <= kLargestSmall && alignment <= kPage) {
        request.index = aligned_class(nbytes, alignment);
        if (request.index != kHuge) {
            request.size = size_of(request.index);
            return request;
        }
    }
    return request.size <= kLargestSmall ? whole_request_for(nbytes, alignment) : request;
}

// Returns a request for the smallest block outside slabs.
Pool::Request Pool::whole_request_for(std::size_t nbytes, std::size_t alignment) {
    return {nbytes, size_of(kSmallClasses), kSmallClasses, alignment};
}

// Returns a request for exactly the bytes asked for, where there is no room for more.
Pool::Request Pool::exact_request_for(std::size_t nbytes, std::size_t alignment) {
    return {nbytes, round_up(nbytes, kGrain), kExact, alignment};
}

bool Pool::is_captured(void* stream) {
    const int captured = callbacks_.ops.is_captured(callbacks_.self, stream);
    if (captured < 0) throw_refused(PORTAMEM_POOL_THROWN);
    return captured != 0;
}

void Pool::refuse_captured(void* stream, const char* what) {
    if (is_captured(stream)) throw Refused{PORTAMEM_POOL_INVALID, what};
}

// Hands out the first of the blocks, and puts the rest into the cache.
void* Pool::got(const CallContext& context, const Request& request, const Item* items, unsigned count, State out) {
    if (count > 1) {  // the bin has room: no code of the program has run since it was seen empty
        try {
            const CacheLock entered(caches_, *context.cache);
            Cache::Bin& bin = context.cache->bins[request.index];
            for (; count > 1; --count) {
                bin.items[bin.count++] = items[count - 1];
                context.cache->cached.add(request.size);
            }
        } catch (const Refused&) {  // the cache has ended meanwhile; its spare room is used this once
            Batches back = std::move(context.cache->spare);
            back.front().items.assign(items, items + count);
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            heap_.put(own(context), std::move(back));
            throw;
        }
    }
    caches_.count(context.cache, 1, static_cast<std::int64_t>(request.nbytes));
    items[0].state->store(out, std::memory_order_relaxed);
    return reinterpret_cast<void*>(items[0].address);
}

void* Pool::allocate(std::size_t nbytes, std::size_t alignment, std::uint64_t identity, void* stream) {
    if (portamem_forked() != 0) throw Refused{PORTAMEM_POOL_FORKED, {}};
    const CallGuard inside(*this);
    const CallContext context = context_of(identity, stream);
    if (nbytes == 0) {
        empty_.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
    }
    if (nbytes > kLargestAsked) {
        void* ptr = nullptr;
        refuse_captured(stream,
                        "allocate is forbidden while its stream is captured: do it before or after the capture");
        const portamem_pool_status status =
            upstream_.allocate(nbytes, context.stream, &ptr);  // the upstream says in its own words that it cannot
        if (status != PORTAMEM_POOL_OK) throw_refused(status);
        (void)upstream_.deallocate(ptr, nbytes);
        throw Refused{PORTAMEM_POOL_INVALID, bytes_text(nbytes) + " are more than a pool can give"};
    }
    const Request request = request_for(nbytes, alignment);
    Item items[kMostItems];
    State out = out_of(request.size, nbytes);
    unsigned most = 1;
    if (request.index != kHuge && context.cache != nullptr) {
        const CacheLock entered(caches_, *context.cache);
        Cache& cache = *context.cache;
        if (cache.holds(request.index) && cache.bin_for(request.index).count == 0) most = batch_of(request.index);
        // Cached large blocks are aligned to kGrain, whatever their class.
        const bool is_any = request.is_small() || alignment <= kGrain;
        if (is_any && cache.take_cached(request.index, nbytes, items[0], out)) most = 0;
    }
    if (most == 0) return got(context, request, items, 1, out);
    const Request exact = exact_request_for(nbytes, alignment);
    // A block outside slabs may be a little larger than its class.
    const auto got_alone = [&](const Request& as) {
        return got(context, as, items, 1, out_of(Block::of(items[0])->size(), nbytes));
    };
    try {
        unsigned count = take(context, request, items, most);
        if (count == 0) count = take_with_calls(context, request, items, most);
        if (count == 0 && request.is_small() && upstream_.shortage().of_slabs.load(std::memory_order_relaxed)) {
            count = take(context, exact, items, 1);  // the last such call ended so; this one saves its wait
            if (count == 0 && !needs_event_before_reuse()) count = take_across_streams(context, exact, items, 1);
            if (count != 0) return got_alone(exact);
        }
        if (count == 0) {
            count = grow(context, request, items, most);
            if (request.is_small()) upstream_.shortage().of_slabs.store(false, std::memory_order_relaxed);
        }
        return count == 1 && !request.is_small() ? got_alone(request) : got(context, request, items, count, out);
    } catch (const Refused& refused) {
        const bool has_no_room = refused.status == PORTAMEM_POOL_LIMIT || refused.status == PORTAMEM_POOL_OUT_OF_MEMORY;
        if (!has_no_room || exact.need() >= request.need()) throw;
    }
    // There is no room for a batch, or for a block of the class: one block of exactly the bytes asked for may still
    // fit.
    unsigned count = take(context, exact, items, 1);
    if (count == 0) count = grow(context, exact, items, 1);
    if (request.is_small()) upstream_.shortage().of_slabs.store(true, std::memory_order_relaxed);
    return got_alone(exact);
}

std::size_t Pool::asked_at(const void* ptr) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    const Block* block = heap_.pages().find(address);
    if (__builtin_expect(block == nullptr || address < block->base, 0)) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        block = heap_.exact_at(address);
        if (block == nullptr) return 0;
    }
    const std::size_t offset = address - block->base;
    const std::size_t number = offset * kReciprocals[block->index] >> 32;
    const bool is_small = block->index < kSmallClasses;
    if (offset != (is_small ? number * size_of(block->index) : 0)) return 0;
    const std::atomic<State>& word = block->states[number << block->spread];
    State state = word.load(std::memory_order_acquire);
    std::size_t size = block->size();
    if (__builtin_expect(state == kFree || word.load(std::memory_order_acquire) != state, 0)) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());  // another thread may just give the block another size
        state = word.load(std::memory_order_acquire);
        size = block->size();
    }
    return state == kFree ? 0 : asked_of(size, state);
}

// A block outside slabs is entered with its first page only. The look-up therefore goes back from page to page, to the
// beginning of the chunk at most.
portamem_address Pool::find(const void* ptr, std::uintptr_t begin) noexcept {
    if (const std::size_t nbytes = asked_at(ptr)) return {PORTAMEM_ADDRESS_BLOCK, ptr, nbytes};
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    for (std::uintptr_t page = address;;) {
        const Block* const block = heap_.pages().find(page);
        if (block != nullptr && block->base <= address) {
            const std::size_t offset = address - block->base;
            const bool is_small = block->index < kSmallClasses;
            const std::size_t number = is_small ? offset * kReciprocals[block->index] >> 32 : 0;
            const std::uintptr_t base = block->base + (is_small ? number * size_of(block->index) : 0);
            const std::size_t nbytes = asked_at(reinterpret_cast<const void*>(base));
            if (address - base >= nbytes) break;
            return {PORTAMEM_ADDRESS_BLOCK, reinterpret_cast<const void*>(base), nbytes};
        }
        const std::uintptr_t first = page & ~(kPage - 1);
        if (first <= begin) break;
        page = first - 1;
    }
    return {PORTAMEM_ADDRESS_CHUNK, nullptr, 0};
}

void Pool::deallocate(void* ptr, std::size_t nbytes, std::uint64_t identity, void* stream) {
    if (portamem_forked() != 0) throw Refused{PORTAMEM_POOL_FORKED, {}};
    const CallGuard inside(*this);
    if (ptr == nullptr) {
        auto count = empty_.load(std::memory_order_relaxed);
        while (count > 0 && !empty_.compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) {
        }
        return;
    }
    const CallContext context = context_of(identity, stream);
    const Found found = found_block(heap_, ptr);
    State state = found.state->load(std::memory_order_relaxed);
    if (state == kFree) refuse_pointer("the block at " + address_text(ptr) + " is not out: it was freed before");
    const std::size_t size = found.block->size();
    if (nbytes == 0 || nbytes > size || state != out_of(size, nbytes)) {
        refuse_pointer("the block at " + address_text(ptr) + " is of " + bytes_text(asked_of(size, state)) +
                       ", not of " + bytes_text(nbytes) + ": give the size that was allocated");
    }
    if (needs_event_before_reuse() || context.ends_unseen) {
        refuse_captured(stream,
                        "deallocate is forbidden while its stream is captured: do it before or after the capture");
    }
    const Item item{reinterpret_cast<std::uintptr_t>(ptr), found.state};
    Batches unseen;
    MarkPtr mark;
    if (context.ends_unseen) {
        unseen = one_batch(identity);
        unseen.front().items.push_back(item);
        mark = events_.mark_here(stream);
    }
    if (!found.state->compare_exchange_strong(state, kFree, std::memory_order_acq_rel)) {
        refuse_pointer("the block at " + address_text(ptr) + " is not out: it was freed before");
    }
    try {
        if (context.ends_unseen) {
            events_.put_behind(mark, std::move(unseen));
        } else if (needs_event_before_reuse()) {
            defer(context, item, size);
        } else {
            give(context, item, *found.block);
        }
    } catch (...) {
        found.state->store(state, std::memory_order_relaxed);
        throw;
    }
    caches_.count(context.cache, -1, -static_cast<std::int64_t>(nbytes));
    try {
        after_free();
    } catch (...) {
        // The memory is free all the same. An error would make the caller free it again.
    }
}

}  // namespace portamem::pool
