// SPDX-License-Identifier: MIT
// portamem/detail/small_copy.hpp: small copies between ordinary host memory and a device, through pinned blocks.
//
// A runtime's own call for such a copy takes longer than its call for pinned memory and a copy on the CPU: on an H200,
// from 64 bytes to 64 KiB, by a third to the host and by a sixth to the device. AMD's may wait for the stream's work.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/capabilities.hpp"
#include "portamem/detail/latest_events.hpp"
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

/// Returns whether portamem carries copies of ordinary host memory itself. It does not where PORTAMEM_COPY_THREADS
/// cannot be read; a large copy refuses that.
inline bool stages_copies() noexcept {
    static const bool is_on = [] {
        const char* unreadable = nullptr;
        return portamem_copy_threads(rt::StagesSlowly ? 1 : 0, &unreadable) > 0;
    }();
    return is_on;
}

/// Copies device memory to ordinary host memory through a block, and waits until the bytes are there. Returns false,
/// with nothing done, where all blocks are in use. `memory`: from 1 to kBlockBytes bytes. Where a signal ends the wait,
/// the copy goes on into the block, and the device memory is kept meanwhile. Throws Error where the runtime fails.
inline bool carry_small(void* dst, const Span& memory, const Stream& on, SmallBlocks& blocks) {
    SmallBlocks::Block* const block = blocks.take();
    if (block == nullptr) return false;
    bool is_queued = false;
    bool is_marked = false;
    try {
        const DeclaredSoFar so_far = on.declared_so_far();
        check(rt::MemcpyAsync(block->memory, memory.ptr, memory.nbytes, rt::MemcpyKind::DeviceToHost, on.handle()),
              "MemcpyAsync");
        is_queued = true;
        check(rt::EventRecord(block->behind, on.handle()), "EventRecord");
        is_marked = true;
        auto has_happened = [&] { return check_ready(rt::EventQuery(block->behind), "EventSynchronize"); };
        if (!hear_until(has_happened)) check(rt::EventSynchronize(block->behind), "EventSynchronize");
        so_far.note_run();
    } catch (const Error&) {
        if (is_queued) (void)rt::StreamSynchronize(on.handle());
        blocks.give_back(*block, false);
        throw;
    } catch (...) {  // the wait ended early, or there is no host memory for an error
        if (is_queued && !is_marked) (void)rt::StreamSynchronize(on.handle());
        if (is_marked) keep_while_it_runs(std::const_pointer_cast<Stream>(on.shared_from_this()), memory, Span{});
        blocks.give_back(*block, is_marked);
        throw;
    }
    std::memcpy(dst, block->memory, memory.nbytes);
    blocks.give_back(*block, false);
    return true;
}

/// Returns whether host memory is ordinary at both ends: a part of it may be registered.
inline bool is_ordinary_throughout(const Span& span) {
    constexpr std::uintptr_t kPage = 4096;
    const Span last = Span::host(static_cast<char*>(span.ptr) + span.nbytes - 1, 1);
    const auto page_of = [](const void* ptr) { return reinterpret_cast<std::uintptr_t>(ptr) / kPage; };
    return is_ordinary_host_memory(span) && (page_of(span.ptr) == page_of(last.ptr) || is_ordinary_host_memory(last));
}

/// Carries a small copy from memory of a device alone to ordinary host memory, as carry_small does. Returns false, with
/// nothing done, where the copy is too large or its ends are others.
inline bool copy_small_to_host(const Span& dst, const Span& src, const Stream& on) {
    if (src.nbytes == 0 || src.nbytes > SmallBlocks::kBlockBytes || !stages_copies()) return false;
    if (!is_memory_of_device_alone(src) || is_memory_of_device_alone(dst) || !is_ordinary_throughout(dst)) return false;
    return carry_small(dst.ptr, src, on, SmallBlocks::of(on.device()));
}

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

/// Returns room for a small copy on a stream from ordinary host memory to memory of a device alone. The copy reads the
/// source during the call, before the work that the stream holds. So there is room only where the runtime itself reads
/// such a source during its call, and where no kernel of the device reaches the source.
inline SmallSources::Room room_for_source(const Span& dst, const Span& src, const Stream& on) {
    constexpr std::size_t kMost = std::min(rt::StagedAtOnce, SmallSources::kBlockBytes);
    const bool is_small = src.nbytes != 0 && src.nbytes <= kMost && stages_copies();
    if (!is_small || src.allocation || !is_memory_of_device_alone(dst) || !is_ordinary_throughout(src)) return {};
    SmallSources& sources = SmallSources::of(on.device());
    if (sources.kernels_reach_host()) return {};
    return {sources, src.nbytes};
}

/// Queues the copy of the source through its room.
inline void submit_small(const Span& dst, const Span& src, const SmallSources::Room& room, const Stream& on) {
    std::memcpy(room.memory(), src.ptr, src.nbytes);
    check(rt::MemcpyAsync(dst.ptr, room.memory(), src.nbytes, rt::MemcpyKind::HostToDevice, on.handle()),
          "MemcpyAsync");
}

}  // namespace detail

PORTAMEM_CLOSE
