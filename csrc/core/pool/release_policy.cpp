// SPDX-License-Identifier: MIT
// core/pool/release_policy.cpp: what the owner's release policy wants gone: at once, or when the work that it waits for has run.
#include <utility>
#include <vector>

#include "pool.hpp"

namespace portamem::pool {
namespace {

// Pools whose policy the calling thread is asking, the latest first.
struct Asking {
    explicit Asking(const Pool& asked) noexcept : pool(asked), outer(innermost) { innermost = this; }
    ~Asking() { innermost = outer; }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

    static bool is_about(const Pool& asked) noexcept {
        for (const Asking* asking = innermost; asking != nullptr; asking = asking->outer) {
            if (&asking->pool == &asked) return true;
        }
        return false;
    }

    const Pool& pool;
    Asking* const outer;
    static thread_local Asking* innermost;
};
thread_local Asking* Asking::innermost = nullptr;

}  // namespace

std::size_t Pool::ask_policy(std::size_t reserved) {
    const Asking asking(*this);
    return ops_.keep(self_, reserved);
}

// Asks the policy once for every part of the pool that came back. Of threads that ask at once, the one that asked last is
// obeyed later.
void Pool::after_free() {
    if (ops_.keep == nullptr || Asking::is_about(*this)) return;  // a policy may use its own pool: it is asked once
    std::size_t reserved = 0;
    std::uint64_t question = 0;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        reserved = heap_.reserved();
        if (reserved == 0) return;
        question = ++asked_;
    }
    const std::size_t keep = ask_policy(reserved);
    bool is_complete = true;
    if (reserved > keep) {
        is_complete = reclaim(false);
        (void)release(keep, false);
    }
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (question < answered_) return;
        answered_ = question;
        const bool asks_later = keep == kAsksLater;
        const bool waits = asks_later || (heap_.reserved() > keep && (!is_complete || !heap_.waiting().empty()));
        if (!asks_later || due_keep_ == kKeepsAll) due_keep_ = waits ? keep : kKeepsAll;
        due_is_new_ = waits;
        if (!waits || is_due_ || ops_.later == nullptr) return;
        is_due_ = true;
    }
    if (ops_.later(self_) == PORTAMEM_POOL_OK) return;
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    is_due_ = false;
}

// Streams are not marked here, and caches are left alone: what was free when the policy was asked is behind its marks, and
// what comes later asks for itself. But where another thread put everything together just then, and may have passed by
// what was freed.
bool Pool::release_due() {
    std::size_t keep = kKeepsAll;
    std::size_t reserved = 0;
    bool is_new = false;
    std::vector<std::uint64_t> waiting;
    try {
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            keep = due_keep_;
            if (keep == kKeepsAll || is_closed()) {
                is_due_ = false;
                return true;
            }
            for (const auto& queue : heap_.waiting().queues()) waiting.push_back(queue.first);
            is_new = std::exchange(due_is_new_, false);
            reserved = heap_.reserved();
        }
        if (keep == kAsksLater) {
            keep = ask_policy(reserved);
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (due_keep_ == kAsksLater) due_keep_ = keep;
            if (keep == kAsksLater || keep == kKeepsAll) {  // nothing is to go yet, or at all
                due_is_new_ = due_is_new_ || (is_new && keep == kAsksLater);
                is_due_ = due_keep_ != kKeepsAll;
                return !is_due_;
            }
        }
        const CallGuard inside(*this);
        const bool is_passed_by = is_new && !reclaim(false);  // another thread is about it: this is looked at again
        bool came_back = is_new && !is_passed_by;
        for (const std::uint64_t stream : waiting) {
            while (poll_one(stream)) came_back = true;
        }
        if (came_back) {
            join_common();
            (void)release(keep, false);
        }
        if (is_passed_by) {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            due_is_new_ = due_is_new_ || due_keep_ != kKeepsAll;
        }
    } catch (...) {  // the next free asks again
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        is_due_ = false;
        throw;
    }
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    const bool waits = due_keep_ != kKeepsAll && heap_.reserved() > due_keep_ && !heap_.waiting().empty();
    if (due_is_new_ || waits) return false;  // another free has asked meanwhile, or work still runs
    due_keep_ = kKeepsAll;
    is_due_ = false;
    return true;
}

void Pool::call_off_due() noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    due_keep_ = kKeepsAll;
    due_is_new_ = false;
}

}  // namespace portamem::pool
