// SPDX-License-Identifier: MIT
// core/pool/give.cpp: what becomes of a block that was freed.
#include <algorithm>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {
namespace {

constexpr unsigned kMostLeaving = 2;                              // blocks that make room for one
constexpr std::size_t kCacheRoom = std::size_t{1} << 20;          // made where a cache has too many bytes
constexpr std::size_t kMostPending = 64;                          // blocks that wait for one event
constexpr std::size_t kMostPendingBytes = std::size_t{16} << 20;  // and their bytes, but for a single one

}  // namespace

/// Blocks that leave a cache, class by class.
class Pool::Leaving {
  public:
    void add(unsigned index, const Item* items, unsigned count) noexcept {
        std::copy(items, items + count, items_ + count_);
        runs_[run_count_++] = {index, count};
        count_ += count;
    }
    /// Up to `count` of those that came first. Answers how many there were.
    unsigned add_oldest(Cache& cache, unsigned index, unsigned count) noexcept {
        Cache::Bin& bin = cache.bins[index];
        count = std::min<unsigned>(count, bin.count);
        if (count == 0) return 0;
        add(index, bin.items.get(), count);
        std::copy(bin.items.get() + count, bin.items.get() + bin.count, bin.items.get());
        bin.count = static_cast<std::uint16_t>(bin.count - count);
        cache.cached.add(0 - count * std::uint64_t{bin.size});
        return count;
    }
    bool empty() const noexcept { return count_ == 0; }
    const Item* begin() const noexcept { return items_; }
    const Item* end() const noexcept { return items_ + count_; }
    template <class Function>
    void each(Function&& function) const {
        const Item* items = items_;
        for (unsigned i = 0; i < run_count_; ++i) {
            function(runs_[i].index, items, runs_[i].count);
            items += runs_[i].count;
        }
    }

  private:
    static constexpr unsigned kMost = 16 + kMostLeaving + 1;  ///< a batch, what makes room, and the block that comes
    static constexpr unsigned kMostRuns = 1 + kMostLeaving + 1;
    struct Run {
        unsigned index;
        unsigned count;
    };
    Item items_[kMost];
    Run runs_[kMostRuns];
    unsigned count_ = 0;
    unsigned run_count_ = 0;
};

// Into the cache; where that is full, some of it goes to the arena first, or else the block itself.
void Pool::give(const Place& place, const Item& item, const Block& block) {
    Leaving leaving;
    const std::size_t size = block.size;
    const unsigned index = block.index;
    if (place.cache == nullptr || index == kHuge) {
        leaving.add(index, &item, 1);
        return flush(place, leaving);
    }
    Cache& cache = *place.cache;
    bool is_full = false;
    {
        const Entered entered(*this, cache);
        Cache::Bin& bin = cache.bins[index];
        bin.make_room(index);
        if (bin.count == bin.capacity) (void)leaving.add_oldest(cache, index, batch_of(index));
        if (cache.cached.get() + size > kCacheBytes) make_room(cache, size, leaving);
        is_full = cache.cached.get() + size > kCacheBytes;
    }
    if (is_full) leaving.add(index, &item, 1);
    if (!leaving.empty()) flush(place, leaving);
    if (is_full) return;
    const Entered entered(*this, cache);
    Cache::Bin& bin = cache.bins[index];
    bin.items[bin.count++] = item;
    cache.cached.add(size);
}

// Few blocks, for the one call that pays: of the large classes in turn, so that what is not wanted any more leaves; of the
// small ones, which need many for as many bytes, where there is nothing else.
void Pool::make_room(Cache& cache, std::size_t size, Leaving& leaving) {
    const std::size_t most = kCacheBytes - std::max(size, kCacheRoom);
    unsigned left = kMostLeaving;
    for (unsigned looks = kClasses - kSmallClasses; looks != 0 && left != 0; --looks) {
        if (cache.cached.get() <= most) return;
        left -= leaving.add_oldest(cache, cache.leaving, std::min(left, 2U));
        cache.leaving = (cache.leaving == kSmallClasses ? kClasses : cache.leaving) - 1;
    }
    for (unsigned index = kSmallClasses; index-- != 0 && left != 0 && cache.cached.get() > most;) {
        left -= leaving.add_oldest(cache, index, left);
    }
}

// From the cache into the stream's arena.
void Pool::flush(const Place& place, const Leaving& leaving) {
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
        batch.items.assign(leaving.begin(), leaving.end());
        return_batch(arena, batch);
        return;
    }
    heap_.prefetch(leaving.begin(), leaving.end());
    leaving.each([&](unsigned index, const Item* items, unsigned count) {
        if (is_kept(index) && count >= batch_of(index)) {  // one size that comes in numbers is wanted in numbers
            heap_.keep(arena, index, items, count);
        } else {
            heap_.give(arena, items, count);
        }
    });
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
