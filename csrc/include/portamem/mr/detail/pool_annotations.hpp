// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_annotations.hpp: tells a memory checker, in stream order, which bytes of a pool are in use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/abi/pool_annotator.h"
#include "portamem/detail/number_map.hpp"
#include "portamem/detail/owned.hpp"
#include "portamem/kept.hpp"
#include "portamem/mr/detail/checked_regions.hpp"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN
namespace detail {

/// Serves a pool under a memory checker. Every byte of its chunks is out of bounds, except for blocks that are out, in
/// the size that was asked for. Work before a free may still use the block, so the block goes out of bounds when an
/// event recorded at the free has happened. No call waits for that; later calls look. Each free costs a lock and an
/// event. It is thread-safe.
class PoolAnnotations {
  public:
    /// regions: stands behind `checker` where it may turn out that no checker listens.
    explicit PoolAnnotations(const portamem_pool_annotator& checker, const CheckedRegions* regions = nullptr)
        : checker_(checker), regions_(regions) {}

    /// Returns null where no memory checker follows such memory, so that there is nothing to tell.
    static Owned<PoolAnnotations> of(const MemoryTraits& traits) {
        const auto* checker = portamem_address_sanitizer(rt::BackendId, traits.host_accessible ? 1 : 0);
        if (checker != nullptr) return Owned(new PoolAnnotations(*checker));
        if constexpr (rt::HasMemChecker) {
            // These checkers know only chunks of the runtime's own allocator.
            const CheckedRegions& regions = CheckedRegions::instance();
            if (traits.kind == ResourceKind::Device && regions.listener() != CheckedRegions::Listener::None) {
                return Owned(new PoolAnnotations(CheckedRegions::annotator(), &regions));
            }
        }
        return nullptr;
    }

    /// Returns whether a checker listens, or may yet. Once it is false it stays so, and nothing more is told or kept
    /// here.
    bool is_heard() const noexcept {
        return regions_ == nullptr || regions_->listener() != CheckedRegions::Listener::None;
    }

    /// Returns whether a checker listens, as far as known.
    bool is_followed() const noexcept {
        return regions_ == nullptr || regions_->listener() == CheckedRegions::Listener::Checker;
    }

    /// Notes that the upstream has given a chunk.
    void chunk(void* ptr, std::size_t nbytes) const { checker_.chunk(ptr, nbytes); }

    /// Notes that a chunk is about to go back to the upstream, and that no work uses any of it.
    void chunk_gone(void* ptr, std::size_t nbytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        forget(address(ptr), nbytes);
        checker_.chunk_gone(ptr, nbytes);
    }

    /// Notes that the pool hands a block out.
    void used(void* ptr, std::size_t nbytes) {
        if (ptr == nullptr || !is_heard()) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        drain();
        forget(address(ptr), nbytes);  // the stream that gets it waits for its last use, as far as it must
        live_.insert({address(ptr), 0}).first->second = nbytes;
        checker_.used(ptr, nbytes);
    }

    /// Wraps the pool's own function that takes a block back. If that throws, the block is still in use. The checker is
    /// told before it, because another thread may be handed the block at once.
    template <class Function>
    void give_back(void* ptr, std::size_t nbytes, Stream& stream, Function&& function) {
        const bool known = is_heard() && begin_unused(ptr, nbytes, stream);
        try {
            function();
        } catch (...) {
            if (known) used(ptr, nbytes);
            throw;
        }
    }

  private:
    struct Pending {
        std::uintptr_t end = 0;
        std::shared_ptr<Event> until;
    };

    static std::uintptr_t address(const void* ptr) noexcept { return reinterpret_cast<std::uintptr_t>(ptr); }
    static void* pointer(std::uintptr_t at) noexcept { return reinterpret_cast<void*>(at); }

    // Returns false for a block that is not out in that size, which the pool is about to refuse.
    bool begin_unused(void* ptr, std::size_t nbytes, Stream& stream) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            const auto found = live_.find(address(ptr));
            if (found == live_.end() || found->second != nbytes) return false;
            live_.erase(found);
        }
        if (stream.is_elsewhere()) return true;  // this thread cannot mark the stream: the block stays in bounds
        std::shared_ptr<Event> until;
        try {
            // A captured stream cannot be marked either: the mark would be the graph's, and asking for it would harm
            // the capture.
            if (stream.capture_status() != rt::StreamCaptureStatus::None) return true;
            until = stream.tail();
        } catch (const std::exception&) {
            return true;
        }
        const std::lock_guard<std::mutex> lock(mutex_);
        pending_[address(ptr)] = {address(ptr) + nbytes, std::move(until)};
        drain();
        return true;
    }

    // Removes a range from the pending ranges; what lies outside of it stays pending.
    void forget(std::uintptr_t begin, std::size_t nbytes) {
        const std::uintptr_t end = begin + nbytes;
        auto at = pending_.lower_bound(begin);
        if (at != pending_.begin()) {
            auto before = at;
            if ((--before)->second.end > begin) at = before;
        }
        while (at != pending_.end() && at->first < end) {
            const auto [first, pending] = *at;
            at = pending_.erase(at);
            if (first < begin) pending_[first] = {begin, pending.until};
            if (pending.end > end) {
                at = pending_.at_or_new(end);
                at->second = pending;
            }
        }
    }

    // Looks at some of the pending ranges; the next call looks at more.
    void drain() {
        const UntrackedQueries own;
        auto at = pending_.lower_bound(next_look_);
        for (std::size_t looks = std::min(pending_.size(), kLooks); looks > 0; --looks) {
            if (at == pending_.end()) at = pending_.begin();
            if (!has_happened(at->second.until)) {
                ++at;
                continue;
            }
            checker_.unused(pointer(at->first), at->second.end - at->first);
            at = pending_.erase(at);
        }
        next_look_ = at == pending_.end() ? 0 : at->first;
    }

    static bool has_happened(const std::shared_ptr<Event>& until) {
        try {
            return until == nullptr || until->has_happened();
        } catch (const std::exception&) {
            return false;  // a later call asks again
        }
    }

    static constexpr std::size_t kLooks = 16;

    const portamem_pool_annotator& checker_;
    const CheckedRegions* const regions_;
    std::mutex mutex_;
    std::uintptr_t next_look_ = 0;
    NumberTree live_;                             // the sizes of blocks that are out, by address
    NumberMap<std::uintptr_t, Pending> pending_;  // freed, and perhaps still used by earlier work
};

}  // namespace detail
PORTAMEM_CLOSE
