// SPDX-License-Identifier: MIT
// portamem/rt/api/virtual.hpp: contracts of virtual memory.
//
// The caller reserves addresses, creates memory, maps the memory to the addresses, and gives devices access to it;
// before that no device can use the memory. No call waits for work. The caller sees to it that no work uses memory that
// it unmaps, or to which it takes access away. No call creates a context. Sizes, addresses and offsets are multiples of
// the granularity. Where the runtime has no virtual memory the answer is NotSupported;
// DeviceAttr::VirtualMemoryManagementSupported is the capability.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// The granularity in bytes of physical memory at a Device location: sizes and addresses have to be multiples of it.
/// option: the least that works, or the one that works best. Errors: InvalidValue for another location, InvalidDevice
/// for a negative ordinal (CUDA gives an answer even for an ordinal beyond the last: measured).
inline Error_t MemGetAllocationGranularity(std::size_t* granularity, Location location,
                                           MemAllocationGranularity option);

/// Reserves a range of addresses for the process, without memory. addr: where the caller would like it to begin; null
/// for no wish, and a runtime may begin it elsewhere. alignment: a power of two, or 0 for the granularity. Errors:
/// InvalidValue for a null `ptr` and a size of 0; for a size that is no multiple InvalidValue, or OutOfMemory on AMD.
inline Error_t MemAddressReserve(void** ptr, std::size_t nbytes, std::size_t alignment, void* addr);

/// Gives a whole range back. Errors: InvalidValue for a range that is not reserved just so, or has memory mapped to it.
inline Error_t MemAddressFree(void* ptr, std::size_t nbytes);

/// Takes physical memory of a device. The handle holds it until MemRelease, and each mapping holds it too. Errors:
/// InvalidValue for a null handle, for a size that is 0 or no multiple, and for a location that is no device;
/// OutOfMemory.
inline Error_t MemCreate(MemGenericAllocationHandle_t* handle, std::size_t nbytes, Location location);

/// Gives a handle up. The memory goes back to the device once it is mapped nowhere either.
inline Error_t MemRelease(MemGenericAllocationHandle_t handle);

/// Maps memory to reserved addresses to which nothing is mapped. nbytes: all of the memory; offset: 0, as vendors take
/// no other. Errors: InvalidValue.
inline Error_t MemMap(void* ptr, std::size_t nbytes, std::size_t offset, MemGenericAllocationHandle_t handle);

/// Takes the memory away from addresses, which stay reserved. The range is that of one MemMap: AMD and host take no
/// other. Errors: InvalidValue, but Success on CUDA for reserved addresses to which nothing is mapped (measured).
inline Error_t MemUnmap(void* ptr, std::size_t nbytes);

/// Says what a device may do with mapped memory. The range may hold several whole mappings, one behind the other; on
/// AMD it has to begin where the reservation does. Errors: InvalidValue for a location that is no device, and for a
/// range that is not mapped; host also for Read.
inline Error_t MemSetAccess(void* ptr, std::size_t nbytes, Location location, MemAccessFlags flags);

/// Tells what a device may do with the memory at an address. Errors: InvalidValue for a location that is no device;
/// host also where no memory is mapped.
inline Error_t MemGetAccess(MemAccessFlags* flags, Location location, void* ptr);

PORTAMEM_RT_CLOSE
