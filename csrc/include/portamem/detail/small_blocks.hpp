// SPDX-License-Identifier: MIT
// portamem/detail/small_blocks.hpp: the pinned blocks into which small copies to the host go first.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "portamem/detail/of_device.hpp"
#include "portamem/kept.hpp"

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

}  // namespace detail

PORTAMEM_CLOSE
