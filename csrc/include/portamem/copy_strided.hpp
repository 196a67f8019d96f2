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
        const std::size_t nbytes = of_->nbytes();
        if (nbytes == 0) return;
        const portamem_move all{of_->runs(), bytes_.get(), nbytes, nbytes, 1, pack ? 1 : 0};
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
inline bool copy_strided_staged(const Span& memory, const StridedSpan& host, bool to_memory, const Stream& on) {
    if (host.nbytes() < kStagedFrom || !is_memory_of_device_alone(memory)) return false;
    const int threads = copy_threads();
    if (threads == 0) return false;
    const DeviceBox device{static_cast<char*>(memory.ptr)};
    return carry_staged(memory, device, host.runs(), host.nbytes(), to_memory, on, threads);
}

inline void refuse_sizes(std::size_t memory, std::size_t host) {
    if (memory == host) return;
    throw std::invalid_argument("an end of " + std::to_string(host) + " bytes, with strides, does not fit an end of " +
                                std::to_string(memory) + " bytes: take a part of the larger end");
}

}  // namespace detail

/// Copies all elements of host memory with strides to dst, which has as many bytes, as the copy of two Spans does. The
/// call waits for the stream's work, which may write the source; on return src has been read. Throws as copy does, but
/// the ends may overlap. Throws std::bad_alloc where there is no host memory for the packed elements; a large copy to
/// or from a device mostly does not need them whole.
inline std::shared_ptr<Event> copy(const Span& dst, const StridedSpan& src,
                                   const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    dst.refuse_write();
    detail::refuse_sizes(dst.nbytes, src.nbytes());
    Span packed;  // run_on keeps what the function below puts there
    return detail::run_on(stream, dst, packed, [&](const Stream& on) {
        if (detail::copy_strided_staged(dst, src, true, on)) return detail::Progress::Queued;
        on.wait_for_work();
        const detail::PackedElements elements(src);
        elements.pack();
        packed = elements.span();
        detail::submit_copy(dst, packed, on);
        return detail::Progress::Queued;
    });
}

/// Copies all of src to host memory with strides, which has as many bytes. The bytes are there on return, also with a
/// stream, where the result is an event. Throws as the function above does, and std::invalid_argument where elements of
/// dst may share bytes.
inline std::shared_ptr<Event> copy(const StridedSpan& dst, const Span& src,
                                   const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    detail::refuse_sizes(src.nbytes, dst.nbytes());
    if (dst.may_overlap_itself())
        throw std::invalid_argument("elements of the target share memory: copy to an array of their own first");
    return detail::run_on(stream, src, Span{}, [&](const Stream& on) {
        if (detail::copy_strided_staged(src, dst, false, on)) return detail::Progress::Queued;
        on.wait_for_work();  // hears signals, which the runtime's call may not
        const detail::PackedElements elements(dst);
        const Span packed = elements.span();
        detail::submit_copy(packed, src, on);
        try {
            on.wait_for_work();
        } catch (...) {
            detail::keep_while_it_runs(std::const_pointer_cast<Stream>(on.shared_from_this()), src, packed);
            throw;
        }
        elements.unpack();
        return detail::Progress::Queued;
    });
}

PORTAMEM_CLOSE
