// SPDX-License-Identifier: MIT
// host/copy_api.cpp: copies and fills of one, two and three dimensions, and between devices.
#include "copy.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "entry.hpp"
#include "order_hooks.hpp"

namespace portamem::host {
namespace {

void check_pitch(std::size_t pitch, std::size_t width, const char* what) {
    if (width > pitch) refuse(pmhErrorInvalidValue, "%s of %zu bytes is less than the row of %zu", what, pitch, width);
}

Side volume_side(const pmhPitchedPtr& volume, const pmhPos& position, const Box& box) {
    check_pitch(volume.pitch, plus(position.x, box.width), "a pitch");
    // A volume of one slice needs no height, because nothing is computed from it.
    const bool flat = volume.ysize == 0 && box.depth == 1 && position.z == 0;
    require(flat || plus(position.y, box.height) <= volume.ysize, "the box is higher than the volume");
    require(volume.ptr != nullptr, "an address is null");
    const std::size_t slice = times(volume.pitch, volume.ysize);
    const std::size_t offset = plus(plus(times(position.z, slice), times(position.y, volume.pitch)), position.x);
    return {static_cast<const char*>(volume.ptr) + offset, volume.pitch, slice};
}

pmhError_t copy_2d(const char* call, Form form, const Side& dst, const Side& src, const Box& box, int kind,
                   pmhStream_t stream) {
    return enter(call, [&](State& state, Hold& hold) {
        if (!box.is_empty()) {
            check_pitch(dst.pitch, box.width, "the destination's pitch");
            check_pitch(src.pitch, box.width, "the source's pitch");
        }
        copy(state, hold, call, form, dst, src, box, kind, stream);
    });
}

pmhError_t copy_3d(const char* call, Form form, const pmhMemcpy3DParms* parms, pmhStream_t stream) {
    return enter(call, [&](State& state, Hold& hold) {
        require(parms != nullptr, "parms is null");
        const Box box{parms->extent.width, parms->extent.height, parms->extent.depth};
        const Side dst = box.is_empty() ? Side{} : volume_side(parms->dstPtr, parms->dstPos, box);
        const Side src = box.is_empty() ? Side{} : volume_side(parms->srcPtr, parms->srcPos, box);
        copy(state, hold, call, form, dst, src, box, parms->kind, stream);
    });
}

pmhError_t fill_2d(const char* call, Form form, void* ptr, std::size_t pitch, int value, const Box& box,
                   pmhStream_t stream) {
    return enter(call, [&](State& state, Hold& hold) {
        if (!box.is_empty()) check_pitch(pitch, box.width, "the pitch");
        fill(state, hold, call, form, {ptr, pitch, 0}, box, value, stream);
    });
}

Place locate_on(State& state, const char* call, const void* ptr, int device, std::size_t size, Stream& stream) {
    const int ordinal = device_of(state, device).ordinal;
    Place place = locate(state, call, {ptr, 0, 0}, {size}, stream);
    if (place.is_pageable()) refuse(pmhErrorInvalidValue, "%s: %p is pageable host memory", call, ptr);
    for (const auto& record : state.allocations.holding_all(ptr, size))
        if (record->is_device_memory() && record->device != ordinal)
            refuse(pmhErrorInvalidValue, "%s: %p is memory of device %d, not %d", call,
                   std::max(ptr, static_cast<const void*>(record->base)), record->device, ordinal);
    return place;
}

}  // namespace
}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhMemcpy(void* dst, const void* src, size_t size, int kind) {
    return enter("Memcpy", [&](State& state, Hold& hold) {
        copy(state, hold, "Memcpy", Form::Blocking, {dst, 0, 0}, {src, 0, 0}, {size}, kind, nullptr);
    });
}

pmhError_t pmhMemcpyAsync(void* dst, const void* src, size_t size, int kind, pmhStream_t stream) {
    return enter("MemcpyAsync", [&](State& state, Hold& hold) {
        copy(state, hold, "MemcpyAsync", Form::Async, {dst, 0, 0}, {src, 0, 0}, {size}, kind, stream);
    });
}

