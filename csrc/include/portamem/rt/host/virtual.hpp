// SPDX-License-Identifier: MIT
// portamem/rt/host/virtual.hpp: virtual memory. Contracts: rt/api/virtual.hpp.
#pragma once

#include "portamem/rt/host/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemAllocationGranularity::Minimum, pmhMemAllocationGranularityMinimum));
static_assert(check::same(MemAllocationGranularity::Recommended, pmhMemAllocationGranularityRecommended));

inline Error_t MemGetAllocationGranularity(std::size_t* granularity, Location location,
                                           MemAllocationGranularity option) {
    if (granularity == nullptr) return Error_t::InvalidValue;
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    return answer(pmhMemGetAllocationGranularity(granularity, native_location(location), static_cast<int>(option)));
}

inline Error_t MemAddressReserve(void** ptr, std::size_t nbytes, std::size_t alignment, void* addr) {
    if (ptr == nullptr || nbytes == 0) return Error_t::InvalidValue;
    return answer(pmhMemAddressReserve(ptr, nbytes, alignment, addr));
}

inline Error_t MemAddressFree(void* ptr, std::size_t nbytes) { return answer(pmhMemAddressFree(ptr, nbytes)); }

inline Error_t MemCreate(MemGenericAllocationHandle_t* handle, std::size_t nbytes, Location location) {
    if (handle == nullptr || nbytes == 0) return Error_t::InvalidValue;
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    return answer(pmhMemCreate(handle, nbytes, native_location(location)));
}

inline Error_t MemRelease(MemGenericAllocationHandle_t handle) { return answer(pmhMemRelease(handle)); }

inline Error_t MemMap(void* ptr, std::size_t nbytes, std::size_t offset, MemGenericAllocationHandle_t handle) {
    return answer(pmhMemMap(ptr, nbytes, offset, handle));
}

inline Error_t MemUnmap(void* ptr, std::size_t nbytes) { return answer(pmhMemUnmap(ptr, nbytes)); }

inline Error_t MemSetAccess(void* ptr, std::size_t nbytes, Location location, MemAccessFlags flags) {
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    return answer(pmhMemSetAccess(ptr, nbytes, native_location(location), static_cast<int>(flags)));
}

inline Error_t MemGetAccess(MemAccessFlags* flags, Location location, void* ptr) {
    if (flags == nullptr) return Error_t::InvalidValue;
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    int native = pmhMemAccessFlagsProtNone;
    const Error_t error = answer(pmhMemGetAccess(&native, native_location(location), ptr));
    if (error == Error_t::Success) *flags = static_cast<MemAccessFlags>(native);
    return error;
}

PORTAMEM_RT_CLOSE
