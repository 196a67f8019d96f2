// SPDX-License-Identifier: MIT
// portamem/detail/small_sources.hpp: the pinned memory from which small copies to a device go.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/capabilities.hpp"
#include "portamem/capture.hpp"
#include "portamem/detail/latest_events.hpp"
#include "portamem/detail/of_device.hpp"

PORTAMEM_OPEN

namespace detail {

/// Holds pinned memory of one device for the bytes of small copies to it, in blocks that are used in turn. A block is
/// used again once all copies from it have run. The memory is made at first need and stays until the process ends. It
/// is thread-safe.
class SmallSources {
  public:
    static constexpr std::size_t kBlocks = 8;
    static constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

    explicit SmallSources(int device)
        : kernels_reach_host_(answer(rt::DeviceAttr::PageableMemoryAccess, device)), device_(device) {}

    /// Returns the process's memory for a device.
    static SmallSources& of(int device) { return OfDevice<SmallSources>::get("small sources", device); }

    /// Returns whether kernels of the device reach ordinary host memory, so that work of a stream may still write it.
    bool kernels_reach_host() const noexcept { return kernels_reach_host_; }

    /// Represents room for the bytes of one copy, or none.
    class Room {
      public:
        Room() noexcept = default;
        Room(SmallSources& sources, std::size_t nbytes) : sources_(&sources) {
            memory_ = sources.take(nbytes, number_);
        }
        ~Room() {
            if (memory_ != nullptr) sources_->leave(number_);
        }
        Room(Room&& other) noexcept
            : sources_(other.sources_), memory_(std::exchange(other.memory_, nullptr)), number_(other.number_) {}
        Room& operator=(Room&&) = delete;

        char* memory() const noexcept { return memory_; }
        /// Leaves the room to the copy that `done` stands behind, which this thread has recorded on that stream.
        /// Without this call no work uses the room.
        void leave_to(const Stream& stream, const std::shared_ptr<Event>& done) {
            if (memory_ != nullptr) sources_->leave(number_, stream, done);
            memory_ = nullptr;
        }

      private:
        SmallSources* sources_ = nullptr;
        char* memory_ = nullptr;
        std::size_t number_ = 0;
    };

  private:
    static constexpr std::size_t kAlignment = 64;

    struct Block {
        std::size_t used = 0;  // bytes
        int rooms = 0;         // that copies are being queued from
        LatestEvents behind;
    };

    // Returns null where the copies before are still on their way, and where the runtime gave no pinned memory.
    char* take(std::size_t nbytes, std::size_t& number) {
        const std::size_t size = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (size > kBlockBytes || (memory_ == nullptr && !make())) return nullptr;
        if (blocks_[current_].used + size > kBlockBytes && !turn()) return nullptr;
        Block& block = blocks_[current_];
        char* const room = memory_ + current_ * kBlockBytes + block.used;
        block.used += size;
        ++block.rooms;
        number = current_;
        return room;
    }

    void leave(std::size_t number) noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        --blocks_[number].rooms;
    }

    void leave(std::size_t number, const Stream& stream, const std::shared_ptr<Event>& done) noexcept {
        std::shared_ptr<Event> left;  // goes without the lock
        const std::lock_guard<std::mutex> lock(mutex_);
        try {
            left = blocks_[number].behind.add(stream, done);
            --blocks_[number].rooms;
        } catch (const std::exception&) {
            // Host memory has run out: the block is not used again.
        }
    }

    // Goes on to a block that no copy uses, the next one as a rule.
    bool turn() {
        for (std::size_t i = 1; i < kBlocks; ++i) {
            const std::size_t next = (current_ + i) % kBlocks;
            Block& block = blocks_[next];
            if (block.rooms != 0 || !block.behind.have_happened()) continue;
            block.used = 0;
            current_ = next;
            return true;
        }
        return false;
    }

    bool make() {
        if (was_refused_) return false;
        was_refused_ = true;
        const RelaxedCapture beside(device_);
        void* memory = nullptr;
        if (rt::HostMalloc(&memory, kBlocks * kBlockBytes, rt::HostMallocPortable, rt::Coherence::Default) !=
            rt::Error_t::Success) {
            return false;
        }
        memory_ = static_cast<char*>(memory);
        return true;
    }

    const bool kernels_reach_host_;
    const int device_;
    std::mutex mutex_;
    bool was_refused_ = false;
    char* memory_ = nullptr;
    std::size_t current_ = 0;
    std::array<Block, kBlocks> blocks_;
};

}  // namespace detail

PORTAMEM_CLOSE
