// SPDX-License-Identifier: MIT
// core/pool/lend.cpp: gives idle memory of one pool back for another pool that finds none.
#include <memory>
#include <utility>

#include "pool.hpp"

namespace portamem::pool {

Pool::OtherPools::OtherPools(const Pool& pool) : pool_(pool) {}

bool Pool::OtherPools::have_given_back() noexcept {
    try {
        const portamem_pool_options& own = pool_.options();
        if (!std::exchange(is_listed_, true)) pools_ = pools_that_help(own.backend, own.device, &pool_);
    } catch (...) {
        return false;
    }
    while (!pools_.empty()) {
        const std::shared_ptr<Pool> next = std::move(pools_.back());
        pools_.pop_back();
        if (next->lend() != 0) return true;
    }
    return false;
}

// Calls the upstream with no lock held, as the pool's own calls do. Memory that work still uses stays behind its marks.
std::size_t Pool::lend() noexcept {
    if (is_closed() || CallGuard::is_of(*this)) return 0;
    const void* none = nullptr;
    if (!lender_.compare_exchange_strong(none, &calls_of_thread_)) return 0;
    std::size_t released = 0;
    void* held = nullptr;
    try {
        const CallGuard inside(*this);
        if (callbacks_.ops.hold != nullptr) held = callbacks_.ops.hold(callbacks_.self);
        if (held != nullptr || callbacks_.ops.hold == nullptr) {
            bool is_free = true;
            try {
                is_free = reclaim(false);
            } catch (...) {
                // A stream cannot be marked, or host memory is missing: memory that is idle by now goes back all the
                // same.
            }
            if (is_free) released = upstream_.release(0, false);
        }
    } catch (...) {
        // The pool was closed meanwhile, or its upstream fails: another pool may help.
    }
    if (held != nullptr) {
        rest(PORTAMEM_POOL_OK, false);
        lender_.store(nullptr, std::memory_order_release);
        callbacks_.ops.let_go(held);  // may end the owner
    } else {
        lender_.store(nullptr, std::memory_order_release);
    }
    return released;
}

bool Pool::is_in_call_over(portamem_backend backend, int device) noexcept {
    return CallGuard::is_of_any(
        [=](const Pool& pool) { return pool.options().backend == backend && pool.options().device == device; });
}

std::uint64_t lend_idle(portamem_backend backend, int device, std::size_t nbytes) noexcept {
    std::uint64_t released = 0;
    try {
        auto pools = pools_that_help(backend, device, nullptr);
        for (; !pools.empty() && released < nbytes; pools.pop_back()) released += pools.back()->lend();
    } catch (...) {
        // No list could be made, so no pool was asked.
    }
    return released;
}

}  // namespace portamem::pool
