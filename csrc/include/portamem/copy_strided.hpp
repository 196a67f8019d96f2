// SPDX-License-Identifier: MIT
// portamem/copy_strided.hpp: copies between host memory with strides and other memory.
#pragma once

#include "portamem/copy.hpp"
#include "portamem/strided_span.hpp"

PORTAMEM_OPEN

namespace detail {

/// Holds the elements of a StridedSpan one behind the other, in host memory of its own.
class PackedElements {
  public:
    explicit PackedElements(const StridedSpan& of)
        : of_(&of), bytes_(new char[of.nbytes()], std::default_delete<char[]>()) {}

    Span span() const { return Span::host(bytes_.get(), of_->nbytes(), bytes_); }
    void pack() const { move(true); }
    void unpack() const { move(false); }

  private:
    void move(bool pack) const {
        const portamem_move all{of_->runs(), bytes_.get(), of_->nbytes(), 1, pack ? 1 : 0};
        portamem_mover* const mover = portamem_move_begin(&all, copy_threads());
        if (mover == nullptr) throw std::bad_alloc();
        portamem_move_allow(mover, 1);
        while (portamem_move_is_done(mover, 0) == 0) (void)portamem_move_help(mover);
        portamem_move_end(mover);
    }

    const StridedSpan* of_;
    std::shared_ptr<char> bytes_;
};

/// Carries a large copy between a device and host memory with strides through pinned blocks, so that its packed
/// elements are never whole in host memory. Returns false, with nothing done, where that cannot be.
inline bool copy_strided_staged(const Span& memory, const StridedSpan& host, bool to_memory,
                                const std::shared_ptr<Stream>& stream, std::shared_ptr<Event>& done) {
    if (host.nbytes() < kStagedFrom || !is_memory_of_device_alone(memory)) return false;
    const int threads = copy_threads();
    if (threads == 0) return false;
    DeviceBox device;
    device.first = static_cast<char*>(memory.ptr);
    bool carried = false;
    done = run_on(stream, memory, Span{}, [&](const Stream& on) {
        carried = carry_staged(device, host.runs(), host.nbytes(), to_memory, on, threads);
    });
    return carried;
}

inline void refuse_sizes(std::size_t memory, std::size_t host) {
    if (memory == host) return;
    throw std::invalid_argument("an end of " + std::to_string(host) + " bytes, with strides, does not fit an end of " +
                                std::to_string(memory) + " bytes: take a part of the larger end");
}

}  // namespace detail

/// Copies all elements of host memory with strides to dst, which has as many bytes, as the copy of two Spans does. On
/// return src has been read; a copy of more than rt::StagedAtOnce bytes waits for the stream's work before it reads.
/// Throws as copy does, and std::bad_alloc where there is no host memory for the packed elements of a small copy.
inline std::shared_ptr<Event> copy(const Span& dst, const StridedSpan& src,
                                   const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    dst.refuse_write();
    detail::refuse_sizes(dst.nbytes, src.nbytes());
    std::shared_ptr<Event> done;
    if (detail::copy_strided_staged(dst, src, true, stream, done)) return done;
    if (stream && src.nbytes() > rt::StagedAtOnce) stream->synchronize();  // what is queued there may write the source
    const detail::PackedElements packed(src);
    packed.pack();
    return copy(dst, packed.span(), stream);
}

/// Copies all of src to host memory with strides, which has as many bytes. The bytes are there on return, also with a
/// stream. Throws as copy does, std::invalid_argument where elements of dst may share bytes, and std::bad_alloc where
/// there is no host memory for the packed elements of a small copy.
inline std::shared_ptr<Event> copy(const StridedSpan& dst, const Span& src,
                                   const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    detail::refuse_sizes(src.nbytes, dst.nbytes());
    if (dst.may_overlap_itself())
        throw std::invalid_argument("elements of the target share memory: copy to an array of their own first");
    std::shared_ptr<Event> done;
    if (detail::copy_strided_staged(src, dst, false, stream, done)) return done;
    const detail::PackedElements packed(dst);
    done = copy(packed.span(), src, stream);
    if (done) done->synchronize();
    packed.unpack();
    return done;
}

PORTAMEM_CLOSE
