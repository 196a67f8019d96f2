// SPDX-License-Identifier: MIT
// portamem/rt/api/copy.hpp: contracts of copies and fills.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

// For every copy and fill:
// - 0 bytes are Success, and no vendor call is made.
// - A number that is no MemcpyKind is InvalidMemcpyDirection, for 0 bytes too. A kind that contradicts the pointers is
//   InvalidValue (HIP checks loosely), and so is a range that leaves its allocation, where the runtime knows it.
// - The forms without a stream run on the legacy default stream, and return when the host may reuse its memory: a copy
//   from device to device, a fill of device memory, and on CUDA the last part of a copy from pageable memory, may still
//   be running.
// - The Async forms return at once, except for two kinds of copies, which may block until the stream has come to them:
//   where one side is pageable memory, and where both sides are memory of the host, pinned or not.

inline Error_t Memcpy(void* dst, const void* src, std::size_t nbytes, MemcpyKind kind);
inline Error_t MemcpyAsync(void* dst, const void* src, std::size_t nbytes, MemcpyKind kind, Stream_t stream);

/// `height` rows of `width` bytes; a pitch smaller than width is InvalidValue.
inline Error_t Memcpy2D(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                        std::size_t height, MemcpyKind kind);
inline Error_t Memcpy2DAsync(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                             std::size_t width, std::size_t height, MemcpyKind kind, Stream_t stream);

/// Copies a box from one pitched volume to another: extent.width bytes, extent.height rows, extent.depth slices.
/// Errors: InvalidValue for a pitch smaller than the width.
inline Error_t Memcpy3D(const Memcpy3DParms& parms);
inline Error_t Memcpy3DAsync(const Memcpy3DParms& parms, Stream_t stream);

/// Copies memory of `src_device` to memory of `dst_device`, with peer access or without. The host never waits for the
/// end of the copy. Errors: InvalidDevice for a negative ordinal.
inline Error_t MemcpyPeer(void* dst, int dst_device, const void* src, int src_device, std::size_t nbytes);
inline Error_t MemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, std::size_t nbytes,
                               Stream_t stream);

/// Sets each byte to the low 8 bits of `value`; the 2D forms set `height` rows of `width` bytes, `pitch` bytes apart.
/// Errors: InvalidValue for memory that no device can reach, and for a pitch smaller than the width.
inline Error_t Memset(void* ptr, int value, std::size_t nbytes);
inline Error_t MemsetAsync(void* ptr, int value, std::size_t nbytes, Stream_t stream);
inline Error_t Memset2D(void* ptr, std::size_t pitch, int value, std::size_t width, std::size_t height);
inline Error_t Memset2DAsync(void* ptr, std::size_t pitch, int value, std::size_t width, std::size_t height,
                             Stream_t stream);

PORTAMEM_RT_CLOSE
