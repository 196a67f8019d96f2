// SPDX-License-Identifier: MIT
// portamem/buffer.hpp: memory with an owner.
#pragma once

#include <memory>
#include <string>

#include "portamem/allocation.hpp"
#include "portamem/mr/device_memory_resource.hpp"

PORTAMEM_OPEN

/// Untyped memory of a resource. Closed by close() or by its destructor; a sub-view counts as an export of the memory
/// and keeps it alive.
class Buffer {
  public:
    /// `nbytes` of the resource. stream: where the memory may be used from, and where it goes back; null is the default
    /// stream of the resource's device. alignment: as MemoryResource::allocate takes it.
    Buffer(std::shared_ptr<MemoryResource> resource, std::size_t nbytes, std::shared_ptr<Stream> stream = nullptr,
           std::size_t alignment = MemoryResource::kAlignment)
        : nbytes_(nbytes) {
        if (!stream) stream = Stream::default_stream(resource->device());
        allocation_ = Allocation::make(std::move(resource), nbytes, std::move(stream), alignment);
    }

    /// All of an allocation.
    explicit Buffer(std::shared_ptr<Allocation> allocation, std::size_t nbytes)
        : allocation_(std::move(allocation)), nbytes_(nbytes) {}

    Buffer(Buffer&&) = default;
    Buffer& operator=(Buffer&&) = default;
    virtual ~Buffer() = default;

    /// Somebody else's memory: never freed here, `owner` kept alive instead. What it is, is asked of the runtime.
    static Buffer from_handle(void* ptr, std::size_t nbytes, std::shared_ptr<Stream> stream, const MemoryTraits& traits,
                              std::shared_ptr<void> owner) {
        return Buffer(Allocation::foreign(ptr, nbytes, stream, traits, std::move(owner)), nbytes);
    }

    /// Part of the memory as a buffer of its own: an export until it is closed or gone.
    Buffer sub(std::size_t offset, std::size_t nbytes) const {
        if (offset > nbytes_ || nbytes > nbytes_ - offset) {
            throw std::invalid_argument("a sub-view of " + std::to_string(nbytes) + " bytes at offset " +
                                        std::to_string(offset) + " leaves the buffer of " + std::to_string(nbytes_) +
                                        " bytes");
        }
        Buffer part(allocation(), nbytes);
        part.export_ = Export(allocation_);
        part.offset_ = offset_ + offset;
        return part;
    }

    /// The address; null for a buffer of 0 bytes.
    void* ptr() const {
        const Allocation& memory = open();
        memory.expose();
        return at(memory.ptr());
    }
    /// The same for portamem's own operations, which declare each use of it.
    void* address() const { return at(open().ptr()); }
    std::size_t nbytes() const noexcept { return nbytes_; }
    bool is_sub_view() const noexcept { return static_cast<bool>(export_); }
    bool is_closed() const noexcept { return !allocation_ || allocation_->is_closed(); }
    std::size_t exports() const noexcept { return allocation_ && !is_sub_view() ? allocation_->exports() : 0; }

    const MemoryTraits& traits() const { return open().traits(); }
    std::shared_ptr<MemoryResource> resource() const { return open().resource(); }
    std::shared_ptr<Stream> stream() const { return open().stream(); }

    /// The memory behind it; throws std::invalid_argument once closed.
    std::shared_ptr<Allocation> allocation() const {
        (void)open();
        return allocation_;
    }

    /// Declares that work submitted to `stream` from now on uses the memory.
    void record_stream(const std::shared_ptr<Stream>& stream) const {
        refuse_forked();
        allocation()->use_on(stream);
    }

    /// Gives the memory back on `stream` (null: the one of the allocation), behind all declared work. A sub-view only
    /// ends its export. Closing twice is fine. Throws ExportError while exports live, and stays usable.
    void close(const std::shared_ptr<Stream>& stream = nullptr) {
        if (!allocation_) return;
        if (!is_sub_view()) allocation_->close(stream);
        abandon();
    }

    /// Lets go without a refusal: the memory goes back with its last export.
    void abandon() noexcept { (void)take(); }

    /// The same, with what is let go: it goes when the caller drops it.
    Buffer take() noexcept { return std::move(*this); }

    /// The memory behind it, or null once closed.
    std::shared_ptr<Allocation> shared() const noexcept { return allocation_; }

    /// Gives up ownership; the caller hands the address to the resource's deallocate.
    void* release() {
        if (is_sub_view()) throw std::invalid_argument("a sub-view does not own its memory: release the buffer itself");
        void* ptr = allocation()->release();
        allocation_.reset();
        return ptr;
    }

  private:
    friend struct detail::Embedded;

    // What others did with the memory before they let go of it has happened then. ThreadSanitizer knows no fences.
    bool is_only_holder() const noexcept {
#if defined(__SANITIZE_THREAD__)
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

    void* at(void* base) const noexcept { return base == nullptr ? nullptr : static_cast<char*>(base) + offset_; }

    // The export is declared last: it ends before the allocation goes.
    std::shared_ptr<Allocation> allocation_;
    std::size_t offset_ = 0;
    std::size_t nbytes_ = 0;
    Export export_;
};

/// Rows of `width` bytes, `pitch` bytes apart.
class PitchedBuffer : public Buffer {
  public:
    PitchedBuffer(const std::shared_ptr<DeviceMemoryResource>& resource, std::size_t width, std::size_t height,
                  std::shared_ptr<Stream> stream = nullptr)
        : PitchedBuffer(resource, width, height,
                        stream ? std::move(stream) : Stream::default_stream(resource->device()), nullptr) {}

    std::size_t width() const noexcept { return width_; }
    std::size_t height() const noexcept { return height_; }
    std::size_t pitch() const noexcept { return pitch_; }

  private:
    PitchedBuffer(const std::shared_ptr<DeviceMemoryResource>& resource, std::size_t width, std::size_t height,
                  const std::shared_ptr<Stream>& stream, std::nullptr_t)
        : PitchedBuffer(resource, resource->allocate_pitched(width, height, stream), width, height, stream) {}

    PitchedBuffer(const std::shared_ptr<DeviceMemoryResource>& resource, const DeviceMemoryResource::Rows& rows,
                  std::size_t width, std::size_t height, const std::shared_ptr<Stream>& stream)
        : Buffer(Allocation::adopt(resource, rows.ptr, rows.nbytes, stream), rows.nbytes),
          width_(width),
          height_(height),
          pitch_(rows.pitch) {}

    std::size_t width_;
    std::size_t height_;
    std::size_t pitch_;
};

PORTAMEM_CLOSE
