// SPDX-License-Identifier: MIT
// portamem/reallocate.hpp: memory that gets another size, or goes to another resource, and keeps its contents.
//
// No vendor has a realloc for devices. Memory keeps its address where its resource can change the size there: a pool
// that has room behind the block, or a VirtualMemoryResource within the block's addresses. Otherwise new memory is
// taken, the contents are copied, and the old memory goes back behind the copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>

#include "portamem/by_address.hpp"
#include "portamem/copy.hpp"
#include "portamem/current_resource.hpp"

PORTAMEM_OPEN

namespace detail {

/// Queues a copy of the first bytes of a buffer to another one.
inline void copy_first(const Buffer& dst, const Buffer& src, std::size_t nbytes,
                       const std::shared_ptr<Stream>& stream) {
    if (nbytes == 0) return;
    Span to = Span::of(dst), from = Span::of(src);
    to.nbytes = from.nbytes = nbytes;
    (void)copy(to, from, stream);
}

/// Refuses a stream that takes no work now.
inline void refuse_unusable(const Stream& stream, const char* what) {
    if (stream.is_closed()) throw std::invalid_argument("the stream is closed: name one that is open");
    stream.refuse_capture_if_open(what);
}

/// Returns the memory of a buffer that may be given another size. Throws std::invalid_argument for any other buffer.
inline std::shared_ptr<Allocation> reallocatable(const Buffer& buffer) {
    refuse_forked();
    if (buffer.has_pitch())
        throw std::invalid_argument("rows with a pitch keep their size: allocate new rows, and copy_2d to them");
    if (buffer.is_sub_view())
        throw std::invalid_argument("a sub-view does not own its memory: reallocate the buffer itself");
    std::shared_ptr<Allocation> memory = buffer.allocation();
    if (memory->resource()) return memory;
    throw std::invalid_argument("the memory is not portamem's: its owner alone can give it another size");
}

/// Returns the memory that such a buffer, of `had` bytes, has after reallocate: its own, or new memory. Then its own
/// has gone back.
inline std::shared_ptr<Allocation> reallocated(const std::shared_ptr<Allocation>& old, std::size_t had,
                                               std::size_t nbytes, std::shared_ptr<Stream> stream,
                                               std::size_t alignment) {
    refuse_alignment(alignment);
    if (!stream) stream = old->stream();
    refuse_unusable(*stream, "reallocate");
    if (old->resize_in_place(nbytes, stream, alignment)) return old;
    auto made = Allocation::make(old->resource(), nbytes, stream, alignment);
    // The program may have queued work of its own on the buffer's stream, and on streams that were handed the memory.
    old->use_on(old->stream());
    old->order_behind_users(*stream);
    old->wait_for_borrowers();
    copy_first(Buffer(made, nbytes), Buffer(old, had), std::min(nbytes, had), stream);
    if (!old->close(stream)) throw std::invalid_argument("the buffer is closed");
    return made;
}

/// Returns the stream that memory of a resource is taken and given back on, for work on `stream`. It is that stream,
/// unless the resource cannot follow a stream of another device.
inline std::shared_ptr<Stream> home_for(const MemoryResource& resource, const std::shared_ptr<Stream>& stream) {
    const bool follows = !resource.is_stream_ordered() || resource.device() == stream->device();
    return follows ? stream : Stream::default_stream(resource.device());
}

/// Holds memory that is out at an address, and gives up that hold unless it closes the memory.
class OutAtAddress {
  public:
    OutAtAddress(const std::shared_ptr<MemoryResource>& resource, void* ptr, std::size_t nbytes,
                 const std::shared_ptr<Stream>& stream)
        : buffer_(Allocation::adopt(resource, ptr, nbytes, home_for(*resource, stream)), nbytes) {}
    ~OutAtAddress() {
        if (!buffer_.is_closed()) (void)buffer_.release();  // it owns the memory, and has no export: it does not throw
    }
    OutAtAddress(const OutAtAddress&) = delete;
    OutAtAddress& operator=(const OutAtAddress&) = delete;

    const Buffer& buffer() const noexcept { return buffer_; }
    void close() { buffer_.close(); }

  private:
    Buffer buffer_;
};

/// Moves memory that is out at an address into new memory of a resource.
inline void* moved(const KnownBlock& block, const std::shared_ptr<MemoryResource>& to, std::size_t nbytes,
                   const std::shared_ptr<Stream>& stream, std::size_t alignment) {
    Buffer made(to, nbytes, home_for(*to, stream), alignment);
    OutAtAddress old(block.resource, const_cast<void*>(block.base), block.nbytes, stream);
    old.buffer().allocation()->use_on(stream);  // the program's work there is work on this memory
    copy_first(made, old.buffer(), std::min(nbytes, block.nbytes), stream);
    if (to->is_host_accessible()) stream->synchronize();
    old.close();
    return made.release();
}

/// Returns the block that begins at an address. Throws std::invalid_argument where none is out there.
inline KnownBlock block_at(const void* ptr) {
    const ByAddress::Found found(ptr, false);
    if (!found) ByAddress::refuse_unknown();
    return {found.block().base, found.block().nbytes, found.resource()};
}

}  // namespace detail

