// SPDX-License-Identifier: MIT
// core/pool/transfer.hpp: memory on its way, between a pool and its upstream or between streams, and calls that wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace portamem::pool {

/// All transfers of a pool. Memory under way is neither free in the pool nor the upstream's, and counts against limits.
/// The fields are under the heap's lock, which `mutex` names.
struct Transfers {
    explicit Transfers(std::mutex& heap_mutex) noexcept : mutex(heap_mutex) {}

    std::mutex& mutex;
    std::size_t nbytes = 0;         ///< under way
    unsigned under_way = 0;         ///< how many
    std::uint64_t arrived = 0;      ///< how many ended well, ever
    std::uint64_t given_up = 0;     ///< how many did not: limits have their room again
    std::condition_variable ended;  ///< one of them
};

/// One chunk, or what was free on a stream (0 bytes here), that the calling thread moves.
class Transfer {
  public:
    explicit Transfer(Transfers& all) noexcept : all_(all) {}
    ~Transfer();
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    // Both under the heap's lock.
    void begin(std::size_t nbytes) noexcept;
    void end(bool has_arrived) noexcept;
    /// Calls end(false), and takes that lock for it.
    void give_up();

  private:
    friend class TransferWait;

    static thread_local Transfer* innermost_;

    Transfers& all_;
    std::size_t nbytes_ = 0;
    Transfer* outer_ = nullptr;
    bool is_under_way_ = false;
};

/// The transfers of other threads, for a call that has found no memory.
class TransferWait {
  public:
    explicit TransferWait(Transfers& all);
    ~TransferWait() { innermost_ = outer_; }
    TransferWait(const TransferWait&) = delete;
    TransferWait& operator=(const TransferWait&) = delete;

    /// Whether something has arrived since the last question, or does up to that time; for a call at a limit, also
    /// whether something was given up. A thread that moves a chunk itself, as where the upstream calls the pool, asks
    /// and does not wait.
    bool has_arrived(std::chrono::steady_clock::time_point until, bool is_at_limit);

  private:
    friend class Transfer;

    static thread_local TransferWait* innermost_;

    Transfers& all_;
    // Of all that has arrived, and that was given up: what this call has seen, and what it moved itself.
    std::uint64_t seen_ = 0;
    std::uint64_t seen_given_up_ = 0;
    TransferWait* outer_ = nullptr;
};

}  // namespace portamem::pool
