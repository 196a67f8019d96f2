// SPDX-License-Identifier: MIT
// core/pool/cache.hpp: the blocks that one thread has freed on one stream.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "arena.hpp"
#include "owner_lock.hpp"
#include "page_map.hpp"

namespace portamem::pool {

class Pool;

/// A thread counts as one that only frees on a stream after this many looks without an allocation there.
inline constexpr unsigned kLooksUntilIdle = 8;

/// The most bytes of free memory in one cache. The largest cached block still leaves 16 MiB for smaller blocks.
inline constexpr std::size_t kCacheBytes = kLargestCached + (std::size_t{16} << 20);

/// A cache with more bytes than this sends one large block away for each large block that comes. The bytes above it are
/// room for the case in which the block that left was smaller: a call that sends two away is among the slowest.
inline constexpr std::size_t kFullBytes = kCacheBytes - (std::size_t{8} << 20);

/// Returns the bytes up to which a cache takes a block of a class without sending another away.
constexpr std::size_t free_room_of(unsigned index) noexcept { return index < kSmallClasses ? kCacheBytes : kFullBytes; }

/// The most pending blocks of a cache, and their most bytes. A single larger block may be pending too.
inline constexpr std::size_t kMostPending = 64;
inline constexpr std::size_t kMostPendingBytes = std::size_t{16} << 20;

/// Returns the most blocks of a class that one cache holds.
constexpr unsigned capacity_of(unsigned index) noexcept {
    const std::size_t size = size_of(index);
    if (size <= 4096) return 128;
    if (size <= kLargestSmall) return 64;
    const std::size_t count = (std::size_t{16} << 20) / size;
    return count < 1 ? 1 : (count > 32 ? 32 : static_cast<unsigned>(count));
}

inline constexpr unsigned kMostAtOnce = 16;

/// Returns how many blocks of a class move between cache and heap at once: enough to share the cost of the heap's lock,
/// and few enough for the one call that pays for all of them.
constexpr unsigned batch_of(unsigned index) noexcept {
    const unsigned half = (capacity_of(index) + 1) / 2;
    return half < kMostAtOnce ? half : kMostAtOnce;
}

/// Bins of free blocks that the stream may use at once. One thread owns the cache; other threads shut its lock first.
class alignas(64) Cache {
  public:
    Cache(std::shared_ptr<Pool> of, std::shared_ptr<Arena> beneath, std::uint64_t identity,
          bool needs_event_before_reuse)
        : pool(of.get()),
          stream(identity),
          arena(std::move(beneath)),
          keep(std::move(of)),
          deferred(needs_event_before_reuse) {}

    /// A count that the thread inside the lock writes and every thread may read.
    class Count {
      public:
        Count& operator=(std::uint16_t value) noexcept {
            value_.store(value, std::memory_order_relaxed);
            return *this;
        }
        operator std::uint16_t() const noexcept { return value_.load(std::memory_order_relaxed); }
        std::uint16_t operator++(int) noexcept {
            const std::uint16_t before = *this;
            *this = static_cast<std::uint16_t>(before + 1);
            return before;
        }
        std::uint16_t operator--() noexcept {
            const auto after = static_cast<std::uint16_t>(*this - 1);
            *this = after;
            return after;
        }

      private:
        std::atomic<std::uint16_t> value_{0};
    };
    struct Bin {
        std::unique_ptr<Item[]> items;  ///< made at first use
        Count count;
        std::uint16_t capacity = 0;
        std::uint32_t size = 0;  ///< of a block; set when the bin is made
    };

    // Every call reads these fields.
    Pool* const pool;
    const std::uint64_t stream;
    OwnerLock lock;

    // A counter that the thread inside the lock writes and every thread may read.
    class Counter {
      public:
        void add(std::uint64_t delta) noexcept {
            value_.store(value_.load(std::memory_order_relaxed) + delta, std::memory_order_relaxed);
        }
        void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
        std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

      private:
        std::atomic<std::uint64_t> value_{0};
    };
    Counter cached;  ///< bytes in bins and in `pending`
    Counter hits;    ///< allocations, also those that the cache could not serve itself
    Counter frees;   ///< frees, likewise
    /// Requested bytes, allocated less freed. One cache's may be below zero, because a thread may free what another has
    /// allocated; the sum over the whole set is not, once all calls have ended.
    Counter live_bytes;

