// SPDX-License-Identifier: MIT
// portamem/copy.hpp: copies between any two pieces of memory.
#pragma once

#include "portamem/detail/hearing.hpp"
#include "portamem/detail/small_copy.hpp"
#include "portamem/detail/staged_copy.hpp"
#include "portamem/layout.hpp"
#include "portamem/quirks.hpp"
#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

[[noreturn]] inline void refuse_overlap() {
    throw std::invalid_argument("the source and the target of the copy overlap: copy through other memory");
}

// Gives a hint for the error text: memory of the driver's pools and virtual memory are open to other devices only when
// told to, and for that the vendors report no more than InvalidValue.
inline std::string hint_between_devices(const Span& dst, const Span& src) {
    if (dst.device() < 0 || src.device() < 0 || dst.device() == src.device()) return {};
    return "the ends are on devices " + std::to_string(dst.device()) + " and " + std::to_string(src.device()) +
           ": memory of a driver's pool and virtual memory need set_access of their resource for the other device";
}

// Returns whether a copy would break its stream's order, because the vendors do some copies on the CPU at once. They
// read small pieces of pageable memory during the call (CUDA runtime API, API synchronization behavior), and may copy
// host memory to host memory there. Fills of pageable memory run on the stream, so the copy waits for the stream where
// work was declared.
inline bool must_wait_for_stream(const Span& dst, const Span& src) {
    const auto is_pageable = [](const Span& span) { return !span.allocation || span.allocation->traits().pageable; };
    const auto is_of_host = [](const Span& span) {
        return !span.allocation || span.allocation->traits().host_accessible ||
               span.allocation->traits().may_be_of_host;
    };
    const auto is_declared = [](const Span& span) { return span.allocation && span.allocation->is_declared(); };
    if (is_pageable(src) && is_declared(src)) return true;
    return (is_pageable(src) || is_pageable(dst)) && is_of_host(dst) && is_of_host(src) &&
           (is_declared(dst) || is_declared(src));
}

// Hears signals before the runtime's call for a copy, where that call itself waits for the stream's work as far as
// portamem knows. With a null stream the caller waits for the copy in any case, so a call that only may wait counts.
inline void hear_before_copy(const Span& dst, const Span& src, bool blocking, const Stream& on) {
    const auto is_pageable = [](const Span& span) { return !span.allocation || span.allocation->traits().pageable; };
    const bool waits = is_pageable(dst) || (is_pageable(src) && src.nbytes > rt::StagedAtOnce);
    const bool may_wait = blocking && !is_memory_of_device_alone(dst) && !is_memory_of_device_alone(src);
    if (waits || may_wait) (void)on.hear_until_idle();
}

// Submits a copy of equal ends that do not overlap, by the runtime's own call.
inline void submit_copy(const Span& dst, const Span& src, const Stream& on) {
    const rt::Error_t answer = rt::MemcpyAsync(dst.ptr, src.ptr, src.nbytes, rt::MemcpyKind::Default, on.handle());
    if (answer != rt::Error_t::Success) raise(answer, "MemcpyAsync", hint_between_devices(dst, src));
}

}  // namespace detail

/// Copies all of src to dst, which has the same size.
/// - With a stream it queues the copy, and returns an event that happens when the bytes are there. It declares the use
///   of both ends there, as Buffer::record_stream does. portamem keeps both ends alive while the copy uses them: until
///   the event, but for a source that was read during the call. Exception: it does not keep memory of Span::host
///   without an owner; the caller keeps that.
/// - The call may wait for the stream's work, and for the copy, where one end is pageable memory or both are host
///   memory. It may read pageable memory of Span::host before that work, such as a host function that writes there.
/// - With a null stream the copy runs on the default stream of dst's device (or src's, where dst is plain host memory),
///   behind all work declared on the memory. The copy is done on return, and the result is null.
/// - Throws std::invalid_argument for unequal sizes, for ends that overlap, for a read-only target, for a stream that
///   is closed or captured, with a null stream while a capture forbids the default stream, and if PORTAMEM_COPY_THREADS
///   cannot be parsed. Throws Error if the runtime refuses.
inline std::shared_ptr<Event> copy(const Span& dst, const Span& src, const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    dst.refuse_write();
    if (dst.nbytes != src.nbytes) {
        throw std::invalid_argument("a copy of " + std::to_string(src.nbytes) + " bytes does not fit a target of " +
                                    std::to_string(dst.nbytes) + " bytes: take a part of the larger end");
    }
    if (detail::overlap(dst.ptr, dst.nbytes, src.ptr, src.nbytes)) detail::refuse_overlap();
    const bool waits = stream && detail::must_wait_for_stream(dst, src);
    auto room = stream ? detail::room_for_source(dst, src, *stream) : detail::SmallSources::Room();
    auto done = detail::run_on(stream, dst, src, [&](const Stream& on) {
        if (room.memory() != nullptr) {
            detail::submit_small(dst, src, room, on);
            return detail::Progress::ReadSource;
        }
        if (waits) on.wait_for_work();
        if (detail::copy_small_to_host(dst, src, on)) return detail::Progress::Done;
        detail::hear_before_copy(dst, src, stream == nullptr, on);
        if (!detail::copy_staged(dst, src, on)) detail::submit_copy(dst, src, on);
        return detail::Progress::Queued;
    });
    if (done) room.leave_to(*stream, done);
    return done;
}

/// Copies all of one buffer to another, as the copy of their spans does. Throws std::invalid_argument for a closed
/// buffer.
inline std::shared_ptr<Event> copy(const Buffer& dst, const Buffer& src,
                                   const std::shared_ptr<Stream>& stream = nullptr) {
    return copy(Span::of(dst), Span::of(src), stream);
}

