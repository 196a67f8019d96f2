// SPDX-License-Identifier: MIT
// core/pool/give.cpp: what becomes of a block that was freed.
#include <algorithm>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {
namespace {

constexpr std::size_t kCacheRoom = kCacheBytes / 16;              // made where a cache holds too many bytes
constexpr std::size_t kMostPending = 64;                          // blocks that wait for one event
constexpr std::size_t kMostPendingBytes = std::size_t{16} << 20;  // and their bytes, but for a single one

}  // namespace

// Into the cache; where that is full, some of it goes to the arena first.
void Pool::give(const Place& place, const Item& item, const Block& block) {
    const std::size_t size = block.size;
    const unsigned index = block.index;
    if (place.cache == nullptr || index == kHuge) return flush(place, item);
    do {
        const Entered entered(*this, *place.cache);
        Cache::Bin& bin = place.cache->bins[index];
        bin.make_room(index);
        if (bin.count == bin.capacity || place.cache->cached.get() + size > kCacheBytes) continue;
        bin.items[bin.count++] = item;
        place.cache->cached.add(size);
        return;
    } while (make_room(place, index, size));
    flush(place, item);
}

// A stream that only its own thread can mark is marked with what goes to its arena, since the thread may not come back.
MarkPtr Pool::mark_of_own(const Place& place, bool& is_marked) {
    is_marked = false;
    if (!place.arena->is_per_thread || !thread_has_own_streams()) return nullptr;
    try {
        MarkPtr mark = mark_here(place.stream);
        is_marked = true;
        return mark;
    } catch (const Refused&) {  // what cannot be marked is left to the stream itself
        return nullptr;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

// From the cache into the stream's arena: the ones of a full class that came first, then the largest, so that a block of
// that class fits. False where the stream has ended meanwhile. Throws std::bad_alloc: what has not gone is in the cache.
bool Pool::make_room(const Place& place, unsigned index, std::size_t size) {
    bool is_marked = false;
    MarkPtr mark = mark_of_own(place, is_marked);
    Cache& cache = *place.cache;
    Arena& arena = *place.arena;
    const Entered entered(*this, cache);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    if (arena.has_ended) return false;
    arena.is_marked = false;
    if (Cache::Bin& bin = cache.bins[index]; bin.count == bin.capacity) {
        const unsigned count = batch_of(index);
        heap_.give(arena, bin.items.get(), count);
        std::copy(bin.items.get() + count, bin.items.get() + bin.count, bin.items.get());
        bin.count = static_cast<std::uint16_t>(bin.count - count);
        cache.cached.add(0 - count * size);
    }
    const std::size_t most = kCacheBytes - std::max(size, kCacheRoom);
    const bool is_over = cache.cached.get() + size > kCacheBytes;
    for (unsigned i = kClasses; is_over && i-- > 0 && cache.cached.get() > most;) {
        Cache::Bin& other = cache.bins[i];
        const std::size_t each = size_of(i);
        const std::size_t over = (cache.cached.get() - most + each - 1) / each;
        const auto count = static_cast<std::uint16_t>(std::min<std::size_t>(other.count, over));
        if (count == 0) continue;
        heap_.give(arena, other.items.get() + (other.count - count), count);
        other.count = static_cast<std::uint16_t>(other.count - count);
        cache.cached.add(0 - count * each);
    }
    arena.latest = std::move(mark);
    arena.is_marked = is_marked;
    return true;
}

// A block that no cache takes, into the stream's arena.
void Pool::flush(const Place& place, const Item& item) {
    Batches one = one_batch(place.identity);
    one.front().items.push_back(item);
    bool is_marked = false;
    MarkPtr mark = mark_of_own(place, is_marked);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    Arena& arena = *place.arena;
    const bool has_ended = arena.has_ended;  // by another thread, during the call: behind the stream's last event
    heap_.put(arena, std::move(one));
    if (has_ended) return;
    arena.latest = std::move(mark);
    arena.is_marked = is_marked;
}

// Host-accessible memory: behind the next event of the stream.
void Pool::defer(const Place& place, const Item& item, std::size_t size) {
    if (place.cache == nullptr) {
        Batches one = one_batch(place.identity);
        one.front().items.push_back(item);
        if (place.arena->is_orphan) return put_back(*place.arena, std::move(one));
        put_behind(mark_here(place.stream), std::move(one));
        return;
    }
    bool is_full = false;
    {
        const Entered entered(*this, *place.cache);
        if (place.cache->pending.capacity() == 0) place.cache->pending.reserve(kMostPending);
        is_full = place.cache->pending.size() == kMostPending ||
                  (!place.cache->pending.empty() && place.cache->pending_bytes + size > kMostPendingBytes);
    }
    if (is_full) flush_pending(place);
    const Entered entered(*this, *place.cache);
    place.cache->pending.push_back(item);
    place.cache->pending_bytes += size;
    place.cache->cached.add(size);
}

// Marks the stream behind what the cache has freed on it.
void Pool::flush_pending(const Place& place) {
    Batches late = one_batch(place.identity);
    std::vector<Item>& items = late.front().items;
    items.reserve(kMostPending);
    {  // before the mark: what comes here later may have been freed later
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        late.splice(late.end(), place.arena->aside);
    }
    MarkPtr mark;
    try {
        mark = mark_here(place.stream);
    } catch (...) {
        put_back(*place.arena, std::move(late));
        throw;
    }
    try {
        const Entered entered(*this, *place.cache);
        auto& pending = place.cache->pending;
        items.assign(pending.begin(), pending.end());  // at most kMostPending
        pending.clear();
        place.cache->cached.add(0 - place.cache->pending_bytes);
        place.cache->pending_bytes = 0;
    } catch (const Refused&) {  // the cache has ended, and is empty
        put_behind(mark, std::move(late));
        throw;
    }
    put_behind(mark, std::move(late));
}

// Null: nothing to wait for.
void Pool::put_behind(const MarkPtr& mark, Batches&& batches) noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    while (!batches.empty()) {
        Batches one;
        one.splice(one.end(), batches, batches.begin());
        if (mark == nullptr) {
            heap_.put(heap_.common(), std::move(one));
        } else if (!one.front().empty()) {
            one.front().mark = mark;
            heap_.waiting().add(std::move(one));
        }
    }
}

}  // namespace portamem::pool
