// SPDX-License-Identifier: MIT
// portamem/rt/api/managed.hpp: contracts of managed memory.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// Managed memory, reachable by host and devices at one address. attach: Global or Host (Single is InvalidValue).
/// 0 bytes: Success and null (HIP itself would refuse). Freed by Free.
inline Error_t MallocManaged(void** ptr, std::size_t nbytes, MemAttach attach);

/// Moves a managed range to a location in stream order. 0 bytes: Success, and nothing is queued. Locations: Device and
/// Host everywhere; HostNuma and HostNumaCurrent where headers have them, else they act as Host.
/// Errors: InvalidValue for memory that is not managed (HIP: NotSupported for foreign memory), InvalidDevice.
/// HIP without migration: Success and no effect.
inline Error_t MemPrefetchAsync(const void* ptr, std::size_t nbytes, Location location, Stream_t stream);

/// Advises on a managed range, at once. ReadMostly and UnsetPreferredLocation ignore the location. Errors: as
/// MemPrefetchAsync, with InvalidValue for a bad ordinal on CUDA; NotSupported for the coarse-grain pair outside HIP.
inline Error_t MemAdvise(const void* ptr, std::size_t nbytes, MemoryAdvise advice, Location location);

/// One attribute of a managed range into `data`: an int (ReadMostly; PreferredLocation and LastPrefetchLocation as a
/// device ordinal, CpuDeviceId or InvalidDeviceId; CoherencyMode), or for AccessedBy data_size / 4 ints, unused ones
/// InvalidDeviceId. A location is reported only where the whole range shares it. Errors: NotSupported for CoherencyMode
/// outside AMD.
inline Error_t MemRangeGetAttribute(void* data, std::size_t data_size, MemRangeAttribute attribute, const void* ptr,
                                    std::size_t nbytes);

/// Says, in stream order, what may use managed memory: host and all streams (Global), the host alone (Host), or the
/// host and this stream alone (Single). ptr: where the allocation begins. nbytes: all of its bytes, or 0, which means
/// the same. Errors: InvalidValue.
inline Error_t StreamAttachMemAsync(Stream_t stream, void* ptr, std::size_t nbytes, MemAttach attach);

PORTAMEM_RT_CLOSE
