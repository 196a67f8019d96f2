// SPDX-License-Identifier: MIT
// portamem/fill.hpp: setting memory to a byte.
#pragma once

#include <cstring>
#include <memory>

#include "portamem/layout.hpp"
#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

// The runtimes fill only memory that a device reaches. Other memory is filled by the C library's memset, in stream
// order.
struct HostFill {
    void* ptr;
    int value;
    std::size_t nbytes;

    static void run(void* self) {
        const HostFill fill = *static_cast<HostFill*>(self);
        delete static_cast<HostFill*>(self);
        std::memset(fill.ptr, fill.value, fill.nbytes);
    }
};

inline void submit_fill(const Span& span, unsigned char value, const Stream& stream) {
    const bool plain = !span.allocation || !span.allocation->traits().device_accessible;
    if (!plain) {
        check(rt::MemsetAsync(span.ptr, value, span.nbytes, stream.handle()), "MemsetAsync");
        return;
    }
    if (span.nbytes == 0) return;  // memset refuses null, even for 0 bytes
    if (!span.allocation) {
        // Copies of such memory may read it during their call, and portamem cannot tell them of a pending fill. So it
        // waits here.
        stream.wait_for_work();
        std::memset(span.ptr, value, span.nbytes);
        return;
    }
    auto* const fill = new HostFill{span.ptr, value, span.nbytes};
    try {
        stream.launch_host_func(HostFill::run, fill);
    } catch (...) {
        delete fill;
        throw;
    }
}

}  // namespace detail

/// Sets every byte to `value`. With a stream it queues the fill, declares the use there as Buffer::record_stream does,
/// and returns an event. With a null stream the fill runs on the default stream of the memory's device, behind all work
/// declared on the memory; it is done on return, and the result is null. Host memory of Span::host is filled on return
/// in either case, behind the stream's work. Throws std::invalid_argument for read-only memory and for a stream that is
/// closed or captured, and Error if the runtime refuses.
inline std::shared_ptr<Event> fill(const Span& span, unsigned char value,
                                   const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    span.refuse_write();
    return detail::run_on(stream, span, Span{}, [&](const Stream& on) {
        if (!stream) (void)on.hear_until_idle();  // the runtime's call may wait too, for memory that the host reaches
        detail::submit_fill(span, value, on);
        return detail::Progress::Queued;
    });
}

/// Sets every byte of `height` rows of `width` bytes, `pitch` bytes apart, and none of the padding between them. The
/// order is as for fill. The device has to reach the memory: fill takes other host memory too, but here the runtime
/// refuses that (Error). Throws as fill does, and std::invalid_argument for rows that leave the memory or that are
/// longer than the pitch.
inline std::shared_ptr<Event> fill_2d(const Span& span, std::size_t pitch, std::size_t width, std::size_t height,
                                      unsigned char value, const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    span.refuse_write();
    (void)detail::rows_extent("target", span.nbytes, width, height, pitch);
    return detail::run_on(stream, span, Span{}, [&](const Stream& on) {
        if (!stream) (void)on.hear_until_idle();
        if (width != 0 && height != 0)  // an empty range has no usable pitch
            check(rt::Memset2DAsync(span.ptr, pitch, value, width, height, on.handle()), "Memset2DAsync");
        return detail::Progress::Queued;
    });
}

/// Sets every byte of all rows of a pitched buffer, and none of the padding between them. Throws as fill does.
inline std::shared_ptr<Event> fill_2d(const PitchedBuffer& rows, unsigned char value,
                                      const std::shared_ptr<Stream>& stream = nullptr) {
    return fill_2d(Span::of(rows), rows.pitch(), rows.width(), rows.height(), value, stream);
}

PORTAMEM_CLOSE
