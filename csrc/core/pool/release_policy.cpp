// SPDX-License-Identifier: MIT
// core/pool/release_policy.cpp: asks and obeys the owner's release policy, at once or when the work has run that memory
// waits for.
#include "release_policy.hpp"

#include <mutex>
#include <utility>

namespace portamem::pool {
namespace {

// The policies that the calling thread is inside of, latest first.
struct Asking {
    explicit Asking(const ReleasePolicy& asked) noexcept : policy(asked), outer(innermost) { innermost = this; }
    ~Asking() { innermost = outer; }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

    const ReleasePolicy& policy;
    Asking* const outer;
    static thread_local Asking* innermost;
};
thread_local Asking* Asking::innermost = nullptr;

}  // namespace

bool ReleasePolicy::is_asked_here() const noexcept {
    for (const Asking* asking = Asking::innermost; asking != nullptr; asking = asking->outer) {
        if (&asking->policy == this) return true;
    }
    return false;
}

std::size_t ReleasePolicy::ask(std::size_t reserved) {
    const Asking asking(*this);
    return callbacks_.ops.keep(callbacks_.self, reserved);
}

std::uint64_t ReleasePolicy::begin_question(std::size_t& reserved) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    reserved = heap_.reserved();
    return reserved == 0 ? 0 : ++asked_;
}

void ReleasePolicy::end_question(std::uint64_t question, std::size_t keep, bool is_complete) {
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (question < answered_) return;
        answered_ = question;
        const bool asks_later = keep == kAsksLater;
        const bool waits = asks_later || (heap_.reserved() > keep && (!is_complete || !heap_.waiting().empty()));
        if (!asks_later || due_keep_ == kKeepsAll) due_keep_ = waits ? keep : kKeepsAll;
        due_is_new_ = waits;
        if (!waits || is_due_ || callbacks_.ops.later == nullptr) return;
        is_due_ = true;
    }
    if (callbacks_.ops.later(callbacks_.self) == PORTAMEM_POOL_OK) return;
    fail_due();
}

bool ReleasePolicy::begin_due(Due& due, bool is_closed) {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    due.keep = due_keep_;
    if (due.keep == kKeepsAll || is_closed) {
        is_due_ = false;
        return false;
    }
    for (const auto& queue : heap_.waiting().queues()) due.waiting.push_back(queue.first);
    due.is_new = std::exchange(due_is_new_, false);
    due.reserved = heap_.reserved();
    return true;
}

std::optional<bool> ReleasePolicy::ask_again(Due& due) {
    if (due.keep != kAsksLater) return std::nullopt;
    due.keep = ask(due.reserved);
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    if (due_keep_ == kAsksLater) due_keep_ = due.keep;
    if (due.keep != kAsksLater && due.keep != kKeepsAll) return std::nullopt;
    due_is_new_ = due_is_new_ || (due.is_new && due.keep == kAsksLater);
    is_due_ = due_keep_ != kKeepsAll;
    return !is_due_;
}

void ReleasePolicy::look_again() {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    due_is_new_ = due_is_new_ || due_keep_ != kKeepsAll;
}

bool ReleasePolicy::end_due() {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    const bool waits = due_keep_ != kKeepsAll && heap_.reserved() > due_keep_ && !heap_.waiting().empty();
    if (due_is_new_ || waits) return false;  // another free has asked meanwhile, or work still runs
    due_keep_ = kKeepsAll;
    is_due_ = false;
    return true;
}

void ReleasePolicy::fail_due() noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    is_due_ = false;
}

void ReleasePolicy::call_off() noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    due_keep_ = kKeepsAll;
    due_is_new_ = false;
}

}  // namespace portamem::pool
