// SPDX-License-Identifier: MIT
// portamem/rt/host/copy.hpp: copies and fills. Contracts: rt/api/copy.hpp.
#pragma once

#include "portamem/rt/host/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemcpyKind::HostToHost, pmhMemcpyHostToHost));
static_assert(check::same(MemcpyKind::HostToDevice, pmhMemcpyHostToDevice));
static_assert(check::same(MemcpyKind::DeviceToHost, pmhMemcpyDeviceToHost));
static_assert(check::same(MemcpyKind::DeviceToDevice, pmhMemcpyDeviceToDevice));
static_assert(check::same(MemcpyKind::Default, pmhMemcpyDefault));

constexpr int native_kind(MemcpyKind kind) { return static_cast<int>(kind); }

inline pmhMemcpy3DParms native_parms(const Memcpy3DParms& parms) {
    pmhMemcpy3DParms native{};
    native.srcPtr.ptr = parms.src.ptr;
    native.srcPtr.pitch = parms.src.pitch;
    native.srcPtr.xsize = parms.src.xsize;
    native.srcPtr.ysize = parms.src.ysize;
    native.srcPos.x = parms.src_pos.x;
    native.srcPos.y = parms.src_pos.y;
    native.srcPos.z = parms.src_pos.z;
    native.dstPtr.ptr = parms.dst.ptr;
    native.dstPtr.pitch = parms.dst.pitch;
    native.dstPtr.xsize = parms.dst.xsize;
    native.dstPtr.ysize = parms.dst.ysize;
    native.dstPos.x = parms.dst_pos.x;
    native.dstPos.y = parms.dst_pos.y;
    native.dstPos.z = parms.dst_pos.z;
    native.extent.width = parms.extent.width;
    native.extent.height = parms.extent.height;
    native.extent.depth = parms.extent.depth;
    native.kind = native_kind(parms.kind);
    return native;
}

inline Error_t Memcpy(void* dst, const void* src, std::size_t nbytes, MemcpyKind kind) {
    if (!check::direction(kind)) return Error_t::InvalidMemcpyDirection;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMemcpy(dst, src, nbytes, native_kind(kind)));
}

inline Error_t MemcpyAsync(void* dst, const void* src, std::size_t nbytes, MemcpyKind kind, Stream_t stream) {
    if (!check::direction(kind)) return Error_t::InvalidMemcpyDirection;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMemcpyAsync(dst, src, nbytes, native_kind(kind), stream));
}

inline Error_t Memcpy2D(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                        std::size_t height, MemcpyKind kind) {
    if (!check::direction(kind)) return Error_t::InvalidMemcpyDirection;
    if (!check::pitches(dst_pitch, src_pitch, width)) return Error_t::InvalidValue;
    if (width == 0 || height == 0) return Error_t::Success;
    return answer(pmhMemcpy2D(dst, dst_pitch, src, src_pitch, width, height, native_kind(kind)));
}

inline Error_t Memcpy2DAsync(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                             std::size_t width, std::size_t height, MemcpyKind kind, Stream_t stream) {
    if (!check::direction(kind)) return Error_t::InvalidMemcpyDirection;
    if (!check::pitches(dst_pitch, src_pitch, width)) return Error_t::InvalidValue;
    if (width == 0 || height == 0) return Error_t::Success;
    return answer(pmhMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, native_kind(kind), stream));
}

inline Error_t Memcpy3D(const Memcpy3DParms& parms) {
    if (!check::direction(parms.kind)) return Error_t::InvalidMemcpyDirection;
    if (!check::pitches(parms.dst.pitch, parms.src.pitch, parms.extent.width)) return Error_t::InvalidValue;
    if (check::is_empty(parms.extent)) return Error_t::Success;
    const pmhMemcpy3DParms native = native_parms(parms);
    return answer(pmhMemcpy3D(&native));
}

inline Error_t Memcpy3DAsync(const Memcpy3DParms& parms, Stream_t stream) {
    if (!check::direction(parms.kind)) return Error_t::InvalidMemcpyDirection;
    if (!check::pitches(parms.dst.pitch, parms.src.pitch, parms.extent.width)) return Error_t::InvalidValue;
    if (check::is_empty(parms.extent)) return Error_t::Success;
    const pmhMemcpy3DParms native = native_parms(parms);
    return answer(pmhMemcpy3DAsync(&native, stream));
}

inline Error_t MemcpyPeer(void* dst, int dst_device, const void* src, int src_device, std::size_t nbytes) {
    if (dst_device < 0 || src_device < 0) return Error_t::InvalidDevice;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMemcpyPeer(dst, dst_device, src, src_device, nbytes));
}

inline Error_t MemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, std::size_t nbytes,
                               Stream_t stream) {
    if (dst_device < 0 || src_device < 0) return Error_t::InvalidDevice;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMemcpyPeerAsync(dst, dst_device, src, src_device, nbytes, stream));
}

inline Error_t Memset(void* ptr, int value, std::size_t nbytes) {
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMemset(ptr, value, nbytes));
}

inline Error_t MemsetAsync(void* ptr, int value, std::size_t nbytes, Stream_t stream) {
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMemsetAsync(ptr, value, nbytes, stream));
}

inline Error_t Memset2D(void* ptr, std::size_t pitch, int value, std::size_t width, std::size_t height) {
    if (!check::pitches(pitch, pitch, width)) return Error_t::InvalidValue;
    if (width == 0 || height == 0) return Error_t::Success;
    return answer(pmhMemset2D(ptr, pitch, value, width, height));
}

inline Error_t Memset2DAsync(void* ptr, std::size_t pitch, int value, std::size_t width, std::size_t height,
                             Stream_t stream) {
    if (!check::pitches(pitch, pitch, width)) return Error_t::InvalidValue;
    if (width == 0 || height == 0) return Error_t::Success;
    return answer(pmhMemset2DAsync(ptr, pitch, value, width, height, stream));
}

PORTAMEM_RT_CLOSE
