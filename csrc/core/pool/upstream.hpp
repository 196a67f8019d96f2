// SPDX-License-Identifier: MIT
// core/pool/upstream.hpp: the resource below a pool: chunks asked for and given back, under the pool's limits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "callbacks.hpp"
#include "chunk_map.hpp"
#include "heap.hpp"
#include "transfer.hpp"

namespace portamem::pool {

/// Asks the upstream for chunks, and gives chunks back.
/// Invariant: reserved bytes and bytes under way never grow past the pool's limit, and are its claims on a limit of
/// many pools.
/// Locks: the heap's covers reserved bytes and transfers; the upstream is called with no lock.
class Upstream {
  public:
    Upstream(const Callbacks& callbacks, Heap& heap, const ChunkOwner& owner,
             const portamem_pool_options& options) noexcept
        : callbacks_(callbacks),
          heap_(heap),
          owner_(owner),
          granularity_(options.granularity > 1 ? options.granularity : 1),
          limit_(options.limit),
          transfers_(heap.mutex()) {}

    /// Give and change the most bytes reserved; 0: no limit. A lower limit takes nothing back: no chunk is asked for
    /// until there is room.
    std::size_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
    void set_limit(std::size_t limit) noexcept {
        limit_.store(limit, std::memory_order_relaxed);
        shortage_.has_ended();
    }
    Transfers& transfers() noexcept { return transfers_; }

    /// Takes bytes of the limits, for a chunk that the caller asks the upstream for. It looks and takes in one step.
    class Claim {
      public:
        /// Lowers nbytes to the room that there is, or to 0 where that is less than `least`. Throws Refused.
        Claim(Upstream& upstream, std::size_t least, std::size_t& nbytes);
        ~Claim() { give_up(); }
        /// Turns the claim into reserved bytes. The caller holds the heap's lock.
        void end() noexcept {
            transfer_.end(true);
            claimed_ = 0;
        }
        Claim(const Claim&) = delete;
        Claim& operator=(const Claim&) = delete;

      private:
        void give_up() noexcept;

        Upstream& upstream_;
        Transfer transfer_;
        std::size_t claimed_ = 0;
    };

    /// Returns the bytes of the upstream's memory that a chunk takes: `nbytes`, rounded up to its granularity.
    std::size_t whole(std::size_t nbytes) const noexcept {
        const std::size_t rest = nbytes % granularity_;
        return rest == 0 || nbytes > SIZE_MAX - granularity_ ? nbytes : nbytes - rest + granularity_;
    }
    /// Ask the upstream for a chunk, and give it back. The map of all chunks has it meanwhile.
    portamem_pool_status allocate(std::size_t nbytes, void* stream, void** ptr);
    int deallocate(void* ptr, std::size_t nbytes);

    /// Gives back whole chunks of the common arena until at most `keep` bytes are reserved. Returns the bytes that
    /// went. It stops at a chunk that the upstream refuses, which stays; with `throws` it then throws Refused.
    std::size_t release(std::size_t keep, bool throws);
    std::uint64_t releases() const noexcept { return releases_.load(std::memory_order_relaxed); }

    /// Remembers that the upstream or the limit had no room, until memory goes back or the limit changes.
    struct Shortage {
        std::size_t nbytes = SIZE_MAX;      ///< a chunk of so many bytes was refused; under the heap's lock
        std::atomic<bool> of_slabs{false};  ///< there was no room for one more slab, even after waiting
        std::atomic<bool> cuts_all{false};  ///< small blocks are cut from large ones, because there is no other place

        void has_ended() noexcept {
            of_slabs.store(false, std::memory_order_relaxed);
            cuts_all.store(false, std::memory_order_relaxed);
        }
    };
    Shortage& shortage() noexcept { return shortage_; }
    /// Notes that a chunk was refused. Returns the bytes to ask for instead: half as many, and at least `least`.
    std::size_t next_smaller(std::size_t nbytes, std::size_t least);

  private:
    const Callbacks& callbacks_;
    Heap& heap_;
    const ChunkOwner& owner_;
    const std::size_t granularity_;
    std::atomic<std::size_t> limit_;  ///< most bytes reserved; 0: no limit
    Transfers transfers_;
    Shortage shortage_;
    std::atomic<std::uint64_t> releases_{0};
};

}  // namespace portamem::pool
