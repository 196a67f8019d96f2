// SPDX-License-Identifier: MIT
// portamem/rt/api/pointer.hpp: contract of the pointer query.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// What a pointer is, as one record. A plain host pointer is Success and Unregistered, with host_pointer set to it (HIP
/// before 6.0 answers InvalidValue, which is mapped). Null is Unregistered. Base and size are filled where the runtime
/// knows them: CUDA asks the driver, HIP its own range query. device_pointer is the address by which `device` reaches
/// the memory. All of it is told to every thread, whatever its current device, and a thread that has none is given
/// none. Of memory that the runtime does not know, device_pointer is told where the current device reaches it.
inline Error_t PointerGetAttributes(PointerAttributes* attributes, const void* ptr);

/// One attribute of memory that the runtime knows. IsLegacyIpcCapable: CUDA's driver says, and says no for memory of
/// pools, virtual, managed and pinned memory. Errors: InvalidValue for a pointer that the runtime does not know;
/// NotSupported where it cannot say (AMD's, in most versions), whatever the pointer.
inline Error_t PointerGetAttribute(int* value, PointerAttr attr, const void* ptr);

PORTAMEM_RT_CLOSE
