// SPDX-License-Identifier: MIT
// portamem/rt/host/virtual.hpp: virtual memory. Contracts: rt/api/virtual.hpp.
#pragma once

#include "portamem/rt/host/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemAllocationGranularity::Minimum, pmhMemAllocationGranularityMinimum));
static_assert(check::same(MemAllocationGranularity::Recommended, pmhMemAllocationGranularityRecommended));

inline Error_t MemGetAllocationGranularity(std::size_t* granularity, Location location,
                                           MemAllocationGranularity option) {
    if (granularity == nullptr || location.type != LocationType::Device) return Error_t::InvalidValue;
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    return answer(pmhMemGetAllocationGranularity(granularity, native_location(location), static_cast<int>(option)));
}

PORTAMEM_RT_CLOSE
