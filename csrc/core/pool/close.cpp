// SPDX-License-Identifier: MIT
// core/pool/close.cpp: the end of a pool.
#include <new>
#include <thread>
#include <utility>

#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {

bool Pool::close() {
    if (is_closed()) return true;
    std::uint64_t blocks = 0;
    std::uint64_t nbytes = 0;
    live(blocks, nbytes);
    if (blocks != 0) return false;
    call_off_due();
    try {
        trim(0);  // errors arise here, while the pool is still open
        mark_all();
    } catch (const Refused&) {
        if (is_closed()) return true;  // another thread closed it meanwhile
        throw;
    }
    bool is_unused = false;
    caches_.shut_all([&](const CacheSet::Totals& totals) {
        std::uint64_t none = 0;
        is_unused =
            totals.allocated == totals.freed && empty_.load() == 0 && inside_.compare_exchange_strong(none, kClosed);
        return is_unused || is_closed();  // another thread closed it for good
    });
    if (!is_unused) return is_closed();
    shut_down();
    pool_has_ended();
    return true;
}

// Marks all streams. A captured stream refuses the mark: the memory that it used could never go back.
void Pool::mark_all() {
    const CallGuard inside(*this);
    std::vector<std::shared_ptr<Arena>> left;
    {
        const std::lock_guard<std::mutex> lock(heap_.mutex());
        for (const auto& [stream, arena] : heap_.arenas()) {
            if (heap_.reserved() != 0 && !arena->is_per_thread && !arena->is_of_call && !arena->has_ended) {
                left.push_back(arena);
            }
        }
    }
    try {
        for (const auto& arena : left) (void)events_.mark_of(*arena);
    } catch (const Refused& refusal) {
        if (refusal.status != PORTAMEM_POOL_BUSY) throw;
        throw Refused{PORTAMEM_POOL_INVALID,
                      "nothing is out, but a stream that used the pool is captured, and its work cannot be waited for "
                      "meanwhile: end the capture, then close the pool, which is open still"};
    }
}

void Pool::shut_down() noexcept {
    inside_.fetch_or(kClosed);
    while (inside_.load() != kClosed) std::this_thread::yield();
    const auto attempt = [](const auto& function) noexcept {
        for (int i = 0; i < 3; ++i) {
            try {
                return function();
            } catch (const std::bad_alloc&) {
                continue;  // nothing is lost by it, and host memory may be back
            } catch (...) {
                return;
            }
        }
    };
    attempt([this] { flush_all_caches(true); });
    // Memory that cannot be waited for does not go back, because work may still use it.
    attempt([this] { (void)reclaim(true); });
    try {
        (void)upstream_.release(0, false);
    } catch (...) {
    }
    forget_owner();
}

// Takes all that is the owner's out of the arenas: threads keep arenas while they remember their caches, and the owner
// is gone by then.
void Pool::forget_owner() noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    const auto strip = [this](Arena& arena) {
        arena.latest.reset();
        if (arena.ref != nullptr) callbacks_.ops.forget(callbacks_.self, std::exchange(arena.ref, nullptr));
    };
    for (const auto& entry : heap_.arenas()) strip(*entry.second);
    heap_.arenas().clear();
    heap_.waiting().clear();
    for (const auto& weak : ended_) {
        if (const auto arena = weak.lock()) strip(*arena);
    }
    strip(heap_.common());
    events_.forget_owner();
}

}  // namespace portamem::pool
