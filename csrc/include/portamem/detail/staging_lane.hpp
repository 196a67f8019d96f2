// SPDX-License-Identifier: MIT
// portamem/detail/staging_lane.hpp: carries copies between host memory and a device through pinned blocks.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>

#include "portamem/abi/staging_api.h"
#include "portamem/detail/hearing.hpp"
#include "portamem/detail/of_device.hpp"
#include "portamem/device_guard.hpp"
#include "portamem/error.hpp"
#include "portamem/kept.hpp"

PORTAMEM_OPEN

namespace detail {

/// Names memory of a device alone: rows of `width` bytes, `pitch` bytes apart. `height` rows are a slice, and slices
/// are `slice` bytes apart. With width 0 all bytes lie one behind the other.
struct DeviceBox {
    char* first = nullptr;
    std::size_t width = 0;
    std::size_t pitch = 0;
    std::size_t height = 0;
    std::size_t slice = 0;
};

/// Holds the pinned blocks of one device, and carries one copy at a time through them. Threads of the library move
/// bytes between host memory and the blocks, while the device moves other blocks. The caller's thread alone calls the
/// runtime, so that all work is on its stream, also where that is a per-thread default stream. The blocks are made at
/// first need and stay until the process ends.
class StagingLane {
  public:
    static constexpr std::size_t kBlocks = 8;
    static constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
    static_assert(kBlocks <= PORTAMEM_MOVE_MOST_PLACES);

    explicit StagingLane(int device, std::size_t block_bytes = kBlockBytes) noexcept
        : device_(device), block_bytes_(block_bytes) {}

    /// Returns the process's lane of a device.
    static StagingLane& of(int device) { return OfDevice<StagingLane>::get("staging lanes", device); }

    /// Copies `nbytes` bytes of host memory to device memory. On return the source has been read, and the rest is
    /// queued on the stream. Returns false, with nothing done, where other copies use the blocks, the runtime has no
    /// pinned memory to give, or a row of the box is larger than a block. Throws Error where the runtime fails; what
    /// was queued then stays queued, and so it does where a signal ends the wait.
    bool to_device(const DeviceBox& dst, const portamem_host_runs& src, std::size_t nbytes, rt::Stream_t on,
                   int threads) {
        const Parts parts(nbytes, block_bytes_, dst.width);
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock() || !is_ready(parts)) return false;
        const HearingUnderLock hearing;
        const Mover mover({src, ring_, block_bytes_, parts.of_block, kBlocks, 1}, threads);
        if (!mover) return false;
        std::size_t allowed = 0;
        for (std::size_t sent = 0; sent < parts.count;) {
            while (allowed < parts.count && allowed < sent + kBlocks && (allowed < kBlocks || is_free(allowed)))
                mover.allow(++allowed);
            if (sent == allowed) {
                wait_until_free(allowed);  // the device has all of them
            } else if (mover.is_done(sent)) {
                queue(dst, parts, sent++, true, on);
            } else {
                mover.help();
            }
        }
        return true;
    }

