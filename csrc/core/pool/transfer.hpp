// SPDX-License-Identifier: MIT
// core/pool/transfer.hpp: memory that moves between a pool and its upstream or between streams; calls that wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace portamem::pool {

/// All transfers of a pool. Memory under way is neither free in the pool nor the upstream's, and counts against limits.
/// The heap's lock, which `mutex` names, covers the fields.
struct Transfers {
    explicit Transfers(std::mutex& heap_mutex) noexcept : mutex(heap_mutex) {}

    std::mutex& mutex;
    std::size_t nbytes = 0;         ///< bytes under way
    unsigned under_way = 0;         ///< transfers under way
    std::uint64_t arrived = 0;      ///< transfers that ever ended well
    std::uint64_t given_up = 0;     ///< transfers that did not: limits have their room again
    std::condition_variable ended;  ///< notified at the end of each
};

/// One chunk, or the free memory of a donor (0 bytes here), that the calling thread moves.
class Transfer {
  public:
    explicit Transfer(Transfers& all) noexcept : all_(all) {}
    ~Transfer();
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    // The caller of both holds the heap's lock.
    void begin(std::size_t nbytes) noexcept;
    void end(bool has_arrived) noexcept;
    /// Takes the heap's lock and calls end(false).
    void give_up();

  private:
    friend class TransferWait;

    static thread_local Transfer* innermost_;

    Transfers& all_;
    std::size_t nbytes_ = 0;
    Transfer* outer_ = nullptr;
    bool is_under_way_ = false;
};

/// Waits for the transfers of other threads, on behalf of a call that has found no memory.
class TransferWait {
  public:
    explicit TransferWait(Transfers& all);
    ~TransferWait() { innermost_ = outer_; }
    TransferWait(const TransferWait&) = delete;
    TransferWait& operator=(const TransferWait&) = delete;

    /// Whether a transfer has arrived since the last question, or arrives before `until`; at a limit, also whether one
    /// was given up. A thread that moves memory itself, as where the upstream calls the pool, does not wait.
    bool has_arrived(std::chrono::steady_clock::time_point until, bool is_at_limit);

  private:
    friend class Transfer;

    static thread_local TransferWait* innermost_;

    Transfers& all_;
    // These are the values of `arrived` and `given_up` that the call has seen, plus its own transfers since.
    std::uint64_t seen_ = 0;
    std::uint64_t seen_given_up_ = 0;
    TransferWait* outer_ = nullptr;
};

}  // namespace portamem::pool