    /// Returns the page map's entry for an address, null where there is none. The address may still be another block's.
    const Block* block_of(const PageMap& pages, std::uintptr_t address) noexcept {
        const std::uintptr_t key = address >> PageMap::kLeafBits;
        if (__builtin_expect(leaf_key != key, 0)) {
            const PageMap::Leaf* const found = pages.leaf_of(address);
            if (found == nullptr) return nullptr;
            leaf_key = key;
            leaf = found;
        }
        return PageMap::find_in(*leaf, address);
    }
    std::uintptr_t leaf_key = ~std::uintptr_t{0};
    const PageMap::Leaf* leaf = nullptr;  ///< the leaf of the latest look-up

    std::array<Bin, kClasses> bins;
    unsigned largest = kSmallClasses;  ///< the largest class with a bin, kSmallClasses at least

    /// Whether the cache has a bin for a class. The shared classes are in the arena for all threads of the stream,
    /// except for memory that waits for events and for a stream that one thread has for itself.
    bool holds(unsigned index) const noexcept { return !is_shared(index) || deferred || arena->is_per_thread; }

    /// Returns the bin of a class, and makes it at first use.
    Bin& bin_for(unsigned index) {
        Bin& bin = bins[index];
        if (bin.capacity != 0) return bin;
        bin.items = std::make_unique<Item[]>(capacity_of(index));
        bin.size = static_cast<std::uint32_t>(size_of(index));
        bin.capacity = static_cast<std::uint16_t>(capacity_of(index));
        if (index > largest) largest = index;
        return bin;
    }

    /// Takes a block for nbytes, which are of class `index`, and sets `out` to its state. A large request may get a
    /// block up to kMostAbove classes larger, which costs less than cutting one.
    bool take_cached(unsigned index, std::size_t nbytes, Item& item, State& out) noexcept {
        const unsigned last = index < kSmallClasses ? index : std::min(index + kMostAbove, kClasses - 1);
        for (unsigned serving = index; serving <= last; ++serving) {
            Bin& bin = bins[serving];
            if (bin.count == 0) continue;
            item = bin.items[--bin.count];
            out = out_of(bin.size, nbytes);
            cached.add(0 - std::uint64_t{bin.size});
            return true;
        }
        return false;
    }

    /// Whether the bin of a class has room for one more block, and the cache for its bytes within `most` in all.
    bool has_room_for(unsigned index, std::size_t most) const noexcept {
        const Bin& bin = bins[index];
        return bin.count < bin.capacity && cached.get() + bin.size <= most;
    }

    // find_idle_cache() uses these two fields: it looks for blocks that the stream itself does not want back.
    std::uint64_t hits_seen = 0;       ///< `hits` at the latest look
    unsigned looks = kLooksUntilIdle;  ///< looks since the latest allocation

    unsigned leaving = kSmallClasses;  ///< the class that make_room() takes a block from next

    std::vector<Item> pending;  ///< freed, but usable only behind an event that is not recorded yet
    std::size_t pending_bytes = 0;
    /// Whether one more block of `size` bytes may be pending.
    bool has_pending_room(std::size_t size) const noexcept {
        return pending.empty() || (pending.size() < kMostPending && pending_bytes + size <= kMostPendingBytes);
    }
    /// The number of pending blocks from which the owner thread asks whether the stream's work has run. Each question
    /// in vain raises it. Only the owner thread uses it.
    std::size_t asks_from = 1;
    /// Makes a block pending. The caller has seen that there is room, also in the vector.
    void put_pending(const Item& item, std::size_t size) noexcept {
        if (pending.empty()) asks_from = 1;
        pending.push_back(item);
        pending_bytes += size;
        cached.add(size);
        pending_blocks.add(1);
        if (size > pending_most.get()) pending_most.set(size);
    }
    /// Updates the counters after blocks have left `pending`.
    void note_pending() noexcept {
        pending_blocks.set(pending.size());
        if (pending.empty()) pending_most.set(0);
    }
    Counter pending_blocks;
    Counter pending_most;  ///< bytes of the largest pending block since `pending` was empty

    Batches spare;            ///< the owner thread's room for blocks in its hands when the cache ends (Pool::got)
    bool is_flushed = false;  ///< chosen by CacheSet::flush(); under the registry's lock

    const std::shared_ptr<Arena> arena;  ///< the arena of the stream
    const std::shared_ptr<Pool> keep;
    const bool deferred;                 ///< freed blocks go to `pending`
    std::atomic<bool> has_ended{false};  ///< its stream or its pool is gone: the cache is shut for good, and empty
    std::atomic<bool> has_lost_thread{false};  ///< its thread is gone: the next flush that empties the cache ends it
};

}  // namespace portamem::pool
