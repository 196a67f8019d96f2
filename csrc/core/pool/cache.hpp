// SPDX-License-Identifier: MIT
// core/pool/cache.hpp: what one thread has freed on one stream.
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

/// A stream on which its thread has allocated nothing while the thread looked so often is one that only frees.
inline constexpr unsigned kLooksUntilIdle = 8;

/// Most bytes in one cache of what was freed: the largest block that it holds leaves room for others.
inline constexpr std::size_t kCacheBytes = kLargestCached + (std::size_t{16} << 20);

/// Where a cache holds more, each large block that comes sends one away. There are bytes above this so that it has room
/// even where that one was smaller: a call that has to send both is among the slowest.
inline constexpr std::size_t kFullBytes = kCacheBytes - (std::size_t{8} << 20);

/// The bytes that a block of a class may bring a cache to, for nothing.
constexpr std::size_t free_room_of(unsigned index) noexcept { return index < kSmallClasses ? kCacheBytes : kFullBytes; }

/// Most blocks that wait in a cache for one event, and their bytes, but for a single one.
inline constexpr std::size_t kMostPending = 64;
inline constexpr std::size_t kMostPendingBytes = std::size_t{16} << 20;

/// How many blocks of a class a cache holds at most.
constexpr unsigned capacity_of(unsigned index) noexcept {
    const std::size_t size = size_of(index);
    if (size <= 4096) return 128;
    if (size <= kLargestSmall) return 64;
    const std::size_t count = (std::size_t{16} << 20) / size;
    return count < 1 ? 1 : (count > 32 ? 32 : static_cast<unsigned>(count));
}

inline constexpr unsigned kMostAtOnce = 16;

/// How many blocks of a class go to the heap, or come from it, at once: enough to share its lock among them, and few
/// enough for the one call that pays for all.
constexpr unsigned batch_of(unsigned index) noexcept {
    const unsigned half = (capacity_of(index) + 1) / 2;
    return half < kMostAtOnce ? half : kMostAtOnce;
}

/// Bins of blocks that may be used on the stream at once. Owned by its thread; others come in through the lock.
class alignas(64) Cache {
  public:
    Cache(std::shared_ptr<Pool> of, std::shared_ptr<Arena> beneath, std::uint64_t identity,
          bool needs_event_before_reuse)
        : pool(of.get()),
          stream(identity),
          arena(std::move(beneath)),
          keep(std::move(of)),
          deferred(needs_event_before_reuse) {}

    /// Written by whoever has the lock, and read by all.
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
        std::uint32_t size = 0;  ///< of a block, once there is room for one
    };

    // What every call reads.
    Pool* const pool;
    const std::uint64_t stream;
    OwnerLock lock;

    // Counters are written by the owner, with the lock, and read by all.
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
    Counter cached;      ///< bytes in bins and in pending
    Counter hits;        ///< allocations
    Counter frees;       ///< of which blocks came back
    Counter live_bytes;  ///< allocated less freed, as asked; may be below zero, the sum over all caches is not

    /// The block that has an address, which may be another's; null where there is none.
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
    const PageMap::Leaf* leaf = nullptr;  ///< the latest

    std::array<Bin, kClasses> bins;
    unsigned largest = kSmallClasses;  ///< the largest class that has a bin; this, if no larger has

    /// Whether the cache has a bin for a class. Others are shared by the threads of the stream, in its arena, but for
    /// memory that waits for events, and for a stream that one thread has for itself.
    bool holds(unsigned index) const noexcept { return !is_shared(index) || deferred || arena->is_per_thread; }

    /// The bin of a class, with room.
    Bin& bin_for(unsigned index) {
        Bin& bin = bins[index];
        if (bin.capacity != 0) return bin;
        bin.items = std::make_unique<Item[]>(capacity_of(index));
        bin.size = static_cast<std::uint32_t>(size_of(index));
        bin.capacity = static_cast<std::uint16_t>(capacity_of(index));
        if (index > largest) largest = index;
        return bin;
    }

    /// Takes a block for nbytes, which are of the class `index`, and the state that it is out with: of its own class, or, of blocks that
    /// stand by themselves, of one a little larger, which costs less than to have one cut.
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

    /// For one block more of a class of which it has a bin, up to so many bytes in all.
    bool has_room_for(unsigned index, std::size_t most) const noexcept {
        const Bin& bin = bins[index];
        return bin.count < bin.capacity && cached.get() + bin.size <= most;
    }

    // For the owner's other caches, which look here for what the stream itself does not want back.
    std::uint64_t hits_seen = 0;       ///< by the latest look
    unsigned looks = kLooksUntilIdle;  ///< since it allocated last

    unsigned leaving = kSmallClasses;  ///< the class that makes room next

    std::vector<Item> pending;  ///< freed, and usable only behind an event that has not been recorded yet
    std::size_t pending_bytes = 0;
    /// Whether one more, of so many bytes, may wait for the same event.
    bool has_pending_room(std::size_t size) const noexcept {
        return pending.empty() || (pending.size() < kMostPending && pending_bytes + size <= kMostPendingBytes);
    }
    /// So many have to be pending before it is asked again whether the stream's work has run: more after each question in
    /// vain. The owner's own.
    std::size_t asks_from = 1;
    /// There is room, also in the vector.
    void put_pending(const Item& item, std::size_t size) noexcept {
        if (pending.empty()) asks_from = 1;
        pending.push_back(item);
        pending_bytes += size;
        cached.add(size);
        pending_blocks.add(1);
        if (size > pending_most.get()) pending_most.set(size);
    }
    /// Some of what was pending, or all, is so no more.
    void note_pending() noexcept {
        pending_blocks.set(pending.size());
        if (pending.empty()) pending_most.set(0);
    }
    Counter pending_blocks;
    Counter pending_most;  ///< the bytes of the largest since there was none

    Batches spare;            ///< room for what is in a caller's hands when the cache ends; his own
    bool is_flushed = false;  ///< under the registry's lock

    const std::shared_ptr<Arena> arena;  ///< of the stream
    const std::shared_ptr<Pool> keep;
    const bool deferred;                       ///< what is freed goes to pending
    std::atomic<bool> has_ended{false};        ///< its stream or its pool is gone: shut for good, and empty
    std::atomic<bool> has_lost_thread{false};  ///< whoever empties it ends it
};

}  // namespace portamem::pool
