// SPDX-License-Identifier: MIT
// core/pool/policy.cpp: what the owner's release policy wants gone: at once, or when the work that it waits for has run.
#include <thread>
#include <utility>
#include <vector>

#include "pool.hpp"

namespace portamem::pool {
namespace {

// The pool whose release_due the calling thread is inside of: the upstream may run code that closes that pool.
thread_local const Pool* releasing_here = nullptr;

}  // namespace

// Asks the policy once for every part of the pool that came back.
void Pool::after_free() {
    if (ops_.keep == nullptr) return;
    std::size_t reserved = 0;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        reserved = heap_.reserved();
    }
    if (reserved == 0) return;
    const std::size_t keep = ops_.keep(self_, reserved);
    if (reserved > keep) {
        reclaim(false);
        (void)release(keep, false);
    }
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        const bool waits = heap_.reserved() > keep && !heap_.waiting().empty();
        due_keep_ = waits ? keep : kKeepsAll;
        if (!waits || is_due_ || ops_.later == nullptr) return;
        is_due_ = true;
    }
    if (ops_.later(self_) == PORTAMEM_POOL_OK) return;
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    is_due_ = false;
}

// Streams are not marked here, and caches are left alone: what was free when the policy was asked is behind its marks, and
// what comes later asks for itself.
bool Pool::release_due() {
    const struct Releasing {
        explicit Releasing(Pool& pool) : of(pool), before(std::exchange(releasing_here, &pool)) {
            of.is_releasing_due_.store(true);
        }
        ~Releasing() {
            of.is_releasing_due_.store(false);
            releasing_here = before;
        }
        Pool& of;
        const Pool* before;
    } releasing(*this);
    std::size_t keep = kKeepsAll;
    std::vector<std::uint64_t> waiting;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        keep = due_keep_;
        if (keep == kKeepsAll || is_closed()) {
            is_due_ = false;
            return true;
        }
        for (const auto& queue : heap_.waiting().queues()) waiting.push_back(queue.first);
    }
    try {
        const Inside inside(*this);
        bool came_back = false;
        for (const std::uint64_t stream : waiting) {
            while (poll_one(stream)) came_back = true;
        }
        if (came_back) {
            join_common();
            (void)release(keep, false);
        }
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        if (heap_.reserved() > keep && !heap_.waiting().empty()) return false;
    } catch (...) {  // the next free asks again
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        is_due_ = false;
        throw;
    }
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    is_due_ = false;
    return true;
}

// Nothing is due any more, and no thread is on its way for it, but one whose call this is inside of.
void Pool::call_off_due() noexcept {
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        due_keep_ = kKeepsAll;
    }
    while (is_releasing_due_.load() && releasing_here != this) std::this_thread::yield();
}

}  // namespace portamem::pool
