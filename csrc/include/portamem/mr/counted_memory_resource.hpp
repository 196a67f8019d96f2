// SPDX-License-Identifier: MIT
// portamem/mr/counted_memory_resource.hpp: resources that count what they have out in one place.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "portamem/mr/detail/shared_table.hpp"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN

/// Counts the buffers that are out and their bytes. It refuses a free where none is out, or with more bytes than are
/// out, and it closes only when nothing is out. It makes no runtime call itself.
class CountedMemoryResource : public MemoryResource {
  public:
    std::size_t live_buffers() const noexcept final {
        const auto live = live_.load(std::memory_order_acquire);
        return live < 0 ? 0 : static_cast<std::size_t>(live);
    }
    std::size_t live_bytes() const noexcept final { return live_bytes_.load(std::memory_order_relaxed); }
    bool is_closed() const noexcept final { return live_.load(std::memory_order_acquire) < 0; }

  protected:
    struct Block {
        void* ptr = nullptr;
        std::size_t nbytes = 0;
    };

    explicit CountedMemoryResource(const MemoryTraits& traits) : MemoryResource(traits) {}

    /// Returns `nbytes` of memory for work on `stream`; for 0 bytes the address may be null. A derived class implements
    /// it, and throws OutOfMemory if there is no memory. The base class has checked that the resource is open, that the
    /// alignment is a power of two, and that a stream-ordered resource is of the stream's device.
    virtual void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) = 0;
    /// Takes back memory that take returned. ptr may be null, with 0 bytes. If it throws, the memory stays allocated.
    virtual void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) = 0;
    /// Is called as the resource closes: nothing is out, and no call can begin. If it throws, the resource is open
    /// again, and the next close calls it again.
    virtual void at_close() {}
    /// Is called for all bytes that go out (positive) or come back (negative).
    virtual void counted(std::int64_t /*delta*/) noexcept {}

    /// Runs an allocating function as allocate promises, and counts what it gave.
    template <class Function>
    Block tracked(const Stream& stream, Function&& function) {
        refuse_forked();
        begin_live();
        try {
            refuse_stream_of_another_device(stream);
            list();
            const Block block = function();
            if (detail::debug_on) portamem_debug_forget(block.ptr);
            count(static_cast<std::int64_t>(block.nbytes));
            (block.ptr == nullptr ? empty_ : out_).fetch_add(1, std::memory_order_relaxed);
            return block;
        } catch (...) {
            live_.fetch_sub(1, std::memory_order_release);
            throw;
        }
    }

    /// Counts a block that is out as `to` bytes, where it counted as `from`.
    void count_resized(std::size_t from, std::size_t to) noexcept {
        count(static_cast<std::int64_t>(to) - static_cast<std::int64_t>(from));
    }

    void* do_allocate(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) final {
        detail::refuse_alignment(options.alignment);
        return tracked(*stream, [&] { return Block{take(nbytes, stream, options), nbytes}; }).ptr;
    }

    void do_deallocate(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) final {
        refuse_forked();
        if (ptr == nullptr) nbytes = 0;
        std::atomic<std::int64_t>& out = ptr == nullptr ? empty_ : out_;
        if (!claim(out)) {
            if (ptr == nullptr) return;
            throw std::invalid_argument("this resource has no live allocations, so this pointer is not from it");
        }
        try {
            refuse_stream_of_another_device(*stream);
            if (nbytes > live_bytes()) refuse_size(nbytes);
            give_back(ptr, nbytes, stream);
            count(-static_cast<std::int64_t>(nbytes));
        } catch (...) {
            out.fetch_add(1, std::memory_order_relaxed);
            throw;
        }
        live_.fetch_sub(1, std::memory_order_release);  // last: close() may go on from here
    }

    bool try_close() final {
        std::int64_t none = 0;
        if (live_.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel)) {
            try {
                if (runtime_usable()) at_close();
            } catch (...) {
                live_.fetch_sub(kClosed, std::memory_order_release);
                throw;
            }
            return true;
        }
        return none < 0;
    }

  private:
    static constexpr std::int64_t kClosed = -(std::int64_t{1} << 62);

    void begin_live() {
        if (live_.fetch_add(1, std::memory_order_acquire) >= 0) return;
        live_.fetch_sub(1, std::memory_order_relaxed);
        throw std::invalid_argument("the memory resource is closed");
    }

    // Takes one off the buffers that are out; returns false where none is.
    static bool claim(std::atomic<std::int64_t>& out) noexcept {
        auto count = out.load(std::memory_order_relaxed);
        do {
            if (count <= 0) return false;
        } while (!out.compare_exchange_weak(count, count - 1, std::memory_order_relaxed));
        return true;
    }

    [[noreturn]] void refuse_size(std::size_t nbytes) const {
        throw std::invalid_argument("the memory resource has " + std::to_string(live_bytes()) + " bytes out, not " +
                                    std::to_string(nbytes) + ": give the size that was allocated");
    }

    void count(std::int64_t delta) noexcept {
        live_bytes_.fetch_add(static_cast<std::size_t>(delta), std::memory_order_relaxed);
        counted(delta);
    }

    std::atomic<std::int64_t> live_{0};   // buffers that are out, coming or going; negative once closed
    std::atomic<std::int64_t> out_{0};    // of those, the ones that deallocate may take
    std::atomic<std::int64_t> empty_{0};  // the same for 0 bytes, which all have one address
    std::atomic<std::size_t> live_bytes_{0};
};

PORTAMEM_CLOSE
