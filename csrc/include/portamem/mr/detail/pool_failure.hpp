// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_failure.hpp: exceptions of a pool's callbacks, kept until the pool's machinery has answered.
#pragma once

#include <exception>
#include <utility>

#include "portamem/abi/pool_api.h"
#include "portamem/detail/hearing.hpp"
#include "portamem/error.hpp"

PORTAMEM_OPEN

namespace detail {

/// Returns the exception that a callback has thrown on this thread since the latest call of a pool.
inline std::exception_ptr& pool_failure() noexcept {
    static thread_local std::exception_ptr kept;
    return kept;
}

/// Restores pool_failure() at the end of its scope to what it was at its beginning.
class PoolFailureKept {
  public:
    PoolFailureKept() noexcept : kept_(std::exchange(pool_failure(), nullptr)) {}
    ~PoolFailureKept() {
        if (restores_) pool_failure() = std::move(kept_);
    }
    PoolFailureKept(const PoolFailureKept&) = delete;
    PoolFailureKept& operator=(const PoolFailureKept&) = delete;
    void replace() noexcept { restores_ = false; }

  private:
    std::exception_ptr kept_;
    bool restores_ = true;
};

/// Runs a callback, and returns its status. An exception is kept for this thread; the status is `failed` then, or says
/// that there is no memory. Calls of the upstream and of the program's functions may be pools' too: only what fails
/// here is kept.
template <class Function>
int guarded(Function&& function, int failed = PORTAMEM_POOL_THROWN) noexcept {
    PoolFailureKept before;
    const HearingUnderLock locked;
    try {
        return function();
    } catch (const OutOfMemory&) {
        before.replace();
        pool_failure() = std::current_exception();
        return failed == PORTAMEM_POOL_THROWN ? static_cast<int>(PORTAMEM_POOL_OUT_OF_MEMORY) : failed;
    } catch (...) {
        before.replace();
        pool_failure() = std::current_exception();
        return failed;
    }
}

}  // namespace detail

PORTAMEM_CLOSE