pmhError_t pmhMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height,
                       int kind) {
    return copy_2d("Memcpy2D", Form::Blocking, {dst, dst_pitch, 0}, {src, src_pitch, 0}, {width, height}, kind,
                   nullptr);
}

pmhError_t pmhMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height,
                            int kind, pmhStream_t stream) {
    return copy_2d("Memcpy2DAsync", Form::Async, {dst, dst_pitch, 0}, {src, src_pitch, 0}, {width, height}, kind,
                   stream);
}

pmhError_t pmhMemcpy3D(const pmhMemcpy3DParms* parms) { return copy_3d("Memcpy3D", Form::Blocking, parms, nullptr); }

pmhError_t pmhMemcpy3DAsync(const pmhMemcpy3DParms* parms, pmhStream_t stream) {
    return copy_3d("Memcpy3DAsync", Form::Async, parms, stream);
}

// The copy is ordered with the work of the current device, the source's and the destination's, before it and after it.
pmhError_t pmhMemcpyPeer(void* dst, int dst_device, const void* src, int src_device, size_t size) {
    return enter("MemcpyPeer", [&](State& state, Hold&) {
        Stream& stream = *current_device(state).legacy;
        Stream& dst_stream = *device_of(state, dst_device).legacy;
        Stream& src_stream = *device_of(state, src_device).legacy;
        if (size == 0) return;
        Place to = locate_on(state, "MemcpyPeer", dst, dst_device, size, stream);
        Place from = locate_on(state, "MemcpyPeer", src, src_device, size, stream);
        for (Stream* each : {&stream, &dst_stream, &src_stream}) (void)take(state, *each, "MemcpyPeer");
        std::vector<Point> before;
        for (Stream* other : {&dst_stream, &src_stream}) {
            if (other == &stream) continue;
            before.push_back(mark(state, *other));
            note_wait(stream, end_of(*other));
        }
        const Point done =
            submit(state, stream, copy_work(state, std::move(to), std::move(from), {size}), std::move(before));
        note_read({src, 0, 0}, {size}, true, stream);
        note_write({dst, 0, 0}, {size}, true, stream);
        for (Stream* other : {&dst_stream, &src_stream}) {
            if (other == &stream) continue;
            (void)submit(state, *other, nullptr, {done});
            note_wait(*other, end_of(stream));
        }
    });
}

pmhError_t pmhMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, size_t size,
                              pmhStream_t handle) {
    return enter("MemcpyPeerAsync", [&](State& state, Hold&) {
        Stream& stream = *stream_of(state, handle);
        (void)device_of(state, dst_device);
        (void)device_of(state, src_device);
        if (size == 0) return;
        Place to = locate_on(state, "MemcpyPeerAsync", dst, dst_device, size, stream);
        Place from = locate_on(state, "MemcpyPeerAsync", src, src_device, size, stream);
        if (take(state, stream, "MemcpyPeerAsync")) return;
        (void)submit(state, stream, copy_work(state, std::move(to), std::move(from), {size}));
        note_read({src, 0, 0}, {size}, true, stream);
        note_write({dst, 0, 0}, {size}, true, stream);
    });
}

pmhError_t pmhMemset(void* ptr, int value, size_t size) {
    return enter("Memset", [&](State& state, Hold& hold) {
        fill(state, hold, "Memset", Form::Blocking, {ptr, 0, 0}, {size}, value, nullptr);
    });
}

pmhError_t pmhMemsetAsync(void* ptr, int value, size_t size, pmhStream_t stream) {
    return enter("MemsetAsync", [&](State& state, Hold& hold) {
        fill(state, hold, "MemsetAsync", Form::Async, {ptr, 0, 0}, {size}, value, stream);
    });
}

pmhError_t pmhMemset2D(void* ptr, size_t pitch, int value, size_t width, size_t height) {
    return fill_2d("Memset2D", Form::Blocking, ptr, pitch, value, {width, height}, nullptr);
}

pmhError_t pmhMemset2DAsync(void* ptr, size_t pitch, int value, size_t width, size_t height, pmhStream_t stream) {
    return fill_2d("Memset2DAsync", Form::Async, ptr, pitch, value, {width, height}, stream);
}
