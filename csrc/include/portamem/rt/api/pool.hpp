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
/// would refuse). Only a default stream needs a current device. Errors: InvalidValue for an unknown pointer. CUDA and
/// host also take memory of Malloc; AMD does not promise it.
inline Error_t FreeAsync(void* ptr, Stream_t stream);

/// MallocAsync from a pool that the caller names. Only a default stream needs a current device. Errors: as MallocAsync,
/// and InvalidValue for a null pool.
inline Error_t MallocFromPoolAsync(void** ptr, std::size_t nbytes, MemPool_t pool, Stream_t stream);

/// Makes a pool of device memory, with release threshold 0 and all reuse policies on. The caller destroys it. Errors:
/// InvalidValue for a location that is no device.
inline Error_t MemPoolCreate(MemPool_t* pool, const MemPoolProps& props);

/// Destroys a pool. Memory still allocated from it stays valid, and goes to the driver as it is freed.
/// Errors: InvalidValue for a default pool.
inline Error_t MemPoolDestroy(MemPool_t pool);

/// Gives unused memory back to the driver until at most min_bytes_to_keep are reserved. Memory whose free has not yet
/// run on its stream counts as used.
inline Error_t MemPoolTrimTo(MemPool_t pool, std::size_t min_bytes_to_keep);

/// Sets an attribute. Every value is a uint64: 0 or 1 for Reuse*, otherwise bytes. Errors: InvalidValue for
/// ReservedMemHigh and UsedMemHigh with any value but 0, and for ReservedMemCurrent and UsedMemCurrent.
inline Error_t MemPoolSetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t value);

/// Reads an attribute, as uint64.
inline Error_t MemPoolGetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t* value);

/// Says what a device may do with a pool's memory. The pool's own device may always read and write. Errors:
/// InvalidDevice for a peer that cannot reach the memory; host also for less access of the pool's own device.
inline Error_t MemPoolSetAccess(MemPool_t pool, Location location, MemAccessFlags flags);

/// Tells what a device may do with a pool's memory.
inline Error_t MemPoolGetAccess(MemAccessFlags* flags, MemPool_t pool, Location location);

/// The pool that a device came with.
inline Error_t DeviceGetDefaultMemPool(MemPool_t* pool, int device);

/// The pool that MallocAsync takes from on a device: the default pool, or the one that DeviceSetMemPool has named.
inline Error_t DeviceGetMemPool(MemPool_t* pool, int device);
/// Names the pool that MallocAsync takes from on a device, for the whole process.
inline Error_t DeviceSetMemPool(int device, MemPool_t pool);

PORTAMEM_RT_CLOSE
