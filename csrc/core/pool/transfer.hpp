// SPDX-License-Identifier: MIT
// core/pool/transfer.hpp: a chunk on its way between a pool and its upstream, and those who wait for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "pool.hpp"

namespace portamem::pool {

/// One chunk, or what was free on a stream, that the calling thread moves.
class Pool::Transfer {
  public:
    explicit Transfer(Pool& pool) noexcept : pool_(pool) {}
    ~Transfer();
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    // Both under the heap's lock.
    void begin(std::size_t nbytes) noexcept;
    void end(bool has_arrived) noexcept;
    /// end(false), which takes that lock.
    void give_up();

  private:
    friend class Pool::TransferWait;

    static thread_local Transfer* innermost_;

    Pool& pool_;
    std::size_t nbytes_ = 0;
    Transfer* outer_ = nullptr;
    bool is_under_way_ = false;
};

/// What other threads move, for a call that has found no memory.
class Pool::TransferWait {
  public:
    explicit TransferWait(Pool& pool);
    ~TransferWait() { innermost_ = outer_; }
    TransferWait(const TransferWait&) = delete;
    TransferWait& operator=(const TransferWait&) = delete;

    /// Whether something has arrived since the last question, or does up to that time; for who is at a limit, also whether
    /// something was given up. It is waited for, but not by a thread that moves a chunk itself, as where the upstream
    /// comes back to the pool.
    bool has_arrived(std::chrono::steady_clock::time_point until, bool is_at_limit);

  private:
    friend class Pool::Transfer;

    static thread_local TransferWait* innermost_;

    Pool& pool_;
    // Of what has arrived in the pool, and of what was given up: all that was so, and what the call itself moved.
    std::uint64_t seen_ = 0;
    std::uint64_t seen_given_up_ = 0;
    TransferWait* outer_ = nullptr;
};

}  // namespace portamem::pool
