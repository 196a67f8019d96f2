// SPDX-License-Identifier: MIT
// portamem/rt/hip/virtual.hpp: virtual memory. Contracts: rt/api/virtual.hpp.
#pragma once

#include "portamem/rt/hip/types.hpp"

PORTAMEM_RT_OPEN

inline Error_t MemGetAllocationGranularity(std::size_t* granularity, Location location,
                                           MemAllocationGranularity option) {
    if (granularity == nullptr || location.type != LocationType::Device) return Error_t::InvalidValue;
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
#if defined(__HIP_PLATFORM_NVIDIA__)
    // HIP's header there names the driver's call only in later versions, and links it.
    const bool recommended = option == MemAllocationGranularity::Recommended;
    return driver::mem_get_allocation_granularity(granularity, location.id, recommended);
#else
    static_assert(check::same(MemAllocationGranularity::Minimum, hipMemAllocationGranularityMinimum));
    static_assert(check::same(MemAllocationGranularity::Recommended, hipMemAllocationGranularityRecommended));
    hipMemAllocationProp prop{};
    prop.type = hipMemAllocationTypePinned;
    prop.location.type = hipMemLocationTypeDevice;
    prop.location.id = location.id;
    const auto native = static_cast<hipMemAllocationGranularity_flags>(option);
    return answer(hipMemGetAllocationGranularity(granularity, &prop, native));
#endif
}

PORTAMEM_RT_CLOSE
