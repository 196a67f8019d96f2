// SPDX-License-Identifier: MIT
// core/pool/owner_lock.hpp: a lock that costs its owner nothing and other threads much.
//
// The owner says with a plain store that it is inside, and then looks whether another thread shuts the lock. The
// processor may swap the two. Therefore a thread that shuts the lock first says so, and then makes every thread of the
// process pass a memory barrier (membarrier), as if the owner had passed one itself. Where the system has no such call,
// and under ThreadSanitizer, which does not see it, the owner's store is an exchange.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "portamem/detail/sanitizers.hpp"

namespace portamem::pool {

/// Whether the system can make every thread of the process pass a barrier. Fixed before the first lock is made.
#if !PORTAMEM_THREAD_SANITIZER
extern const bool has_process_barrier;
#else
inline constexpr bool has_process_barrier = false;
#endif

void process_barrier() noexcept;

/// A lock that one thread owns, enters and leaves all the time. Another thread that shuts it waits until the owner is
/// out.
class OwnerLock {
  public:
    /// Enters the lock. False while the lock is shut: the owner stays outside.
    bool enter() noexcept {
        if (__builtin_expect(has_process_barrier, 1)) {
            inside_.store(1, std::memory_order_relaxed);
            std::atomic_signal_fence(std::memory_order_seq_cst);
        } else {
            inside_.exchange(1, std::memory_order_seq_cst);
        }
        if (__builtin_expect(
                shut_.load(has_process_barrier ? std::memory_order_acquire : std::memory_order_seq_cst) == 0, 1)) {
            return true;
        }
        leave();
        return false;
    }
    void leave() noexcept { inside_.store(0, std::memory_order_release); }
    /// Returns the word in which a store of 0, which releases, does what leave() does.
    std::uint32_t* word() noexcept { return reinterpret_cast<std::uint32_t*>(&inside_); }

    /// These shut several locks with one barrier: begin_shut() for each, process_barrier(), end_shut() for each.
    void begin_shut() noexcept { shut_.store(1, std::memory_order_seq_cst); }
    void end_shut() const noexcept {
        while (inside_.load(has_process_barrier ? std::memory_order_acquire : std::memory_order_seq_cst) != 0) {
            std::this_thread::yield();
        }
    }
    void open() noexcept { shut_.store(0, std::memory_order_release); }

  private:
    static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
    std::atomic<std::uint32_t> inside_{0};
    std::atomic<std::uint32_t> shut_{0};
};

}  // namespace portamem::pool
