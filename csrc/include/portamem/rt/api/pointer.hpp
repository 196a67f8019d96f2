// SPDX-License-Identifier: MIT
// portamem/rt/api/pointer.hpp: contract of the pointer query.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// Describes a pointer in one record.
/// - A plain host pointer is Success and Unregistered, with host_pointer set to it (HIP before 6.0 answers
///   InvalidValue, which is mapped). Null is Success and Unregistered.
/// - base and nbytes are filled in where the runtime knows them: CUDA asks the driver, HIP its own range query.
/// - device_pointer is the address by which `device`, the owner, reaches the memory. For memory that the runtime does
///   not know it is the address by which the current device reaches it, or null.
/// - Apart from that, every thread gets the same record, whatever device is current on it. A thread without a current
///   device still has none after the call.
inline Error_t PointerGetAttributes(PointerAttributes* attributes, const void* ptr);

/// One attribute of memory that the runtime knows. IsLegacyIpcCapable: CUDA's driver answers 0 for memory of pools, and
/// for virtual, managed and pinned memory; host always answers 0. Errors: InvalidValue for a pointer that the runtime
/// does not know; NotSupported, whatever the pointer, where it cannot say (AMD's, in most versions).
inline Error_t PointerGetAttribute(int* value, PointerAttr attr, const void* ptr);

PORTAMEM_RT_CLOSE
