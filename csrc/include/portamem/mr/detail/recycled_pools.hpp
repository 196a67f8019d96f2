// SPDX-License-Identifier: MIT
// portamem/mr/detail/recycled_pools.hpp: pools without a user are kept for the next resource.
//
// The reason is not time. Destroying a pool whose frees are still queued is documented as allowed, and NVIDIA's driver
// crashes or hangs in it when another thread waits for a stream or an event meanwhile (seen in a plain CUDA program
// without portamem, driver 580.159 on an H200; it fails also when an event says that the frees have run). Trimming such
// a pool is safe. So a pool is emptied, put back to how it was made, and never destroyed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/capture.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/kept.hpp"
#include "portamem/process_object.hpp"

PORTAMEM_OPEN

/// Keeps the pools of the process. It is thread-safe. It is leaked, as the pools are, when the process ends.
class RecycledPools {
  public:
    static RecycledPools& instance() {
        static auto& one = detail::process_object<RecycledPools>("recycled pools");
        return one;
    }

    /// Returns a pool without memory and with the settings that pools are made with. max_size 0 means as large as the
    /// device. Throws Error where the runtime makes none. The caller protects captures of other threads.
    rt::MemPool_t take(int device, std::size_t max_size) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            for (std::size_t i = free_.size(); i-- > 0;) {
                if (free_[i].device != device || free_[i].max_size != max_size) continue;
                const rt::MemPool_t pool = free_[i].pool;
                free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
                std::uint64_t reserved = 0;  // a device that was reset has none of its pools any more
                if (done(rt::MemPoolGetAttribute(pool, rt::MemPoolAttr::ReservedMemCurrent, &reserved))) return pool;
            }
        }
        rt::MemPool_t pool{};
        check(rt::MemPoolCreate(&pool, {{rt::LocationType::Device, device}, max_size}), "MemPoolCreate");
        return pool;
    }

    /// Takes a pool whose allocations have all been freed. Not all of the frees need have run: the memory goes back to
    /// the driver as they do. `granted` lists other devices that were given access. It waits for nothing.
    void put(int device, std::size_t max_size, rt::MemPool_t pool, detail::LightVector<int> granted) noexcept {
        try {
            auto empty = [this, device, max_size, pool, granted = std::move(granted),
                          give_up = std::chrono::steady_clock::now() + kPatience] {
                return !runtime_usable() || try_to_empty(device, max_size, pool, granted) ||
                       std::chrono::steady_clock::now() > give_up;
            };
            if (!empty()) Reaper::instance().add(std::move(empty));
        } catch (...) {
            // Host memory has run out: the pool is lost to this process, and its memory goes at the next trim of a
            // driver.
        }
    }

  private:
    struct Free {
        int device;
        std::size_t max_size;
        rt::MemPool_t pool;
    };

    // A pool that keeps its memory for longer is left alone.
    static constexpr std::chrono::minutes kPatience{5};

    // Returns true when nothing is left to do: the pool is in the free list, or of no use any more.
    bool try_to_empty(int device, std::size_t max_size, rt::MemPool_t pool,
                      const detail::LightVector<int>& granted) noexcept {
        try {
            const RelaxedCapture beside(device);
            std::uint64_t reserved = 0;
            if (!done(rt::MemPoolSetAttribute(pool, rt::MemPoolAttr::ReleaseThreshold, 0))) return true;
            if (!done(rt::MemPoolTrimTo(pool, 0))) return true;
            if (!done(rt::MemPoolGetAttribute(pool, rt::MemPoolAttr::ReservedMemCurrent, &reserved))) return true;
            if (reserved != 0) return false;
            if (!as_new(pool, granted)) return true;
            const std::lock_guard<std::mutex> lock(mutex_);
            free_.push_back({device, max_size, pool});
        } catch (...) {
            // The runtime fails, so the pool cannot be recovered.
        }
        return true;
    }

    static bool as_new(rt::MemPool_t pool, const detail::LightVector<int>& granted) {
        using Attr = rt::MemPoolAttr;
        for (const Attr policy : {Attr::ReuseFollowEventDependencies, Attr::ReuseAllowOpportunistic,
                                  Attr::ReuseAllowInternalDependencies}) {
            if (!done(rt::MemPoolSetAttribute(pool, policy, 1))) return false;
        }
        for (const Attr high : {Attr::UsedMemHigh, Attr::ReservedMemHigh}) {
            if (!done(rt::MemPoolSetAttribute(pool, high, 0))) return false;
        }
        return !granted.any_of([&](int peer) {
            return !done(rt::MemPoolSetAccess(pool, {rt::LocationType::Device, peer}, rt::MemAccessFlags::None));
        });
    }

    static bool done(rt::Error_t answer) noexcept { return answer == rt::Error_t::Success; }

    std::mutex mutex_;
    detail::LightVector<Free> free_;
};

PORTAMEM_CLOSE
