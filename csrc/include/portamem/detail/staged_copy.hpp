// SPDX-License-Identifier: MIT
// portamem/detail/staged_copy.hpp: large copies between ordinary host memory and a device, through pinned blocks.
//
// The vendors carry such a copy on one thread through small blocks of their own, at a fraction of the bus's rate.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "portamem/abi/staging_api.h"
#include "portamem/device_guard.hpp"
#include "portamem/process_object.hpp"
#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

/// Holds the pinned blocks of one device, and carries one copy at a time through them. The copy is cut into parts of
/// one block. Each thread has two blocks of its own: it copies one on the CPU while the device moves the other. The
/// blocks are made at first need and stay until the process ends.
class StagingLane {
  public:
    static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
    static constexpr std::size_t kBlocksOfThread = 2;

    explicit StagingLane(int device) noexcept : device_(device) {}

    /// Copies host memory to device memory. On return src has been read, and the rest is queued on the stream. Returns
    /// false, with nothing done, where another thread uses the blocks, or the runtime has no pinned memory to give.
    /// Throws Error where the runtime fails; what was queued then stays queued.
    bool to_device(void* dst, const void* src, std::size_t nbytes, rt::Stream_t on, int threads) {
        return carry({*this, static_cast<char*>(dst), static_cast<const char*>(src), nbytes, on, true}, threads);
    }

    /// Copies device memory to host memory. On return every byte is there. Returns and throws as to_device does.
    bool to_host(void* dst, const void* src, std::size_t nbytes, rt::Stream_t on, int threads) {
        return carry({*this, static_cast<char*>(dst), static_cast<const char*>(src), nbytes, on, false}, threads);
    }

  private:
    struct Block {
        void* memory = nullptr;
        rt::Event_t is_free{};  // stands behind the latest work on the block
    };

    struct Copy {
        StagingLane& lane;
        char* dst;
        const char* src;
        std::size_t nbytes;
        rt::Stream_t on;
        bool to_device;
        std::atomic<std::size_t> next{0};                      // first byte that no thread has taken
        std::atomic<rt::Error_t> error{rt::Error_t::Success};  // the first
        std::atomic<const char*> failed{nullptr};              // the call that it is of
    };

    // A part of a copy that a thread has at hand.
    struct Part {
        std::size_t begin;
        std::size_t nbytes;
    };

