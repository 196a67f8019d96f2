// SPDX-License-Identifier: MIT
// portamem/detail/small_copy.hpp: small copies from a device to ordinary host memory, through pinned blocks.
//
// A runtime's own call for such a copy takes longer than its call for pinned memory, a wait for an event behind that,
// and a copy on the CPU: by a third on an H200, from 64 bytes to 64 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>

#include "portamem/detail/of_device.hpp"
#include "portamem/detail/staged_copy.hpp"
#include "portamem/kept.hpp"
#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

/// Holds a few pinned blocks of one device, and lends them to copies. They are made at first need and stay until the
/// process ends. It is thread-safe.
class SmallBlocks {
  public:
    static constexpr std::size_t kBlocks = 8;
    static constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

    struct Block {
        char* memory = nullptr;
        rt::Event_t behind{};  // of the copy that uses the block
        bool is_lent = false;
        bool is_pending = false;  // the copy was left before its event had happened
    };

    explicit SmallBlocks(int) noexcept {}

    /// Returns the process's blocks of a device.
    static SmallBlocks& of(int device) { return OfDevice<SmallBlocks>::get("small blocks", device); }

    /// Lends a block that no work uses. It is null where all are in use, and once the runtime has refused to give
    /// pinned memory. The blocks' device is current.
    Block* take() noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!is_made_ && !make()) return nullptr;
        for (Block& block : blocks_) {
            if (block.is_lent || (block.is_pending && !has_happened(block))) continue;
            block.is_lent = true;
            return &block;
        }
        return nullptr;
    }

    void give_back(Block& block, bool is_pending) noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        block.is_pending = is_pending;
        block.is_lent = false;
    }

  private:
    bool make() noexcept {
        if (was_refused_) return false;
        was_refused_ = true;
        void* memory = nullptr;
        if (rt::HostMalloc(&memory, kBlocks * kBlockBytes, rt::HostMallocPortable, rt::Coherence::Default) !=
            rt::Error_t::Success) {
            return false;
        }
        for (std::size_t i = 0; i < kBlocks; ++i) {
            if (rt::EventCreateWithFlags(&blocks_[i].behind, rt::EventDisableTiming) == rt::Error_t::Success) continue;
            while (i-- > 0) (void)rt::EventDestroy(blocks_[i].behind);
            (void)rt::HostFree(memory);
            return false;
        }
        for (std::size_t i = 0; i < kBlocks; ++i) blocks_[i].memory = static_cast<char*>(memory) + i * kBlockBytes;
        is_made_ = true;
        return true;
    }

    // Asks for the block's own sake: the program learns nothing of other streams by it.
    static bool has_happened(Block& block) noexcept {
        const portamem_order_range range{block.memory, kBlockBytes};
        const UntrackedQueries own(&range, 1);
        block.is_pending = rt::EventQuery(block.behind) != rt::Error_t::Success;
        return !block.is_pending;
    }

    std::mutex mutex_;
    bool is_made_ = false;
    bool was_refused_ = false;
    std::array<Block, kBlocks> blocks_;
};

/// Returns whether portamem carries copies of ordinary host memory itself. Throws as copy_threads does.
inline bool stages_copies() {
    static const bool is_on = copy_threads() != 0;
    return is_on;
}

/// Copies device memory to ordinary host memory through a block, and waits until the bytes are there. Returns false,
/// with nothing done, where all blocks are in use. nbytes: from 1 to kBlockBytes. Where a signal ends the wait, the copy
/// goes on into the block, and `memory` (the device's) is kept meanwhile. Throws Error where the runtime fails.
inline bool carry_small(void* dst, const Span& memory, const Stream& on, SmallBlocks& blocks) {
    SmallBlocks::Block* const block = blocks.take();
    if (block == nullptr) return false;
    bool is_queued = false;
    try {
        const DeclaredSoFar so_far = on.declared_so_far();
        check(rt::MemcpyAsync(block->memory, memory.ptr, memory.nbytes, rt::MemcpyKind::DeviceToHost, on.handle()),
              "MemcpyAsync");
        is_queued = true;
        check(rt::EventRecord(block->behind, on.handle()), "EventRecord");
        auto has_happened = [&] { return check_ready(rt::EventQuery(block->behind), "EventSynchronize"); };
        if (!hear_until(has_happened)) check(rt::EventSynchronize(block->behind), "EventSynchronize");
        so_far.note_run();
    } catch (const Error&) {
        if (is_queued) (void)rt::StreamSynchronize(on.handle());
        blocks.give_back(*block, false);
        throw;
    } catch (...) {  // the wait ended early
        keep_while_it_runs(std::const_pointer_cast<Stream>(on.shared_from_this()), memory, Span{});
        blocks.give_back(*block, true);
        throw;
    }
    std::memcpy(dst, block->memory, memory.nbytes);
    blocks.give_back(*block, false);
    return true;
}

/// Carries a small copy from memory of a device alone to ordinary host memory, as carry_small does. Returns false, with
/// nothing done, where the copy is too large or its ends are others.
inline bool copy_small_to_host(const Span& dst, const Span& src, const Stream& on) {
    if (src.nbytes == 0 || src.nbytes > SmallBlocks::kBlockBytes || !stages_copies()) return false;
    if (!is_memory_of_device_alone(src) || is_memory_of_device_alone(dst) || !is_ordinary_host_memory(dst))
        return false;
    return carry_small(dst.ptr, src, on, SmallBlocks::of(on.device()));
}

}  // namespace detail

PORTAMEM_CLOSE
