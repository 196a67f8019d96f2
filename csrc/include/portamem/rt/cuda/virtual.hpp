// SPDX-License-Identifier: MIT
// portamem/rt/cuda/virtual.hpp: virtual memory. Contracts: rt/api/virtual.hpp.
#pragma once

#include "portamem/rt/cuda/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemAllocationGranularity::Minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
static_assert(check::same(MemAllocationGranularity::Recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));

inline Error_t MemGetAllocationGranularity(std::size_t* granularity, Location location,
                                           MemAllocationGranularity option) {
    if (granularity == nullptr || location.type != LocationType::Device) return Error_t::InvalidValue;
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    const bool recommended = option == MemAllocationGranularity::Recommended;
    return driver::mem_get_allocation_granularity(granularity, location.id, recommended);
}

PORTAMEM_RT_CLOSE