    bool carry(Copy&& copy, int threads) {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        const std::size_t parts = (copy.nbytes + kBlockBytes - 1) / kBlockBytes;
        const int most = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), parts));
        if (!lock.owns_lock() || !is_ready(static_cast<std::size_t>(most) * kBlocksOfThread)) return false;
        portamem_on_threads(&StagingLane::work, &copy, most);
        if (const char* const call = copy.failed.load()) check(copy.error.load(), call);
        return true;
    }

    static void work(void* context, int number) noexcept {
        Copy& copy = *static_cast<Copy*>(context);
        rt::DeviceState_t before{};
        if (!succeeds(copy, rt::PushDevice(copy.lane.device_, &before), "SetDevice")) return;
        rt::StreamCaptureMode mode = rt::StreamCaptureMode::Relaxed;  // another thread may capture
        const bool swapped = rt::ThreadExchangeStreamCaptureMode(&mode) == rt::Error_t::Success;
        const Block* const blocks = &copy.lane.blocks_[static_cast<std::size_t>(number) * kBlocksOfThread];
        copy.to_device ? send(copy, blocks) : receive(copy, blocks);
        if (swapped) (void)rt::ThreadExchangeStreamCaptureMode(&mode);
        (void)rt::PopDevice(before);
    }

    static void send(Copy& copy, const Block* blocks) noexcept {
        Part part{};
        for (std::size_t turn = 0; take(copy, part); ++turn) {
            const Block& block = blocks[turn % kBlocksOfThread];
            if (!succeeds(copy, rt::EventSynchronize(block.is_free), "EventSynchronize")) return;
            std::memcpy(block.memory, copy.src + part.begin, part.nbytes);
            if (!queue(copy, copy.dst + part.begin, block.memory, part.nbytes, block)) return;
        }
    }

    static void receive(Copy& copy, const Block* blocks) noexcept {
        Part former{};
        Part part{};
        const Block* of_former = nullptr;
        for (std::size_t turn = 0;; ++turn) {
            const bool is_more = take(copy, part);
            const Block& block = blocks[turn % kBlocksOfThread];
            if (is_more && (!succeeds(copy, rt::EventSynchronize(block.is_free), "EventSynchronize") ||
                            !queue(copy, block.memory, copy.src + part.begin, part.nbytes, block)))
                return;
            if (of_former != nullptr) {
                if (!succeeds(copy, rt::EventSynchronize(of_former->is_free), "EventSynchronize")) return;
                std::memcpy(copy.dst + former.begin, of_former->memory, former.nbytes);
            }
            if (!is_more) return;
            former = part;
            of_former = &block;
        }
    }

    // Takes the next part; none once a thread has failed.
    static bool take(Copy& copy, Part& part) noexcept {
        if (copy.failed.load(std::memory_order_relaxed) != nullptr) return false;
        const std::size_t begin = copy.next.fetch_add(kBlockBytes, std::memory_order_relaxed);
        if (begin >= copy.nbytes) return false;
        part = {begin, std::min(kBlockBytes, copy.nbytes - begin)};
        return true;
    }

    // The block's event must stand behind the work: where it cannot, this thread waits for the stream.
    static bool queue(Copy& copy, void* dst, const void* src, std::size_t nbytes, const Block& block) noexcept {
        if (!succeeds(copy, rt::MemcpyAsync(dst, src, nbytes, rt::MemcpyKind::Default, copy.on), "MemcpyAsync"))
            return false;
        const rt::Error_t recorded = rt::EventRecord(block.is_free, copy.on);
        if (recorded != rt::Error_t::Success) (void)rt::StreamSynchronize(copy.on);
        return succeeds(copy, recorded, "EventRecord");
    }

    static bool succeeds(Copy& copy, rt::Error_t answer, const char* call) noexcept {
        if (answer == rt::Error_t::Success) return true;
        rt::Error_t none = rt::Error_t::Success;
        if (copy.error.compare_exchange_strong(none, answer)) copy.failed.store(call);
        return false;
    }

    bool is_ready(std::size_t count) {
        const DeviceGuard guard(device_);
        while (blocks_.size() < count) {
            Block made;
            blocks_.reserve(count);
            if (rt::EventCreateWithFlags(&made.is_free, rt::EventDisableTiming) != rt::Error_t::Success) return false;
            if (rt::HostMalloc(&made.memory, kBlockBytes, rt::HostMallocPortable, rt::Coherence::Default) !=
                rt::Error_t::Success) {
                (void)rt::EventDestroy(made.is_free);
                return false;
            }
            blocks_.push_back(made);
        }
        return true;
    }

    const int device_;
    std::mutex mutex_;
    std::vector<Block> blocks_;
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

/// Copies through pinned blocks where that is faster than the runtime's own call. Returns false, with nothing done,
/// where it is not. The caller has made the copy's order right, and the stream's work may wait for it.
inline bool copy_staged(const Span& dst, const Span& src, const Stream& on) {
    if (src.nbytes < kStagedFrom) return false;
    const bool to_device = is_memory_of_device_alone(dst);
    if (to_device == is_memory_of_device_alone(src)) return false;
    const int threads = copy_threads();
    if (threads == 0 || !is_ordinary_host_memory(to_device ? src : dst) || shares_page_tables(on.device()))
        return false;
    StagingLane& lane = StagingLanes::of(on.device());
    return to_device ? lane.to_device(dst.ptr, src.ptr, src.nbytes, on.handle(), threads)
                     : lane.to_host(dst.ptr, src.ptr, src.nbytes, on.handle(), threads);
}

}  // namespace detail

PORTAMEM_CLOSE
