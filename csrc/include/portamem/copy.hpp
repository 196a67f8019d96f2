// SPDX-License-Identifier: MIT
// portamem/copy.hpp: copies between any two pieces of memory.
#pragma once

#include "portamem/detail/hearing.hpp"
#include "portamem/layout.hpp"
#include "portamem/quirks.hpp"
#include "portamem/span.hpp"

PORTAMEM_OPEN

// Of every function here: with a stream the work is queued, and the event answered is done when the bytes are there;
// both ends are kept alive until then. With a null stream it runs on the default stream behind everything declared on
// the memory, is done on return, and the answer is null.
// Throws std::invalid_argument before any runtime call for sizes that do not fit, ranges that overlap and a target that is
// read-only, and from copies of rows and boxes where PORTAMEM_QUIRKS cannot be read; Error.

namespace detail {

[[noreturn]] inline void refuse_overlap() {
    throw std::invalid_argument("the source and the target of the copy overlap: copy through other memory");
}

// Pools open their memory to other devices only when told to, and the vendors say no more than InvalidValue.
inline std::string hint_between_devices(const Span& dst, const Span& src) {
    if (dst.device() < 0 || src.device() < 0 || dst.device() == src.device()) return {};
    return "the ends are on devices " + std::to_string(dst.device()) + " and " + std::to_string(src.device()) +
           ": memory of a pool needs the pool's set_access for the other device";
}

// Whether a copy would not be in its stream's order: the vendors do some on the CPU, at once. Small pieces of pageable
// memory are read during the call (CUDA runtime API, API synchronization behavior), and host memory may be copied to
// host memory so. Fills of pageable memory run on the stream, so where anything was declared on it the stream has to be
// waited for.
inline bool must_wait_for_stream(const Span& dst, const Span& src) {
    const auto is_pageable = [](const Span& span) { return !span.allocation || span.allocation->traits().pageable; };
    const auto is_of_host = [](const Span& span) {
        return !span.allocation || span.allocation->traits().host_accessible;
    };
    const auto is_declared = [](const Span& span) { return span.allocation && span.allocation->is_declared(); };
    if (is_pageable(src) && is_declared(src)) return true;
    return (is_pageable(src) || is_pageable(dst)) && is_of_host(dst) && is_of_host(src) &&
           (is_declared(dst) || is_declared(src));
}

// Whether the runtime's call itself waits for what the stream holds, as far as it is known.
inline bool waits_in_its_call(const Span& dst, const Span& src) {
    const auto is_pageable = [](const Span& span) { return !span.allocation || span.allocation->traits().pageable; };
    return is_pageable(dst) || (is_pageable(src) && src.nbytes > rt::StagedAtOnce);
}

}  // namespace detail

/// Copies all of src to dst, which is of the same size.
inline std::shared_ptr<Event> copy(const Span& dst, const Span& src, const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    dst.refuse_write();
    if (dst.nbytes != src.nbytes) {
        throw std::invalid_argument("a copy of " + std::to_string(src.nbytes) + " bytes does not fit a target of " +
                                    std::to_string(dst.nbytes) + " bytes: take a part of the larger end");
    }
    if (detail::overlap(dst.ptr, dst.nbytes, src.ptr, src.nbytes)) detail::refuse_overlap();
    const bool waits = stream && detail::must_wait_for_stream(dst, src);
    return detail::run_on(stream, dst, src, [&](const Stream& on) {
        if (waits) on.wait_for_work();
        if (stream && detail::waits_in_its_call(dst, src)) on.hear_until_idle();
        const rt::Error_t answer = rt::MemcpyAsync(dst.ptr, src.ptr, src.nbytes, rt::MemcpyKind::Default, on.handle());
        if (answer != rt::Error_t::Success)
            detail::raise(answer, "MemcpyAsync", detail::hint_between_devices(dst, src));
    });
}

inline std::shared_ptr<Event> copy(const Buffer& dst, const Buffer& src,
                                   const std::shared_ptr<Stream>& stream = nullptr) {
    return copy(Span::of(dst), Span::of(src), stream);
}

/// Rows of a 2-D copy, bytes.
struct Rows2D {
    std::size_t width = 0;
    std::size_t height = 0;
    std::size_t dst_pitch = 0;
    std::size_t src_pitch = 0;
};

/// A box of a 3-D copy: `depth` slices of `height` rows of `width` bytes. From one row to the next it is a pitch of
/// bytes, and from one slice to the next as many rows as each end says, at least `height`.
struct Box3D {
    std::size_t width = 0;
    std::size_t height = 0;
    std::size_t depth = 0;
    std::size_t dst_pitch = 0;
    std::size_t src_pitch = 0;
    std::size_t dst_rows = 0;
    std::size_t src_rows = 0;

    bool is_empty() const noexcept { return width == 0 || height == 0 || depth == 0; }
};

