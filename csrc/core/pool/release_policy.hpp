// SPDX-License-Identifier: MIT
// core/pool/release_policy.hpp: how much the pool's owner wants reserved, asked after memory came back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "callbacks.hpp"
#include "heap.hpp"

namespace portamem::pool {

/// Asks the owner's release policy, and remembers an answer that cannot be obeyed at once.
///
/// Invariant: while an answer is due, the owner has been told by `later`, and calls release_due until nothing is.
///
/// Locks: the fields are under the heap's; the policy is asked with none.
class ReleasePolicy {
  public:
    static constexpr std::size_t kKeepsAll = SIZE_MAX;
    static constexpr std::size_t kAsksLater = PORTAMEM_POOL_ASK_LATER;

    ReleasePolicy(const Callbacks& callbacks, Heap& heap) noexcept : callbacks_(callbacks), heap_(heap) {}

    bool is_set() const noexcept { return callbacks_.ops.keep != nullptr; }
    /// Whether the calling thread is inside of this policy, which may use its own pool: it is asked once.
    bool is_asked_here() const noexcept;
    /// Asks how many of the reserved bytes to keep: kKeepsAll, or kAsksLater for an answer that is not ready.
    std::size_t ask(std::size_t reserved);

    /// The number of a question that is about to be asked, and the bytes reserved now; 0 where none are.
    std::uint64_t begin_question(std::size_t& reserved);
    /// The answer to a question was obeyed as far as nothing had to be waited for; is_complete: all memory was looked at.
    /// What is left is due, and the owner is told. Of threads that ask at once, the answer to the latest counts.
    void end_question(std::uint64_t question, std::size_t keep, bool is_complete);

    /// An answer that is due.
    struct Due {
        std::size_t keep = kKeepsAll;
        std::size_t reserved = 0;
        bool is_new = false;                 ///< nobody has looked at it yet
        std::vector<std::uint64_t> waiting;  ///< streams that have memory behind marks
    };
    /// False: nothing is due.
    bool begin_due(Due& due, bool is_closed);
    /// Asks again, where the answer was kAsksLater. An answer: nothing is to be released now, and whether that was all.
    std::optional<bool> ask_again(Due& due);
    /// Another thread was putting memory together, and may have passed by some: it is looked at again.
    void look_again();
    /// True: nothing is due any more.
    bool end_due();
    /// A look at what is due failed: the next free asks anew.
    void fail_due() noexcept;
    /// Nothing is due any more.
    void call_off() noexcept;

  private:
    const Callbacks& callbacks_;
    Heap& heap_;
    std::size_t due_keep_ = kKeepsAll;  ///< what the policy wants kept, while memory waits for its work
    bool is_due_ = false;               ///< the owner was told
    bool due_is_new_ = false;           ///< nobody has looked at it yet
    std::uint64_t asked_ = 0;           ///< questions
    std::uint64_t answered_ = 0;        ///< the latest question that was answered
};

}  // namespace portamem::pool
