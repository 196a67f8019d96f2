// SPDX-License-Identifier: MIT
// core/pool/release.cpp: gives memory back to the upstream, by the release policy and by trim.
#include <cstdint>

#include "pool.hpp"

namespace portamem::pool {

// Asks the policy after each free that takes the full path, and gives back the memory that the policy does not want.
void Pool::after_free() {
    if (!policy_.is_set() || policy_.is_asked_here()) return;
    std::size_t reserved = 0;
    const std::uint64_t question = policy_.begin_question(reserved);
    if (question == 0) return;
    const std::size_t keep = policy_.ask(reserved);
    bool is_complete = true;
    if (reserved > keep) {
        is_complete = reclaim(false);
        (void)upstream_.release(keep, false);
    }
    policy_.end_question(question, keep, is_complete);
}

// Marks no streams and leaves caches alone: memory that was free when the policy was asked is behind its marks, and
// later memory asks for itself. It reclaims only where another thread was putting everything together just then, and
// may have passed by the memory that was freed.
bool Pool::release_due() {
    try {
        ReleasePolicy::Due due;
        if (!policy_.begin_due(due, is_closed())) return true;
        if (const auto is_over = policy_.ask_again(due)) return *is_over;
        const CallGuard inside(*this);
        const bool is_passed_by = due.is_new && !reclaim(false);  // another thread is at it: look again later
        bool came_back = due.is_new && !is_passed_by;
        for (const std::uint64_t stream : due.waiting) {
            while (events_.poll_one(stream)) came_back = true;
        }
        if (came_back) {
            join_common();
            (void)upstream_.release(due.keep, false);
        }
        if (is_passed_by) policy_.look_again();
    } catch (...) {
        policy_.fail_due();
        throw;
    }
    return policy_.end_due();
}

void Pool::call_off_due() noexcept { policy_.call_off(); }

void Pool::trim(std::size_t keep) {
    const CallGuard inside(*this);
    (void)reclaim(true);
    (void)upstream_.release(keep, true);
    bool is_left = false;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        is_left = heap_.reserved() > keep;
    }
    if (is_left && drain_own_streams()) (void)upstream_.release(keep, true);
}

// Waits for the work of one stream only, and then puts together what has run. The stream's handle may have had other
// identities, of Streams that came and went and of other threads: their marks have happened as well by then. `stream`
// is null where it cannot be marked any more.
void Pool::trim_stream(std::uint64_t identity, void* stream, std::size_t keep) {
    const CallGuard inside(*this);
    if (stream != nullptr) events_.synchronize(events_.mark_here(stream));
    reclaim_behind(identity, stream);
    (void)upstream_.release(keep, true);
}

}  // namespace portamem::pool