namespace detail {

// `to` and `from`: from the first to behind the last byte of each end. Ends of one layout may lie within each other
// there, as two faces of one volume do, as long as they share no byte; ends of different layouts may not.
inline void refuse_overlap(const Span& dst, std::size_t to, const Span& src, std::size_t from, const Box3D& box) {
    if (!overlap(dst.ptr, to, src.ptr, from)) return;
    const bool alike = box.dst_pitch == box.src_pitch && (box.depth == 1 || box.dst_rows == box.src_rows);
    const auto a = reinterpret_cast<std::uintptr_t>(dst.ptr);
    const auto b = reinterpret_cast<std::uintptr_t>(src.ptr);
    const std::size_t slice = box.dst_pitch * (box.depth == 1 ? box.height : box.dst_rows);
    if (alike && !boxes_overlap(a < b ? b - a : a - b, box.width, box.height, box.depth, box.dst_pitch, slice)) return;
    refuse_overlap();
}

inline bool is_of_device(const void* ptr) {
    rt::PointerAttributes attributes;
    check(rt::PointerGetAttributes(&attributes, ptr), "PointerGetAttributes");
    return attributes.type == rt::MemoryType::Device;
}

// The runtime finds out the direction of a copy, but where it is known to fail at that: there it is told, of boxes
// too, though only rows were reported. Managed memory counts as the host's.
inline rt::MemcpyKind kind_of_rows(const Span& dst, const Span& src, int device) {
    if (!quirk_policy_applies(QuirkPolicy::ExplicitCopyKind, Device(device))) return rt::MemcpyKind::Default;
    const bool to_device = is_of_device(dst.ptr);
    if (is_of_device(src.ptr)) return to_device ? rt::MemcpyKind::DeviceToDevice : rt::MemcpyKind::DeviceToHost;
    return to_device ? rt::MemcpyKind::HostToDevice : rt::MemcpyKind::HostToHost;
}

}  // namespace detail

/// Copies rows between memory of different pitch.
inline std::shared_ptr<Event> copy_2d(const Span& dst, const Span& src, const Rows2D& rows,
                                      const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    dst.refuse_write();
    const std::size_t to = detail::rows_extent("target", dst.nbytes, rows.width, rows.height, rows.dst_pitch);
    const std::size_t from = detail::rows_extent("source", src.nbytes, rows.width, rows.height, rows.src_pitch);
    const Box3D box{rows.width, rows.height, 1, rows.dst_pitch, rows.src_pitch, rows.height, rows.height};
    detail::refuse_overlap(dst, to, src, from, box);
    const rt::MemcpyKind kind = detail::kind_of_rows(dst, src, detail::device_of_work(stream, dst, src));
    const bool waits = stream && detail::must_wait_for_stream(dst, src);
    return detail::run_on(stream, dst, src, [&](const Stream& on) {
        if (waits) on.wait_for_work();
        if (stream && detail::waits_in_its_call(dst, src)) on.hear_until_idle();
        if (box.is_empty()) return;  // such memory has no pitch to speak of
        const rt::Error_t answer = rt::Memcpy2DAsync(dst.ptr, rows.dst_pitch, src.ptr, rows.src_pitch, rows.width,
                                                     rows.height, kind, on.handle());
        if (answer != rt::Error_t::Success)
            detail::raise(answer, "Memcpy2DAsync", detail::hint_between_devices(dst, src));
    });
}

/// Copies a box between memory of different pitch and height. Both ends begin where the memory does: a part of a
/// larger volume is given as a part of its buffer.
inline std::shared_ptr<Event> copy_3d(const Span& dst, const Span& src, const Box3D& box,
                                      const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    dst.refuse_write();
    const std::size_t to =
        detail::slices_extent("target", dst.nbytes, box.width, box.height, box.depth, box.dst_pitch, box.dst_rows);
    const std::size_t from =
        detail::slices_extent("source", src.nbytes, box.width, box.height, box.depth, box.src_pitch, box.src_rows);
    detail::refuse_overlap(dst, to, src, from, box);
    const rt::MemcpyKind kind = detail::kind_of_rows(dst, src, detail::device_of_work(stream, dst, src));
    const bool waits = stream && detail::must_wait_for_stream(dst, src);
    return detail::run_on(stream, dst, src, [&](const Stream& on) {
        if (waits) on.wait_for_work();
        if (stream && detail::waits_in_its_call(dst, src)) on.hear_until_idle();
        if (box.is_empty()) return;  // such memory has no pitch to speak of
        // Of one slice nobody needs to know where the next would begin, and it may be beyond counting.
        const bool flat = box.depth == 1;
        rt::Memcpy3DParms parms;
        parms.dst = {dst.ptr, box.dst_pitch, box.width, flat ? box.height : box.dst_rows};
        parms.src = {src.ptr, box.src_pitch, box.width, flat ? box.height : box.src_rows};
        parms.extent = {box.width, box.height, box.depth};
        parms.kind = kind;
        const rt::Error_t answer = rt::Memcpy3DAsync(parms, on.handle());
        if (answer != rt::Error_t::Success)
            detail::raise(answer, "Memcpy3DAsync", detail::hint_between_devices(dst, src));
    });
}

PORTAMEM_CLOSE