/// Describes a 2-D copy: `height` rows of `width` bytes. In each end one row starts a pitch (bytes) behind the row
/// before it.
struct Rows2D {
    std::size_t width = 0;
    std::size_t height = 0;
    std::size_t dst_pitch = 0;
    std::size_t src_pitch = 0;
};

/// Describes a box of a 3-D copy: `depth` slices of `height` rows of `width` bytes. One row starts a pitch (bytes)
/// behind the row before it. One slice starts dst_rows or src_rows rows behind the slice before it, which is at least
/// `height`.
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

// Refuses ends that share a byte. `to` and `from` are the bytes from the first to the last byte of each end. Two ends
// of the same layout may interleave without a shared byte, as two faces of one volume do; ends of different layouts may
// not.
inline void refuse_overlap(const Span& dst, std::size_t to, const Span& src, std::size_t from, const Box3D& box) {
    if (!overlap(dst.ptr, to, src.ptr, from)) return;
    const bool alike = box.dst_pitch == box.src_pitch && (box.depth == 1 || box.dst_rows == box.src_rows);
    const auto a = reinterpret_cast<std::uintptr_t>(dst.ptr);
    const auto b = reinterpret_cast<std::uintptr_t>(src.ptr);
    const std::size_t slice = box.dst_pitch * (box.depth == 1 ? box.height : box.dst_rows);
    if (alike && !boxes_overlap(a < b ? b - a : a - b, box.width, box.height, box.depth, box.dst_pitch, slice)) return;
    refuse_overlap();
}

// A copy of one slice does not need the distance to the next slice, and that distance may overflow.
inline bool copy_box_staged(const Span& dst, const Span& src, const Box3D& box, const Stream& on) {
    const auto end = [&](std::size_t pitch, std::size_t rows) {
        return BoxEnd{pitch, box.depth == 1 ? 0 : pitch * rows};
    };
    return copy_box_staged(dst, end(box.dst_pitch, box.dst_rows), src, end(box.src_pitch, box.src_rows), box.width,
                           box.height, box.depth, on);
}

inline bool is_of_device(const void* ptr) {
    rt::PointerAttributes attributes;
    check(rt::PointerGetAttributes(&attributes, ptr), "PointerGetAttributes");
    return attributes.type == rt::MemoryType::Device;
}

// Returns the direction of a copy of rows. The runtime finds it out (Default), except where the runtime is known to get
// it wrong. There portamem names it, for boxes too, though only rows were reported. Managed memory counts as the
// host's.
inline rt::MemcpyKind kind_of_rows(const Span& dst, const Span& src, int device) {
    if (!quirk_policy_applies(QuirkPolicy::ExplicitCopyKind, Device(device))) return rt::MemcpyKind::Default;
    const bool to_device = is_of_device(dst.ptr);
    if (is_of_device(src.ptr)) return to_device ? rt::MemcpyKind::DeviceToDevice : rt::MemcpyKind::DeviceToHost;
    return to_device ? rt::MemcpyKind::HostToDevice : rt::MemcpyKind::HostToHost;
}

}  // namespace detail

/// Copies rows between memory of different pitch. The order and the lifetime of the ends are as for copy.
///
/// Throws std::invalid_argument for rows that leave an end or that are longer than its pitch, and for rows that share a
/// byte. Rows of different pitch must not lie between each other either: the range from the first to the last byte of
/// one end must not overlap that of the other. Throws std::invalid_argument if PORTAMEM_QUIRKS cannot be parsed, and
/// otherwise as copy does.
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
        constexpr auto queued = detail::Progress::Queued;
        if (waits) on.wait_for_work();
        detail::hear_before_copy(dst, src, stream == nullptr, on);
        if (box.is_empty()) return queued;  // an empty box has no usable pitch
        if (detail::copy_box_staged(dst, src, box, on)) return queued;
        const rt::Error_t answer = rt::Memcpy2DAsync(dst.ptr, rows.dst_pitch, src.ptr, rows.src_pitch, rows.width,
                                                     rows.height, kind, on.handle());
        if (answer != rt::Error_t::Success)
            detail::raise(answer, "Memcpy2DAsync", detail::hint_between_devices(dst, src));
        return queued;
    });
}

/// Copies a box between memory of different pitch and height. Both ends begin where their spans begin: the caller gives
/// a part of a larger volume as a part of its buffer. The order and the lifetime of the ends are as for copy.
///
/// Throws std::invalid_argument for a box that leaves an end, for rows that are longer than their pitch, for slices
/// that start fewer than `height` rows apart, and otherwise as copy_2d does.
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
        constexpr auto queued = detail::Progress::Queued;
        if (waits) on.wait_for_work();
        detail::hear_before_copy(dst, src, stream == nullptr, on);
        if (box.is_empty()) return queued;  // an empty box has no usable pitch
        if (detail::copy_box_staged(dst, src, box, on)) return queued;
        // A copy of one slice does not need the distance to the next slice, and that distance may overflow.
        const bool flat = box.depth == 1;
        rt::Memcpy3DParms parms;
        parms.dst = {dst.ptr, box.dst_pitch, box.width, flat ? box.height : box.dst_rows};
        parms.src = {src.ptr, box.src_pitch, box.width, flat ? box.height : box.src_rows};
        parms.extent = {box.width, box.height, box.depth};
        parms.kind = kind;
        const rt::Error_t answer = rt::Memcpy3DAsync(parms, on.handle());
        if (answer != rt::Error_t::Success)
            detail::raise(answer, "Memcpy3DAsync", detail::hint_between_devices(dst, src));
        return queued;
    });
}

PORTAMEM_CLOSE
