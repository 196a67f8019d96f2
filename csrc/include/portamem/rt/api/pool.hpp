// SPDX-License-Identifier: MIT
// portamem/rt/api/pool.hpp: contracts of stream-ordered memory and its pools.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// Memory from the current pool of the stream's device, usable from this call's place in the stream's order.
/// 0 bytes: Success and null. Errors: OutOfMemory; NotSupported where the device has no pools.
inline Error_t MallocAsync(void** ptr, std::size_t nbytes, Stream_t stream);

/// Gives memory of MallocAsync or MallocFromPoolAsync back to its pool, in stream order; null is fine (HIP before 7.0
/// would refuse). Needs no current device, but for a default stream. Errors: InvalidValue for an unknown pointer. The
/// vendors also take memory of Malloc.
inline Error_t FreeAsync(void* ptr, Stream_t stream);

/// MallocAsync from a named pool. Needs no current device, but for a default stream.
inline Error_t MallocFromPoolAsync(void** ptr, std::size_t nbytes, MemPool_t pool, Stream_t stream);

/// A pool of device memory at a Device location. Release threshold 0, all reuse policies on.
inline Error_t MemPoolCreate(MemPool_t* pool, const MemPoolProps& props);

/// Destroys a pool. Memory still allocated from it stays valid, and goes to the driver as it is freed.
/// Errors: InvalidValue for a default pool.
inline Error_t MemPoolDestroy(MemPool_t pool);

/// Gives unused memory back to the driver until at most min_bytes_to_keep are reserved. Memory whose free has not yet
/// run on its stream counts as used.
inline Error_t MemPoolTrimTo(MemPool_t pool, std::size_t min_bytes_to_keep);

/// Sets an attribute (all values as uint64; HIP and CUDA take int for Reuse*). Reserved/UsedMemHigh only to 0, their
/// Current never: InvalidValue.
inline Error_t MemPoolSetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t value);

/// Reads an attribute, as uint64.
inline Error_t MemPoolGetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t* value);

/// Lets a device reach a pool's memory, or takes that back. The pool's own device always may.
/// Errors: InvalidDevice for a peer that cannot reach it.
inline Error_t MemPoolSetAccess(MemPool_t pool, Location location, MemAccessFlags flags);

/// What a location may do with a pool's memory.
inline Error_t MemPoolGetAccess(MemAccessFlags* flags, MemPool_t pool, Location location);

/// The pool that a device came with.
inline Error_t DeviceGetDefaultMemPool(MemPool_t* pool, int device);

/// The pool that MallocAsync takes from on a device. The default pool until DeviceSetMemPool says otherwise.
inline Error_t DeviceGetMemPool(MemPool_t* pool, int device);
inline Error_t DeviceSetMemPool(int device, MemPool_t pool);

PORTAMEM_RT_CLOSE
