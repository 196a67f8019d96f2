// SPDX-License-Identifier: MIT
// core/pool/give.cpp: what becomes of a block that was freed.
#include <algorithm>

#include "pool.hpp"

namespace portamem::pool {
namespace {

constexpr std::size_t kCacheRoom = kCacheBytes / 16;              // made where a cache holds too many bytes
constexpr std::size_t kMostPending = 64;                          // blocks that wait for one event
constexpr std::size_t kMostPendingBytes = std::size_t{16} << 20;  // and their bytes, but for a single one

}  // namespace

// Into the cache; where that is full, some of it goes to the arena first.
void Pool::give(const Place& place, const Item& item, const Block& block) {
    std::vector<Item> over;
    const std::size_t size = block.size;
    const unsigned index = block.index;
    if (place.cache == nullptr || index == kHuge) {
        over.push_back(item);
        flush(place, over);
        return;
    }
    Cache& cache = *place.cache;
    {
        const Entered entered(*this, cache);
        Cache::Bin& bin = cache.bins[index];
        bin.make_room(index);
        if (bin.count == bin.capacity) {
            const auto stay = static_cast<std::uint16_t>(bin.capacity - batch_of(index));
            over.assign(bin.items.get(), bin.items.get() + (bin.count - stay));  // the ones that came first
            std::copy(bin.items.get() + (bin.count - stay), bin.items.get() + bin.count, bin.items.get());
            cache.cached.add(0 - (bin.count - stay) * size);
            bin.count = stay;
        }
        if (cache.cached.get() + size > kCacheBytes) {
            std::size_t count = over.size();
            for (const Cache::Bin& other : cache.bins) count += other.count;
            over.reserve(count);
            std::size_t left = cache.cached.get();
            const std::size_t most = kCacheBytes - std::max(size, kCacheRoom);
            for (unsigned i = kClasses; i-- > 0 && left > most;) {
                Cache::Bin& other = cache.bins[i];
                while (other.count != 0 && left > most) {
                    over.push_back(other.items[--other.count]);
                    left -= size_of(i);
                }
            }
            cache.cached.add(left - cache.cached.get());
        }
    }
    if (!over.empty()) flush(place, over);
    const Entered entered(*this, cache);
    Cache::Bin& bin = cache.bins[index];
    bin.items[bin.count++] = item;
    cache.cached.add(size);
}

// From the cache into the stream's arena.
void Pool::flush(const Place& place, const std::vector<Item>& items) {
    MarkPtr mark;
    bool is_marked = false;
    if (place.arena != nullptr && place.arena->is_per_thread && thread_takes_caches()) {
        // Its own thread only can mark it, and may not come back. What cannot be marked is left to the stream itself.
        try {
            mark = mark_here(place.stream);
            is_marked = true;
        } catch (const Refused&) {
            is_marked = false;
        }
    }
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    Arena& arena = *place.arena;
    if (arena.has_ended) {  // by another thread, during the call: behind the stream's last event
        Batch batch;
        batch.stream = arena.stream;
        batch.items = items;
        return_batch(arena, batch);
        return;
    }
    heap_.give(arena, items.data(), items.size());
    arena.latest = std::move(mark);
    arena.is_marked = is_marked;
}

// Host-accessible memory: behind the next event of the stream.
void Pool::defer(const Place& place, const Item& item, std::size_t size) {
    if (place.cache == nullptr) {
        Batch batch;
        batch.mark = mark_here(place.stream);
        batch.stream = place.identity;
        batch.items.push_back(item);
        put_behind(place.arena, std::move(batch));
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
    Batch batch;
    batch.stream = place.identity;
    {  // before the mark: what comes here later may have been freed later
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        batch.items.reserve(kMostPending + place.arena->unmarked.size());
        batch.items.insert(batch.items.end(), place.arena->unmarked.begin(), place.arena->unmarked.end());
        place.arena->unmarked.clear();
    }
    MarkPtr mark;
    try {
        mark = mark_here(place.stream);
    } catch (...) {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        place.arena->unmarked.insert(place.arena->unmarked.end(), batch.items.begin(), batch.items.end());
        throw;
    }
    {
        const Entered entered(*this, *place.cache);
        auto& pending = place.cache->pending;
        batch.items.insert(batch.items.end(), pending.begin(), pending.end());  // at most kMostPending
        pending.clear();
        place.cache->cached.add(0 - place.cache->pending_bytes);
        place.cache->pending_bytes = 0;
    }
    if (batch.items.empty()) return;
    batch.mark = std::move(mark);
    put_behind(place.arena, std::move(batch));
}

void Pool::put_behind(const std::shared_ptr<Arena>& arena, Batch&& batch) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    Arena& where = arena != nullptr && !arena->has_ended ? *arena : heap_.common();
    if (batch.mark == nullptr) {
        heap_.give(heap_.common(), batch);
        return;
    }
    where.batches.push_back(std::move(batch));
}

}  // namespace portamem::pool
