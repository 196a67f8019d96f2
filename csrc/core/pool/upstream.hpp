// SPDX-License-Identifier: MIT
// core/pool/upstream.hpp: the resource below a pool: chunks asked for and given back, under the pool's limits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "callbacks.hpp"
#include "heap.hpp"
#include "transfer.hpp"

namespace portamem::pool {

/// Asks the upstream for chunks, and gives chunks back.
///
/// Invariant: reserved bytes plus bytes under way never exceed the pool's own limit, and the claims on a limit that
/// pools share are those bytes.
///
/// Locks: the heap's, for reserved bytes and transfers; the upstream is called with none.
class Upstream {
  public:
    Upstream(const Callbacks& callbacks, Heap& heap, std::size_t limit) noexcept
        : callbacks_(callbacks), heap_(heap), limit_(limit), transfers_(heap.mutex()) {}

    std::size_t limit() const noexcept { return limit_; }
    Transfers& transfers() noexcept { return transfers_; }

    /// Room under the limits for bytes that the upstream is asked for: looked for and taken in one step.
    class Claim {
      public:
        /// nbytes becomes what there is room for, or 0 where that is less than `least`. Throws Refused.
        Claim(Upstream& upstream, std::size_t least, std::size_t& nbytes);
        ~Claim() { give_up(); }
        /// The bytes are reserved now. Under the heap's lock.
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

    portamem_pool_status allocate(std::size_t nbytes, void* stream, void** ptr);
    int deallocate(void* ptr, std::size_t nbytes);

    /// Gives back whole chunks of the common arena, until at most `keep` bytes are reserved; answers how many bytes
    /// went. Where the upstream refuses one, it stays: `throws` says so by Refused.
    std::size_t release(std::size_t keep, bool throws);
    std::uint64_t releases() const noexcept { return releases_.load(std::memory_order_relaxed); }

    /// What the upstream had no room for, until memory goes back to it.
    struct Shortage {
        std::size_t nbytes = SIZE_MAX;      ///< a chunk of so many bytes was refused; under the heap's lock
        std::atomic<bool> of_slabs{false};  ///< there was no room for one more slab, after all waiting
        std::atomic<bool> cuts_all{false};  ///< small blocks are cut from large ones, as there is no other place
    };
    Shortage& shortage() noexcept { return shortage_; }
    /// Notes that a chunk was refused; answers what to ask for instead: half as much, and at least `least`.
    std::size_t next_smaller(std::size_t nbytes, std::size_t least);

  private:
    const Callbacks& callbacks_;
    Heap& heap_;
    const std::size_t limit_;  ///< most bytes reserved; 0: none
    Transfers transfers_;
    Shortage shortage_;
    std::atomic<std::uint64_t> releases_{0};
};

}  // namespace portamem::pool
