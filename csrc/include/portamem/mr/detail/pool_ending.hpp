// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_ending.hpp: the end of a pool whose last reference is gone.
#pragma once

#include <memory>
#include <utility>

#include "portamem/leaving.hpp"
#include "portamem/mr/detail/pool_runtime.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps a pool that ends while it cannot wait for the work that used its chunks: under a capture, or where a
/// signal has ended the wait. The reaper holds the pool, and tries to give the chunks back until all have gone.
class EndingPool : public Leaver {
  public:
    /// The destructor of the pool's resource calls this. It waits for the work that used the pool, and gives the chunks
    /// back. Where a capture forbids the wait, or a signal ends it, the reaper gives them back later.
    static void give_back(const std::shared_ptr<PoolRuntime>& pool) noexcept {
        if (portamem_forked() != 0 || !runtime_usable()) return;
        // A host function may not call the runtime.
        if (!InHostFunction::here() && pool->give_all_back()) return;
        try {
            Leaving::instance().add(std::shared_ptr<Leaver>(new EndingPool(pool)));
        } catch (...) {
            return;  // there is no host memory either: the chunks are lost to this process
        }
    }

    explicit EndingPool(std::shared_ptr<PoolRuntime> pool) : pool_(std::move(pool)) {
        resource = pool_->upstream().get();
        device_id = pool_->upstream()->traits().device_id();
    }

    bool has_run() noexcept override { return is_empty_; }
    bool needs_device() const noexcept override { return !is_empty_; }
    void wait_for_device() noexcept override { is_empty_ = pool_->give_all_back(); }
    bool go() noexcept override {
        if (is_empty_) pool_.reset();
        return is_empty_;
    }

  private:
    std::shared_ptr<PoolRuntime> pool_;
    bool is_empty_ = false;
};

}  // namespace detail

PORTAMEM_CLOSE
