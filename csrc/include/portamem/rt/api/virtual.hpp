// SPDX-License-Identifier: MIT
// portamem/rt/api/virtual.hpp: contracts of virtual memory.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// Bytes of which sizes and addresses of physical memory at a Device location have to be multiples: the least that
/// works, or the best. Creates no context. Errors: InvalidValue for another location, InvalidDevice for a negative
/// ordinal (CUDA answers for one beyond the last, measured), NotSupported where the runtime has no virtual memory.
/// Capability: DeviceAttr::VirtualMemoryManagementSupported.
inline Error_t MemGetAllocationGranularity(std::size_t* granularity, Location location,
                                           MemAllocationGranularity option);

PORTAMEM_RT_CLOSE
