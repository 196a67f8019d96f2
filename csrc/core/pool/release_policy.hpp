// SPDX-License-Identifier: MIT
// core/pool/release_policy.hpp: the owner's release policy: how much to keep reserved, asked after memory came back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "callbacks.hpp"
#include "heap.hpp"

namespace portamem::pool {

/// Asks the owner's release policy, and remembers an answer that cannot be obeyed at once.
/// Invariant: while an answer is due, `later` has told the owner, and the owner calls release_due until nothing is due.
/// Locks: the heap's covers the fields; the policy is asked with no lock.
class ReleasePolicy {
  public:
    static constexpr std::size_t kKeepsAll = SIZE_MAX;
    static constexpr std::size_t kAsksLater = PORTAMEM_POOL_ASK_LATER;

    ReleasePolicy(const Callbacks& callbacks, Heap& heap) noexcept : callbacks_(callbacks), heap_(heap) {}

    bool is_set() const noexcept { return callbacks_.ops.keep != nullptr; }
    /// Whether the calling thread is inside of this policy. A policy that uses its own pool is not asked again.
    bool is_asked_here() const noexcept;
    /// Asks how many of the reserved bytes to keep. kKeepsAll keeps all; kAsksLater says that the answer is not ready.
    std::size_t ask(std::size_t reserved);

    /// Returns the number of the question that the caller is about to ask, and the bytes reserved now; 0 where none
    /// are.
    std::uint64_t begin_question(std::size_t& reserved);
    /// Ends a question. Its answer was obeyed as far as no wait was needed; is_complete: all memory was looked at. The
    /// rest is due now, and the owner is told. If several questions are asked at once, the latest one's answer counts.
    void end_question(std::uint64_t question, std::size_t keep, bool is_complete);

    /// An answer that is due.
    struct Due {
        std::size_t keep = kKeepsAll;
        std::size_t reserved = 0;
        bool is_new = false;                 ///< no thread has looked at it yet
        std::vector<std::uint64_t> waiting;  ///< streams that have memory behind marks
    };
    /// Reads the answer that is due. False: nothing is due.
    bool begin_due(Due& due, bool is_closed);
    /// Asks again, where the answer was kAsksLater. A returned value: there is nothing to release now; true: nothing is
    /// due any more.
    std::optional<bool> ask_again(Due& due);
    /// Has the answer looked at again: another thread was putting memory together, and may have passed by some.
    void look_again();
    /// Ends a look at the answer that is due. True: nothing is due any more.
    bool end_due();
    /// Ends a look that failed: the next free asks anew.
    void fail_due() noexcept;
    /// Gives up the answer that is due.
    void call_off() noexcept;

  private:
    const Callbacks& callbacks_;
    Heap& heap_;
    std::size_t due_keep_ = kKeepsAll;  ///< bytes that the policy wants kept, while memory waits for its work
    bool is_due_ = false;               ///< the owner was told
    bool due_is_new_ = false;           ///< no thread has looked at it yet
    std::uint64_t asked_ = 0;           ///< the number of the latest question
    std::uint64_t answered_ = 0;        ///< the latest question that was answered
};

}  // namespace portamem::pool
