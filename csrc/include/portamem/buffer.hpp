// SPDX-License-Identifier: MIT
// portamem/buffer.hpp: memory with an owner.
#pragma once

#include <memory>
#include <string>

#include "portamem/allocation.hpp"
#include "portamem/detail/sanitizers.hpp"
#include "portamem/export.hpp"
#include "portamem/mr/device_memory_resource.hpp"

PORTAMEM_OPEN

/// Owns untyped memory of a resource. close() or the destructor gives it back. A sub-view counts as an export of the
/// memory and keeps it alive.
class Buffer {
  public:
    /// Takes `nbytes` of the resource, which is not null. Throws as MemoryResource::allocate does.
    /// - stream: the memory may be used on it, and goes back on it. Null means the default stream of the resource's
    ///   device.
    /// - alignment: in bytes, as for MemoryResource::allocate.
    Buffer(std::shared_ptr<MemoryResource> resource, std::size_t nbytes, std::shared_ptr<Stream> stream = nullptr,
           std::size_t alignment = MemoryResource::kAlignment)
        : nbytes_(nbytes) {
        if (!stream) stream = Stream::default_stream(resource->device());
        allocation_ = Allocation::make(std::move(resource), nbytes, std::move(stream), alignment);
    }

    /// Makes a buffer over `allocation`, which other buffers may share. The buffer is no export: its close() ends the
    /// memory for all of them. nbytes: the size of the buffer, from the allocation's beginning and within it; portamem
    /// does not check it.
    explicit Buffer(std::shared_ptr<Allocation> allocation, std::size_t nbytes)
        : allocation_(std::move(allocation)), nbytes_(nbytes) {}

    Buffer(Buffer&&) = default;
    Buffer& operator=(Buffer&&) = default;
    virtual ~Buffer() = default;

    /// Wraps memory of the program; portamem never frees it.
    /// - stream: the stream whose work may use the memory; not null.
    /// - traits: portamem believes them, and does not ask the runtime.
    /// - owner: portamem keeps it until the buffer has ended and all declared work has run.
    static Buffer from_handle(void* ptr, std::size_t nbytes, std::shared_ptr<Stream> stream, const MemoryTraits& traits,
                              std::shared_ptr<void> owner) {
        return Buffer(Allocation::foreign(ptr, nbytes, stream, traits, std::move(owner)), nbytes);
    }

    /// Returns `nbytes` from `offset` on as a buffer of its own, a sub-view. It counts as an export until it is closed
    /// or destroyed. Throws std::invalid_argument for a part that leaves the buffer, if the buffer is closed, and while
    /// the memory sleeps.
    Buffer sub(std::size_t offset, std::size_t nbytes) const {
        if (offset > nbytes_ || nbytes > nbytes_ - offset) {
            throw std::invalid_argument("a sub-view of " + std::to_string(nbytes) + " bytes at offset " +
                                        std::to_string(offset) + " leaves the buffer of " + std::to_string(nbytes_) +
                                        " bytes");
        }
        (void)usable();
        Buffer part(allocation(), nbytes);
        part.export_ = Export(allocation_);
        part.offset_ = offset_ + offset;
        return part;
    }

    /// Returns the address; null for an allocation of 0 bytes. portamem does not see work that uses the address. So
    /// when the buffer ends, its memory goes back behind all work on its own stream and on its declared streams. Throws
    /// std::invalid_argument if the buffer is closed, and while its memory sleeps. After settle_when_exposed() the
    /// first call waits for the buffer's own stream.
    void* ptr() const {
        const Allocation& memory = usable();
        memory.expose();
        void* const address = at(memory.ptr());
        if (memory.is_unsettled()) settle();
        return address;
    }
    /// Makes the first ptr() wait for the buffer's own stream, so that every stream may use the address at once
    /// (Allocation::settle_when_exposed).
    void settle_when_exposed() const { open().settle_when_exposed(); }
    bool is_unsettled() const { return open().is_unsettled(); }
    /// Does the wait of ptr(), for a caller that gives up a lock of its own meanwhile.
    void settle() const { allocation()->settle(); }
    /// Returns the same address, and does not wait: for portamem's own operations, which declare each use of the
    /// memory.
    void* address() const { return at(usable().ptr()); }
    std::size_t nbytes() const noexcept { return nbytes_; }
    bool is_sub_view() const noexcept { return static_cast<bool>(export_); }
    /// Returns whether it has rows that lie apart: a PitchedBuffer has.
    virtual bool has_pitch() const noexcept { return false; }
    bool is_closed() const noexcept { return !allocation_ || allocation_->is_closed(); }
    /// Returns how many exports of the memory live; 0 for a sub-view, and once closed.
    std::size_t exports() const noexcept { return allocation_ && !is_sub_view() ? allocation_->exports() : 0; }

    /// traits(), resource() and stream() throw std::invalid_argument once the buffer is closed. resource() is null for
    /// foreign memory.
    const MemoryTraits& traits() const { return open().traits(); }
    std::shared_ptr<MemoryResource> resource() const { return open().resource(); }
    std::shared_ptr<Stream> stream() const { return open().stream(); }

    /// Returns the allocation; throws std::invalid_argument once the buffer is closed.
    std::shared_ptr<Allocation> allocation() const {
        (void)open();
        return allocation_;
    }

