// SPDX-License-Identifier: MIT
// portamem/detail/staged_copy.hpp: large copies between ordinary host memory and a device, through pinned blocks.
//
// The vendors carry such a copy on one thread through small blocks of their own, at a fraction of the bus's rate.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "portamem/abi/staging_api.h"
#include "portamem/device_guard.hpp"
#include "portamem/process_object.hpp"
#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

/// Holds the pinned blocks of one device, and carries one copy at a time through them. The blocks are made at first
/// need and stay until the process ends.
class StagingLane {
  public:
    static constexpr std::size_t kBlocks = 4;
    static constexpr std::size_t kBlockBytes = std::size_t{4} << 20;

    explicit StagingLane(int device) noexcept : device_(device) {}

    /// Copies host memory to device memory. On return src has been read, and the rest is queued on the stream. Returns
    /// false, with nothing done, where another thread uses the blocks, or the runtime has no pinned memory to give.
    /// Throws Error where the runtime fails; what was queued then stays queued.
    bool to_device(void* dst, const void* src, std::size_t nbytes, rt::Stream_t on, int threads) {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock() || !is_ready()) return false;
        for (std::size_t begin = 0, number = 0; begin < nbytes; begin += kBlockBytes, ++number) {
            const Block& block = blocks_[number % kBlocks];
            const std::size_t part = std::min(kBlockBytes, nbytes - begin);
            check(rt::EventSynchronize(block.is_free), "EventSynchronize");
            portamem_copy_bytes(block.memory, at(src, begin), part, threads);
            queue(at(dst, begin), block.memory, part, block, on);
        }
        return true;
    }

    /// Copies device memory to host memory. On return every byte is there. Returns and throws as to_device does.
    bool to_host(void* dst, const void* src, std::size_t nbytes, rt::Stream_t on, int threads) {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock() || !is_ready()) return false;
        std::size_t queued = 0;
        for (std::size_t begin = 0, number = 0; begin < nbytes; begin += kBlockBytes, ++number) {
            for (; queued < nbytes && queued < begin + kBlocks * kBlockBytes; queued += kBlockBytes) {
                const Block& next = blocks_[queued / kBlockBytes % kBlocks];
                check(rt::EventSynchronize(next.is_free), "EventSynchronize");
                queue(next.memory, at(src, queued), std::min(kBlockBytes, nbytes - queued), next, on);
            }
            const Block& block = blocks_[number % kBlocks];
            check(rt::EventSynchronize(block.is_free), "EventSynchronize");
            portamem_copy_bytes(at(dst, begin), block.memory, std::min(kBlockBytes, nbytes - begin), threads);
        }
        return true;
    }

  private:
    struct Block {
        void* memory = nullptr;
        rt::Event_t is_free{};  // stands behind the latest work on the block
    };

    static void* at(void* ptr, std::size_t offset) noexcept { return static_cast<char*>(ptr) + offset; }
    static const void* at(const void* ptr, std::size_t offset) noexcept {
        return static_cast<const char*>(ptr) + offset;
    }

    // The block's event must stand behind the work: where it cannot, this call waits for the stream.
    static void queue(void* dst, const void* src, std::size_t nbytes, const Block& block, rt::Stream_t on) {
        check(rt::MemcpyAsync(dst, src, nbytes, rt::MemcpyKind::Default, on), "MemcpyAsync");
        const rt::Error_t recorded = rt::EventRecord(block.is_free, on);
        if (recorded == rt::Error_t::Success) return;
        (void)rt::StreamSynchronize(on);
        check(recorded, "EventRecord");
    }

    bool is_ready() {
        const DeviceGuard guard(device_);
        for (Block& block : blocks_) {
            if (block.memory != nullptr) continue;
            rt::Event_t made{};
            if (rt::EventCreateWithFlags(&made, rt::EventDisableTiming) != rt::Error_t::Success) return false;
            void* memory = nullptr;
            if (rt::HostMalloc(&memory, kBlockBytes, rt::HostMallocPortable, rt::Coherence::Default) !=
                rt::Error_t::Success) {
                (void)rt::EventDestroy(made);
                return false;
            }
            block = {memory, made};
        }
        return true;
    }

    const int device_;
    std::mutex mutex_;
    std::array<Block, kBlocks> blocks_;
};

