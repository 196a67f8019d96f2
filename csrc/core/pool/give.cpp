// SPDX-License-Identifier: MIT
// core/pool/give.cpp: puts freed blocks into caches and arenas.
#include <algorithm>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {

bool Pool::put_if_room(Cache& cache, const Item& item, unsigned index, std::size_t most) noexcept {
    if (!cache.has_room_for(index, most)) return false;
    Cache::Bin& bin = cache.bins[index];
    bin.items[bin.count++] = item;
    cache.cached.add(bin.size);
    return true;
}

// Puts an item into a full cache, from which some goes to the arena first. On std::bad_alloc the item is in neither.
// Under the cache's and the heap's lock.
void Pool::put_with_room(Cache& cache, Arena& arena, const Item& item, unsigned index) {
    arena.latest = nullptr;
    arena.is_marked = false;
    make_room(cache, arena, index);
    if (!put_if_room(cache, item, index, kCacheBytes)) heap_.give(arena, index, &item, 1);
}

// Puts a block into the cache. Where the cache is full, some of it, or else the block itself, goes to the arena.
void Pool::give(const CallContext& context, const Item& item, const Block& block) {
    const unsigned index = block.index;
    if (context.cache == nullptr || index >= kHuge) return flush(context, item);
    Cache& cache = *context.cache;
    Arena& arena = *context.arena;
    if (!cache.holds(index)) {
        if (!share(arena, item, index)) flush(context, item);
        return;
    }
    const auto put_anyhow = [&](MarkPtr&& mark, bool is_marked) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (arena.has_ended) return false;
        put_with_room(cache, arena, item, index);
        arena.latest = std::move(mark);
        arena.is_marked = is_marked;
        return true;
    };
    {
        const CacheLock entered(caches_, cache);
        (void)cache.bin_for(index);
        if (put_if_room(cache, item, index, free_room_of(index))) return;
        if (!arena.is_per_thread && put_anyhow(nullptr, false)) return;
    }
    if (arena.is_per_thread) {
        bool is_marked = false;
        MarkPtr mark = mark_of_own(context, is_marked);
        const CacheLock entered(caches_, cache);
        if (put_anyhow(std::move(mark), is_marked)) return;
    }
    flush(context, item);
}

// Keeps a block in the arena for any thread of the stream that wants its size. False where the stream has ended.
bool Pool::share(Arena& arena, const Item& item, unsigned index) noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    if (arena.has_ended) return false;
    arena.latest = nullptr;
    arena.is_marked = false;
    heap_.keep(arena, index, &item, 1);
    return true;
}

// Marks a stream that only its own thread can mark, when memory goes to its arena: the thread may not come back.
MarkPtr Pool::mark_of_own(const CallContext& context, bool& is_marked) {
    is_marked = false;
    if (!context.arena->is_per_thread || !thread_has_own_streams()) return nullptr;
    try {
        MarkPtr mark = events_.mark_here(context.stream);
        is_marked = true;
        return mark;
    } catch (const Refused&) {  // memory that cannot be marked is left to the stream itself
        return nullptr;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

// Moves the `count` oldest blocks of a size class from the cache to the stream's arena. On std::bad_alloc nothing has
// changed.
unsigned Pool::let_go(Cache& cache, Arena& arena, unsigned index, unsigned count) {
    Cache::Bin& bin = cache.bins[index];
    count = std::min<unsigned>(count, bin.count);
    if (count == 0) return 0;
    const Item* const first = bin.items.get();
    heap_.prefetch(index, first, count);
    if (is_kept(index) && count >= batch_of(index)) {  // a size that comes in numbers is wanted in numbers
        heap_.keep(arena, index, first, count);
    } else {
        heap_.give(arena, index, first, count);
    }
    std::copy(first + count, first + bin.count, bin.items.get());
    bin.count = static_cast<std::uint16_t>(bin.count - count);
    cache.cached.add(0 - count * std::uint64_t{bin.size});
    return count;
}

// Moves a batch of a full class to the arena. A cache that is full of bytes sends only one block, because this call
// pays: of the large classes in turn, so that unwanted sizes leave, or else of a small class. If there is still no
// room, the caller sends the new block to the arena. On std::bad_alloc a block that has not moved is still in the
// cache.
void Pool::make_room(Cache& cache, Arena& arena, unsigned index) {
    if (cache.bins[index].count == cache.bins[index].capacity) (void)let_go(cache, arena, index, batch_of(index));
    if (cache.has_room_for(index, free_room_of(index))) return;
    for (unsigned looks = cache.largest + 1 - kSmallClasses; looks != 0; --looks) {
        const unsigned leaving = cache.leaving;
        cache.leaving = leaving == kSmallClasses ? cache.largest : leaving - 1;
        if (let_go(cache, arena, leaving, 1) != 0) return;
    }
    for (unsigned i = kSmallClasses; i-- != 0;) {
        if (let_go(cache, arena, i, 1) != 0) return;
    }
}

// Puts a block that no cache takes into the stream's arena.
void Pool::flush(const CallContext& context, const Item& item) {
    Batches one = one_batch(context.identity);
    one.front().items.push_back(item);
    bool is_marked = false;
    MarkPtr mark = mark_of_own(context, is_marked);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    Arena& arena = *context.arena;
    // Another thread ended it during this call: put() goes behind its last mark.
    const bool has_ended = arena.has_ended;
    heap_.put(arena, std::move(one));
    if (has_ended) return;
    arena.latest = std::move(mark);
    arena.is_marked = is_marked;
}

// Frees memory that the host reaches, behind the next event of the stream.
void Pool::defer(const CallContext& context, const Item& item, std::size_t size) {
    if (context.cache == nullptr) {
        Batches one = one_batch(context.identity);
        one.front().items.push_back(item);
        if (context.arena->is_orphan) return events_.put_back(*context.arena, std::move(one));
        events_.put_behind(events_.mark_here(context.stream), std::move(one));
        return;
    }
    bool is_full = false;
    {
        const CacheLock entered(caches_, *context.cache);
        if (context.cache->pending.capacity() == 0) context.cache->pending.reserve(kMostPending);
        is_full = !context.cache->has_pending_room(size);
    }
    if (is_full) flush_pending(context);
    const CacheLock entered(caches_, *context.cache);
    context.cache->put_pending(item, size);
}

// Marks the stream, and puts the memory that was freed on it before behind the mark: what is unmarked in the arena, and
// what the cache has. Other threads find that memory all the while, in one place or the other.
void Pool::flush_pending(const CallContext& context) {
    Batches late = one_batch(context.identity);
    std::vector<Item>& items = late.front().items;
    items.reserve(kMostPending);
    const std::uint64_t latest = events_.latest_unmarked(*context.arena);
    const MarkPtr mark = events_.mark_here(context.stream);
    events_.put_unmarked_behind(mark, *context.arena, latest);
    const CacheLock entered(caches_, *context.cache);
    auto& pending = context.cache->pending;
    items.assign(pending.begin(), pending.end());  // at most kMostPending
    pending.clear();
    context.cache->cached.add(0 - context.cache->pending_bytes);
    context.cache->pending_bytes = 0;
    context.cache->note_pending();
    events_.put_behind(mark, std::move(late));
}

}  // namespace portamem::pool
