// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_release.hpp: how many bytes a pool keeps after a free: its release policy, and its share of a
// device.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "portamem/abi/pool_api.h"
#include "portamem/detail/owned.hpp"
#include "portamem/mr/detail/pool_limit.hpp"
#include "portamem/mr/pool_figures.hpp"

PORTAMEM_OPEN

namespace detail {

/// Holds the limit of a pool, and decides how much the pool gives back by itself.
class PoolRelease {
  public:
    /// Uses PORTAMEM_POOL_LIMIT for memory of a device where the options set no limit.
    PoolRelease(const PoolOptions& options, const MemoryTraits& memory) : options_(options) {
        if (options.limit == 0) default_limit_ = PoolLimit::of(memory);
    }

    /// Returns PORTAMEM_POOL_LIMIT as it is now, in bytes; 0 where it does not apply. Throws std::invalid_argument.
    std::size_t shared_limit_bytes() const { return default_limit_ ? default_limit_->bytes() : 0; }
    /// Returns PORTAMEM_POOL_LIMIT, which all pools of the device share, or null where it does not apply.
    const PoolLimit* shared_limit() const noexcept { return default_limit_.get(); }
    /// Returns whether frees can make the pool give memory back.
    bool gives_back() const noexcept {
        return options_.release != nullptr || (default_limit_ && default_limit_->is_share());
    }

    /// Returns how many of the reserved bytes to keep after a free; SIZE_MAX keeps all. PORTAMEM_POOL_ASK_LATER is no
    /// answer yet. `stats` is called where the policy needs it, and `peak` where that is enough.
    template <class Stats, class Peak>
    std::size_t kept(std::size_t reserved, const Stats& stats, const Peak& peak) noexcept {
        const std::size_t by_policy = kept_by_policy(stats, peak);
        const std::size_t by_share = kept_by_share(reserved);
        if (by_share == PORTAMEM_POOL_ASK_LATER && by_policy >= reserved) return by_share;
        return std::min(by_policy, by_share);
    }

  private:
    static constexpr std::size_t kKeepsAll = std::numeric_limits<std::size_t>::max();
    static constexpr std::chrono::milliseconds kShareHolds{20};
    static constexpr std::chrono::milliseconds kBetweenTelling{1};  // because giving back empties all caches

    template <class Stats, class Peak>
    std::size_t kept_by_policy(const Stats& stats, const Peak& peak) const noexcept {
        if (options_.release == nullptr) return kKeepsAll;
        if (const auto* const share = options_.release.template target<KeepShareOfPeak>()) return share->of(peak());
        try {
            return options_.release(stats()).value_or(kKeepsAll);
        } catch (...) {
            return kKeepsAll;  // a policy that fails keeps everything
        }
    }

    // Returns the share less what the process's other pools have, where the process has more of the device than its
    // share because other processes came. The processes are counted again only after a while, because that takes system
    // calls.
    std::size_t kept_by_share(std::size_t reserved) noexcept {
        if (!default_limit_ || !default_limit_->is_share()) return kKeepsAll;
        try {
            const auto now = std::chrono::steady_clock::now().time_since_epoch();
            auto counted = counted_.load(std::memory_order_relaxed);
            const bool is_old = now - std::chrono::steady_clock::duration(counted) >= kShareHolds;
            if (is_old && counted_.compare_exchange_strong(counted, now.count())) share_.store(default_limit_->bytes());
            auto told = told_.load(std::memory_order_relaxed);
            if (now - std::chrono::steady_clock::duration(told) < kBetweenTelling) return PORTAMEM_POOL_ASK_LATER;
            if (!told_.compare_exchange_strong(told, now.count())) return PORTAMEM_POOL_ASK_LATER;
            const std::size_t share = share_.load(std::memory_order_relaxed);
            const std::size_t claimed = default_limit_->claimed();
            return claimed <= share ? kKeepsAll : reserved - std::min(reserved, claimed - share);
        } catch (...) {
            return kKeepsAll;  // the caller that allocates is told what cannot be counted
        }
    }

    const PoolOptions& options_;
    Owned<PoolLimit> default_limit_;
    std::atomic<std::chrono::steady_clock::rep> told_{0};
    std::atomic<std::chrono::steady_clock::rep> counted_{0};  // when the other processes were counted,
    std::atomic<std::size_t> share_{kKeepsAll};               // and the share that came of it
};

}  // namespace detail

PORTAMEM_CLOSE