/// Holds the lanes of the process.
class StagingLanes {
  public:
    static StagingLane& of(int device) {
        auto& all = process_object<StagingLanes>("staging lanes");
        const std::lock_guard<std::mutex> lock(all.mutex_);
        std::unique_ptr<StagingLane>& lane = all.lanes_[device];
        if (!lane) lane.reset(new StagingLane(device));
        return *lane;
    }

  private:
    std::mutex mutex_;
    std::map<int, std::unique_ptr<StagingLane>> lanes_;
};

/// Returns how many threads carry a large copy; 0 means that the runtime's own call does it. Throws
/// std::invalid_argument where PORTAMEM_COPY_THREADS cannot be read.
inline int copy_threads() {
    const char* unreadable = nullptr;
    const int threads = portamem_copy_threads(rt::StagesSlowly ? 1 : 0, &unreadable);
    if (threads >= 0) return threads;
    throw std::invalid_argument("PORTAMEM_COPY_THREADS=" + std::string(unreadable) +
                                " is no number of threads: give a number from 0 to 64, or off");
}

/// Copies of fewer bytes are the runtime's: below that, its own way is as fast.
inline constexpr std::size_t kStagedFrom = std::size_t{4} << 20;

inline bool is_ordinary_host_memory(const Span& span) {
    if (span.allocation) return span.allocation->traits().pageable;
    rt::PointerAttributes attributes;
    return rt::PointerGetAttributes(&attributes, span.ptr) == rt::Error_t::Success &&
           attributes.type == rt::MemoryType::Unregistered;
}

inline bool is_memory_of_device_alone(const Span& span) {
    if (!span.allocation) return false;
    const MemoryTraits& traits = span.allocation->traits();
    return !traits.host_accessible && !traits.may_be_of_host && !traits.is_host_memory &&
           traits.kind != ResourceKind::Managed;
}

/// Returns whether a device reads ordinary host memory by the host's own page tables, at the rate of their link.
inline bool shares_page_tables(int device) {
    int shares = 0;
    return rt::DeviceGetAttribute(&shares, rt::DeviceAttr::PageableMemoryAccessUsesHostPageTables, device) ==
               rt::Error_t::Success &&
           shares != 0;
}

/// Copies ordinary host memory to memory of a device alone, or back, as StagingLane does. Once the call has ended, also
/// with an exception, the host's memory is not in use any more.
/// - The threads read a source on the CPU, at once, and work that writes it may be queued. So the stream's work runs
///   first, as it does for the runtime's own large copy (CUDA runtime API, API synchronization behavior). That also
///   keeps another stream's copy from waiting for this stream's work, by way of the blocks.
/// - Where a part fails, the parts before it run to their end: the target may have another owner once the call failed.
inline bool carry_staged(const Span& dst, const Span& src, bool to_device, const Stream& on, int threads) {
    if (to_device) on.wait_for_work();
    StagingLane& lane = StagingLanes::of(on.device());
    try {
        return to_device ? lane.to_device(dst.ptr, src.ptr, src.nbytes, on.handle(), threads)
                         : lane.to_host(dst.ptr, src.ptr, src.nbytes, on.handle(), threads);
    } catch (...) {
        (void)rt::StreamSynchronize(on.handle());
        throw;
    }
}

/// Copies through pinned blocks where that is faster than the runtime's own call. Returns false, with nothing done,
/// where it is not.
inline bool copy_staged(const Span& dst, const Span& src, const Stream& on) {
    if (src.nbytes < kStagedFrom) return false;
    const bool to_device = is_memory_of_device_alone(dst);
    if (to_device == is_memory_of_device_alone(src)) return false;
    const int threads = copy_threads();
    if (threads == 0 || !is_ordinary_host_memory(to_device ? src : dst) || shares_page_tables(on.device()))
        return false;
    return carry_staged(dst, src, to_device, on, threads);
}

}  // namespace detail

PORTAMEM_CLOSE