    /// Declares that work queued on `stream` from now on uses the memory, which then goes back behind that work. At the
    /// first call for a stream other than the buffer's own, that stream waits for the buffer's own stream; this call
    /// throws std::invalid_argument if `stream` is closed, or if one of the two is captured. Every call throws
    /// std::invalid_argument if the buffer is closed.
    void record_stream(const std::shared_ptr<Stream>& stream) const {
        refuse_forked();
        allocation()->use_on(stream);
    }

    /// Gives the memory back on `stream` (null: the buffer's own), behind all declared work. A sub-view only ends its
    /// export. Closing twice is allowed. Throws ExportError while exports live, std::invalid_argument while a capture
    /// forbids it, and Error if the runtime refuses; the buffer stays usable then.
    void close(const std::shared_ptr<Stream>& stream = nullptr) {
        if (!allocation_) return;
        if (!is_sub_view()) allocation_->close(stream);
        abandon();
    }

    /// Lets go of the memory, also while exports live: the memory goes back when its last holder ends.
    void abandon() noexcept { (void)take(); }

    /// Moves the buffer out, and leaves this one closed. The caller lets go of the memory by destroying the result.
    Buffer take() noexcept { return std::move(*this); }

    /// Returns the allocation, or null once this buffer has let go of it.
    std::shared_ptr<Allocation> shared() const noexcept { return allocation_; }

    /// Gives up ownership and returns the address; the buffer is closed then. The caller passes the address to
    /// resource()->deallocate, on a stream that is behind all work that uses the memory, because the declared streams
    /// are forgotten. Throws ExportError under an export, and std::invalid_argument for a sub-view, foreign memory or a
    /// closed buffer.
    void* release() {
        if (is_sub_view()) throw std::invalid_argument("a sub-view does not own its memory: release the buffer itself");
        void* ptr = allocation()->release();
        allocation_.reset();
        return ptr;
    }

  private:
    friend struct detail::Embedded;

    // Where it returns true, this thread sees all that other threads did with the memory before they let go of it: the
    // fence orders that. ThreadSanitizer does not understand fences, so the answer is false under it.
    bool is_only_holder() const noexcept {
#if PORTAMEM_THREAD_SANITIZER
        return false;
#else
        if (allocation_.use_count() != 1 || export_) return false;
        std::atomic_thread_fence(std::memory_order_acquire);
        return true;
#endif
    }

    const Allocation& open() const {
        if (is_closed()) throw std::invalid_argument("the buffer is closed");
        return *allocation_;
    }

    // Returns memory that is open and not away. Where the resource cannot sleep, that costs one branch.
    const Allocation& usable() const {
        const Allocation& memory = open();
        if (__builtin_expect(memory.traits().may_sleep, 0) && memory.resource() && memory.resource()->is_asleep())
            throw std::invalid_argument("the buffer's memory sleeps: wake() its VirtualMemoryResource first");
        return memory;
    }

    void* at(void* base) const noexcept { return base == nullptr ? nullptr : static_cast<char*>(base) + offset_; }

    // The export is declared last, so that it ends before the allocation does.
    std::shared_ptr<Allocation> allocation_;
    std::size_t offset_ = 0;
    std::size_t nbytes_ = 0;
    Export export_;
};

/// Owns rows of `width` bytes that start `pitch` bytes apart.
class PitchedBuffer : public Buffer {
  public:
    /// Takes the rows by DeviceMemoryResource::allocate_pitched. stream: as for Buffer; it is the stream on which the
    /// memory goes back. Throws as allocate_pitched does.
    PitchedBuffer(const std::shared_ptr<DeviceMemoryResource>& resource, std::size_t width, std::size_t height,
                  std::shared_ptr<Stream> stream = nullptr)
        : PitchedBuffer(resource, width, height,
                        stream ? std::move(stream) : Stream::default_stream(resource->device()), nullptr) {}

    bool has_pitch() const noexcept override { return true; }
    std::size_t width() const noexcept { return width_; }
    std::size_t height() const noexcept { return height_; }
    std::size_t pitch() const noexcept { return pitch_; }

  private:
    PitchedBuffer(const std::shared_ptr<DeviceMemoryResource>& resource, std::size_t width, std::size_t height,
                  const std::shared_ptr<Stream>& stream, std::nullptr_t)
        : PitchedBuffer(resource, resource->allocate_pitched(width, height, stream), width, height, stream) {}

    PitchedBuffer(const std::shared_ptr<DeviceMemoryResource>& resource, const DeviceMemoryResource::Rows& rows,
                  std::size_t width, std::size_t height, const std::shared_ptr<Stream>& stream)
        : Buffer(owner_of(resource, rows, stream), rows.nbytes), width_(width), height_(height), pitch_(rows.pitch) {}

    // Gives the rows back where there is no host memory for their owner.
    static std::shared_ptr<Allocation> owner_of(const std::shared_ptr<DeviceMemoryResource>& resource,
                                                const DeviceMemoryResource::Rows& rows,
                                                const std::shared_ptr<Stream>& stream) {
        try {
            return Allocation::adopt(resource, rows.ptr, rows.nbytes, stream);
        } catch (...) {
            resource->deallocate(rows.ptr, rows.nbytes, stream);
            throw;
        }
    }

    std::size_t width_;
    std::size_t height_;
    std::size_t pitch_;
};

PORTAMEM_CLOSE
