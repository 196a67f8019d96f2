// SPDX-License-Identifier: MIT
// core/pool/chunk_map.hpp: finds the pool of an address, of all pools of the process, without a lock.
//
// A region has 2 MiB. It knows the chunk that has it, or an array of the chunks that have part of it, the newest first.
// A chunk that a pool takes of another pool is newer than the chunk that it lies in, and so the outermost pool is
// found. What the map gives up is freed when no thread reads any more: a thread that reads holds its own OwnerLock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "owner_lock.hpp"
#include "portamem/abi/address_api.h"

namespace portamem::pool {

class Pool;

/// Says which resource a pool belongs to. The pool has it from its first chunk to its end.
struct ChunkOwner {
    Pool* pool = nullptr;
    std::atomic<const portamem_known_ops*> ops{nullptr};  ///< null before the resource is shown, and after its end
    const portamem_known_ops* ops_when_shown = nullptr;
    void* resource = nullptr;
    portamem_backend backend = PORTAMEM_BACKEND_HOST;
    std::uint64_t identity = 0;
    std::atomic<bool> is_covered{false};  ///< a resource that knows its blocks stands over the pool, or has stood
};

class ChunkMap {
  public:
    /// Represents a chunk. One that a pool is giving back counts as gone.
    struct Span {
        std::uintptr_t begin;
        std::uintptr_t end;
        const ChunkOwner* owner;
        std::atomic<bool> is_here{true};
        Span* next_retired = nullptr;

        bool has(std::uintptr_t address) const noexcept {
            return address - begin < end - begin && is_here.load(std::memory_order_acquire);
        }
    };

    /// Returns the map of the process, which is never destroyed.
    static ChunkMap& instance() noexcept;

    /// Lets the calling thread read the map, and what it finds there, until its end. It may take the lock of a pool's
    /// heap meanwhile, and may not read twice. In a forked child the map is closed: a thread that the child does not
    /// have may hold its lock.
    class Reading {
      public:
        Reading() noexcept : own_(own_lock_) {
            if (__builtin_expect(own_ == nullptr || !own_->enter(), 0)) begin();
        }
        ~Reading() {
            if (own_ != nullptr) own_->leave();
            if (__builtin_expect(has_lock_, 0)) instance().mutex_.unlock();
        }
        Reading(const Reading&) = delete;
        Reading& operator=(const Reading&) = delete;

        explicit operator bool() const noexcept { return own_ != nullptr || has_lock_; }
        /// Keeps the right to read beyond this object: the thread stores 0 in the word to give it up. Null where the
        /// thread reads by the map's lock.
        std::uint32_t* kept() noexcept { return own_ == nullptr ? nullptr : std::exchange(own_, nullptr)->word(); }

      private:
        [[gnu::cold, gnu::noinline]] void begin() noexcept;

        OwnerLock* own_;  ///< null: the thread has the map's lock instead, or may not read
        bool has_lock_ = false;
    };

    /// Returns the newest chunk that has an address; null where none has. Only for a thread that reads.
    static const Span* find(std::uintptr_t address) noexcept {
        const Region* const region = region_of(address);
        if (region == nullptr) return nullptr;
        const std::uintptr_t entry = region->load(std::memory_order_acquire);
        if (entry == 0) return nullptr;
        if (__builtin_expect((entry & kIsArray) != 0, 0)) return find_in(*array_of(entry), address);
        const Span* const span = reinterpret_cast<const Span*>(entry);
        return span->has(address) ? span : nullptr;
    }

    // ---- for callers that hold no lock ----

    /// Adds a chunk. On std::bad_alloc nothing has changed.
    void add(const void* ptr, std::size_t nbytes, const ChunkOwner& owner);
    /// Says that a chunk goes back. Then remove() or stays() ends that.
    Span* leaves(const void* ptr, const ChunkOwner& owner) noexcept;
    static void stays(Span* span) noexcept {
        if (span != nullptr) span->is_here.store(true, std::memory_order_release);
    }
    void remove(Span* span) noexcept;
    /// Removes all chunks of a pool that ends, and returns when no thread reads them any more.
    void remove_all(const ChunkOwner& owner) noexcept;
    /// Returns when no thread reads what was there before.
    void wait_for_readers() noexcept;

  private:
    static constexpr unsigned kRegionBits = 21;
    static constexpr unsigned kBits = 12;
    static constexpr std::size_t kEntries = std::size_t{1} << kBits;
    static constexpr unsigned kAddressBits = kRegionBits + 3 * kBits;
    static constexpr std::uintptr_t kIsArray = 1;
    static constexpr std::size_t kMostRetired = 64;

    /// The address of a Span, or of an Array plus kIsArray; 0 where no chunk is.
    using Region = std::atomic<std::uintptr_t>;
    using Leaf = std::array<Region, kEntries>;
    using Middle = std::array<std::atomic<Leaf*>, kEntries>;

    /// Has the chunks of a region. A chunk that is gone leaves null behind.
    using Array = std::vector<std::atomic<const Span*>>;

    struct Reader {
        OwnerLock lock;
        bool is_in_use = true;
    };
    struct EndOfThread;

    ChunkMap() = default;

    static bool covers(std::uintptr_t address) noexcept { return address >> kAddressBits == 0; }
    static Array* array_of(std::uintptr_t entry) noexcept { return reinterpret_cast<Array*>(entry & ~kIsArray); }
    static const Region* region_of(std::uintptr_t address) noexcept {
        if (!covers(address)) return nullptr;
        const Middle* const middle = top_[address >> (kRegionBits + 2 * kBits)].load(std::memory_order_acquire);
        if (middle == nullptr) return nullptr;
        const Leaf* const leaf =
            (*middle)[address >> (kRegionBits + kBits) & (kEntries - 1)].load(std::memory_order_acquire);
        return leaf == nullptr ? nullptr : &(*leaf)[address >> kRegionBits & (kEntries - 1)];
    }
    static const Span* find_in(const Array& array, std::uintptr_t address) noexcept;

    static Region& region_for(std::uintptr_t address);
    static std::vector<const Span*> spans_of(std::uintptr_t entry);
    static bool is_empty(std::uintptr_t entry) noexcept;
    void take_out(Span& span) noexcept;
    void wait_locked() noexcept;
    OwnerLock* new_reader() noexcept;

    static std::array<std::atomic<Middle*>, kEntries> top_;
    /// The default TLS model would call a function for each access.
    __attribute__((tls_model("initial-exec"))) static __thread OwnerLock* own_lock_;
    std::mutex mutex_;  ///< only the heap's is taken by threads that have it, and only to read
    std::vector<Span*> spans_;
    std::vector<Reader*> readers_;
    Span* retired_spans_ = nullptr;
    std::size_t retired_ = 0;  ///< spans and arrays that wait until no thread reads them
    std::vector<const Array*> retired_arrays_;
};

}  // namespace portamem::pool