    /// Copies device memory to host memory. On return every byte is there. Returns and throws as to_device does.
    bool to_host(const portamem_host_runs& dst, const DeviceBox& src, std::size_t nbytes, rt::Stream_t on,
                 int threads) {
        const Parts parts(nbytes, block_bytes_, src.width);
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock() || !is_ready(parts)) return false;
        const HearingUnderLock hearing;
        const Mover mover({dst, ring_, block_bytes_, parts.of_block, kBlocks, 0}, threads);
        if (!mover) return false;
        std::size_t queued = 0, allowed = 0;
        for (std::size_t done = 0; done < parts.count;) {
            while (queued < parts.count && queued < done + kBlocks) queue(src, parts, queued++, false, on);
            while (allowed < queued && is_free(allowed)) mover.allow(++allowed);
            if (done == allowed) {
                wait_until_free(allowed);  // the device has not filled it yet
            } else if (mover.is_done(done)) {
                ++done;
            } else {
                mover.help();
            }
        }
        return true;
    }

  private:
    // Cuts a copy into parts of one block, which hold whole rows where there are rows. A small copy has smaller parts:
    // threads and the device can work on several at once.
    struct Parts {
        Parts(std::size_t all, std::size_t most, std::size_t row) noexcept
            : whole(all), of_block(size(all, most, row)), count(of_block == 0 ? 0 : (all + of_block - 1) / of_block) {}

        std::size_t begin(std::size_t number) const noexcept { return number * of_block; }
        std::size_t nbytes(std::size_t number) const noexcept {
            const std::size_t left = whole - begin(number);
            return left < of_block ? left : of_block;
        }

        const std::size_t whole, of_block, count;

      private:
        static std::size_t size(std::size_t all, std::size_t most, std::size_t row) noexcept {
            constexpr std::size_t kStep = std::size_t{128} << 10;
            const std::size_t share = (all / kBlocks / kStep + 1) * kStep;
            const std::size_t wanted = share < most ? share : most;
            return row == 0 ? wanted : (row <= wanted ? wanted : most) / row * row;
        }
    };

    // Ends the helpers' work on a copy, also where the runtime fails in it.
    class Mover {
      public:
        Mover(const portamem_move& move, int threads) noexcept : mover_(portamem_move_begin(&move, threads)) {}
        ~Mover() {
            if (mover_ != nullptr) portamem_move_end(mover_);
        }
        Mover(const Mover&) = delete;
        Mover& operator=(const Mover&) = delete;

        explicit operator bool() const noexcept { return mover_ != nullptr; }
        void allow(std::size_t blocks) const noexcept { portamem_move_allow(mover_, blocks); }
        bool is_done(std::size_t number) const noexcept { return portamem_move_is_done(mover_, number) != 0; }
        void help() const noexcept { (void)portamem_move_help(mover_); }

      private:
        portamem_mover* const mover_;
    };

    // Returns whether the runtime's work on the place of this block has ended.
    bool is_free(std::size_t number) const {
        const rt::Error_t answer = rt::EventQuery(behind_[number % kBlocks]);
        if (answer == rt::Error_t::NotReady) return false;
        check(answer, "EventQuery");
        return true;
    }

    // Waits while `is_over` says no, and lets other threads run. Returns false where the time is up before.
    template <class IsOver>
    static bool is_over_within(std::chrono::milliseconds time, IsOver&& is_over) {
        const auto end = std::chrono::steady_clock::now() + time;
        while (!is_over()) {
            if (std::chrono::steady_clock::now() > end) return false;
            std::this_thread::yield();
        }
        return true;
    }

    // The device needs less than a millisecond for a block, and far longer where other work lies on the stream: a wait
    // for that hears signals.
    void wait_until_free(std::size_t number) const {
        auto is_over = [&] { return is_free(number); };
        if (is_over_within(kUsual, is_over) || hear_until(is_over)) return;
        check(rt::EventSynchronize(behind_[number % kBlocks]), "EventSynchronize");
    }

    // Queues one block's copy, with the block's event behind it. Where either fails, the call waits for the stream:
    // nothing else says when the block is free.
    void queue(const DeviceBox& box, const Parts& parts, std::size_t number, bool to_device, rt::Stream_t on) const {
        try {
            queue_part(box, parts.begin(number), parts.nbytes(number),
                       static_cast<char*>(ring_) + number % kBlocks * block_bytes_, to_device, on);
            check(rt::EventRecord(behind_[number % kBlocks], on), "EventRecord");
        } catch (...) {
            (void)rt::StreamSynchronize(on);
            throw;
        }
    }

    static void queue_part(const DeviceBox& box, std::size_t begin, std::size_t nbytes, char* block, bool to_device,
                           rt::Stream_t on) {
        if (box.width == 0) {
            queue_bytes(box.first + begin, block, nbytes, to_device, on);
        } else {
            queue_rows(box, begin / box.width, nbytes / box.width, block, to_device, on);
        }
    }

    static void queue_bytes(char* there, char* block, std::size_t nbytes, bool to_device, rt::Stream_t on) {
        check(
            rt::MemcpyAsync(to_device ? there : block, to_device ? block : there, nbytes, rt::MemcpyKind::Default, on),
            "MemcpyAsync");
    }

    // Names the direction, which some runtimes find out wrongly for rows. A single row has no pitch.
    static void queue_rows(const DeviceBox& box, std::size_t row, std::size_t rows, char* packed, bool to_device,
                           rt::Stream_t on) {
        const auto kind = to_device ? rt::MemcpyKind::HostToDevice : rt::MemcpyKind::DeviceToHost;
        while (rows != 0) {
            const std::size_t left = box.height - row % box.height;
            const std::size_t now = rows < left ? rows : left;
            char* const there = box.first + row / box.height * box.slice + row % box.height * box.pitch;
            if (now == 1) {
                queue_bytes(there, packed, box.width, to_device, on);
            } else {
                check(to_device ? rt::Memcpy2DAsync(there, box.pitch, packed, box.width, box.width, now, kind, on)
                                : rt::Memcpy2DAsync(packed, box.width, there, box.pitch, box.width, now, kind, on),
                      "Memcpy2DAsync");
            }
            row += now;
            rows -= now;
            packed += now * box.width;
        }
    }

    // Makes what is missing. The last copy's blocks may still be on their way, and behind other work of their stream:
    // then the runtime carries this copy, and the next ones do not wait for these blocks again.
    bool is_ready(const Parts& parts) {
        if (parts.of_block == 0) return false;
        const DeviceGuard guard(device_);
        for (; events_ < kBlocks; ++events_) {
            if (rt::EventCreateWithFlags(&behind_[events_], rt::EventDisableTiming) != rt::Error_t::Success)
                return false;
        }
        if (ring_ == nullptr && rt::HostMalloc(&ring_, kBlocks * block_bytes_, rt::HostMallocPortable,
                                               rt::Coherence::Default) != rt::Error_t::Success) {
            return false;
        }
        const std::size_t needed = parts.count < kBlocks ? parts.count : kBlocks;
        std::size_t free = 0;
        const auto are_free = [&] {
            while (free < needed && is_free_unasked(free)) ++free;
            return free == needed;
        };
        is_held_up_ = !is_over_within(is_held_up_ ? std::chrono::milliseconds(0) : kPatience, are_free);
        return !is_held_up_;
    }

    // Answers for the lane's own sake: the program learns nothing of other streams by it.
    bool is_free_unasked(std::size_t place) const {
        const portamem_order_range range{static_cast<char*>(ring_) + place * block_bytes_, block_bytes_};
        const UntrackedQueries own(&range, 1);
        return is_free(place);
    }

    static constexpr std::chrono::milliseconds kUsual{1};      // a block is on its way for less
    static constexpr std::chrono::milliseconds kPatience{50};  // all blocks are, on a slow bus

    const int device_;
    const std::size_t block_bytes_;
    std::mutex mutex_;
    std::size_t events_ = 0;                     // that were made
    std::array<rt::Event_t, kBlocks> behind_{};  // each stands behind the latest work on its block
    void* ring_ = nullptr;
    bool is_held_up_ = false;  // other work held the blocks up when they were last wanted
};

}  // namespace detail

PORTAMEM_CLOSE