/// Gives a buffer the size `nbytes`. The first bytes keep their values, as many as both sizes have.
/// - The address may change. Memory of a pool or a VirtualMemoryResource keeps it where there is room, if `stream` is
///   the buffer's own and no other stream uses the memory.
/// - stream (null: the buffer's): the copy runs there, behind all work that was declared on the memory; the new memory
///   may be used from there, and goes back there. The old memory goes back behind the copy. The host waits for the copy
///   where the resource is not stream-ordered, and where the runtime copies host memory on the CPU.
/// - alignment: of the new address, as for MemoryResource::allocate. The old alignment is not remembered.
/// - Throws ExportError while the buffer has exports. Throws std::invalid_argument for a closed buffer, a sub-view,
///   a PitchedBuffer, memory of the program's, and a closed or captured stream. Throws as allocate and copy do,
///   OutOfMemory among others, also for a much smaller size. The buffer is as it was then.
inline void reallocate(Buffer& buffer, std::size_t nbytes, const std::shared_ptr<Stream>& stream = nullptr,
                       std::size_t alignment = MemoryResource::kAlignment) {
    const std::shared_ptr<Allocation> old = detail::reallocatable(buffer);
    buffer = Buffer(detail::reallocated(old, buffer.nbytes(), nbytes, stream, alignment), nbytes);
}

/// Gives memory that is known by its address another size, and returns its new address. It keeps its resource, and the
/// first bytes keep their values.
/// - ptr: null takes new memory of the current resource of the stream's device. nbytes: 0 gives the memory back, and
///   returns null.
/// - stream: the caller has ordered it behind all work that uses the memory. Work on it may use the new memory. If the
///   host reaches the new memory, the call waits for the copy, and the host may use it too.
/// - alignment: of the new address, as for MemoryResource::allocate.
/// - Throws std::invalid_argument where no resource has the address out, and as allocate and copy do. The old memory is
///   still out then, with its contents.
[[nodiscard]] inline void* reallocate(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                      std::size_t alignment = MemoryResource::kAlignment) {
    refuse_forked();
    detail::refuse_alignment(alignment);
    if (nbytes == 0) {
        deallocate(ptr, stream);
        return nullptr;
    }
    detail::refuse_unusable(*stream, "reallocate");
    if (ptr == nullptr) return current_resource(stream->device())->allocate(nbytes, stream, alignment);
    const KnownBlock block = detail::block_at(ptr);
    const bool is_aligned = (reinterpret_cast<std::uintptr_t>(ptr) & (alignment - 1)) == 0;
    if (is_aligned && block.resource->resize_in_place(ptr, block.nbytes, nbytes, stream)) return ptr;
    return detail::moved(block, block.resource, nbytes, stream, alignment);
}

/// Moves memory that is known by its address to the resource `to`, and returns its new address. Where `to` has the
/// memory already it returns `ptr`, whatever its alignment, and for null it returns null. The stream, the wait for the
/// copy and the exceptions are as for reallocate. The resources may be of different devices.
[[nodiscard]] inline void* move(void* ptr, const std::shared_ptr<MemoryResource>& to,
                                const std::shared_ptr<Stream>& stream,
                                std::size_t alignment = MemoryResource::kAlignment) {
    if (ptr == nullptr) return nullptr;
    refuse_forked();
    detail::refuse_unusable(*stream, "move");
    (void)detail::open_upstream(to, "target");
    const KnownBlock block = detail::block_at(ptr);
    return block.resource == to ? ptr : detail::moved(block, to, block.nbytes, stream, alignment);
}

/// These functions take a bare stream handle, which is one of this device (null: its default stream): for reallocate
/// the device of the memory's resource, or the current device if `ptr` is null; for move the device of `to`.
[[nodiscard]] inline void* reallocate(void* ptr, std::size_t nbytes, rt::Stream_t handle,
                                      std::size_t alignment = MemoryResource::kAlignment) {
    const int device = ptr == nullptr ? current_device() : detail::block_at(ptr).resource->device();
    return reallocate(ptr, nbytes, Stream::from_handle(handle, device), alignment);
}
[[nodiscard]] inline void* move(void* ptr, const std::shared_ptr<MemoryResource>& to, rt::Stream_t handle,
                                std::size_t alignment = MemoryResource::kAlignment) {
    return move(ptr, to, Stream::from_handle(handle, detail::open_upstream(to, "target")->device()), alignment);
}

PORTAMEM_CLOSE
