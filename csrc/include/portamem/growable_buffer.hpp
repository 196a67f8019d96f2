// SPDX-License-Identifier: MIT
// portamem/growable_buffer.hpp: a buffer that grows and shrinks at its address.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "portamem/buffer.hpp"
#include "portamem/mr/virtual_memory_resource.hpp"

PORTAMEM_OPEN

/// Owns memory of a VirtualMemoryResource that gets another size without a copy and without another address. Addresses
/// are reserved for `capacity` bytes; only the bytes that the buffer has take memory of the device.
class GrowableBuffer : public Buffer {
  public:
    /// Takes `nbytes` of the resource.
    /// - capacity: the most bytes that the buffer can grow to, rounded up to the granularity; 0 means as many as the
    ///   device has.
    /// - stream: as for Buffer.
    /// - Throws as VirtualMemoryResource::allocate_reserved does.
    GrowableBuffer(const std::shared_ptr<VirtualMemoryResource>& resource, std::size_t nbytes, std::size_t capacity = 0,
                   std::shared_ptr<Stream> stream = nullptr)
        : Buffer(
              make(resource, nbytes, capacity, stream ? std::move(stream) : Stream::default_stream(resource->device())),
              nbytes) {}

    /// Returns the most bytes that the buffer can grow to at its address.
    std::size_t capacity() const {
        const auto memory = allocation();
        return of(*memory).capacity_of(memory->ptr());
    }
    /// Returns the bytes of device memory that the buffer takes now: its size in whole pieces, or 0 while it sleeps.
    std::size_t mapped() const {
        const auto memory = allocation();
        return of(*memory).mapped_of(memory->ptr());
    }

    /// Gives the buffer the size `nbytes`. The address stays, and so do the contents, as many as both sizes have; new
    /// bytes have undefined contents.
    /// - More bytes: exports stay valid with the size that they have. Work on any stream may use the new bytes at once.
    /// - Fewer bytes: the call waits for all work that was declared on the buffer, and for the work on `stream` (null:
    ///   the buffer's). Another thread that begins an export meanwhile gets ExportError. Memory goes back to the device
    ///   in whole pieces of about an eighth of the buffer each.
    /// - Throws ExportError for fewer bytes while exports live; std::invalid_argument for 0 bytes, more than
    ///   `capacity`, a closed buffer, and while the memory sleeps; OutOfMemory and Error. The buffer is as it was then.
    /// - One thread at a time may use the object while it is resized; others may use its exports.
    /// - reallocate() changes the size too, but may move the memory. The buffer then has another address, and the
    ///   capacity of an ordinary allocation of its resource.
    void resize(std::size_t nbytes, const std::shared_ptr<Stream>& stream = nullptr) {
        const auto memory = allocation();
        resize_memory(*memory, nbytes, stream);
        Buffer::operator=(Buffer(memory, nbytes));
    }

    /// Does resize for the memory of such a buffer, for a caller that sets the size of the buffer itself.
    static void resize_memory(Allocation& memory, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        refuse_forked();
        memory.resize_here(nbytes, [&] { of(memory).resize(memory.ptr(), nbytes, stream ? stream : memory.stream()); });
    }

  private:
    static std::shared_ptr<Allocation> make(const std::shared_ptr<VirtualMemoryResource>& resource, std::size_t nbytes,
                                            std::size_t capacity, std::shared_ptr<Stream> stream) {
        return Allocation::make_by(resource, nbytes, std::move(stream), [&](const std::shared_ptr<Stream>& on) {
            return resource->allocate_reserved(nbytes, capacity, on);
        });
    }

    // reallocate() may give the buffer other memory, of the same resource.
    static VirtualMemoryResource& of(const Allocation& memory) {
        return static_cast<VirtualMemoryResource&>(*memory.resource());
    }
};

PORTAMEM_CLOSE
