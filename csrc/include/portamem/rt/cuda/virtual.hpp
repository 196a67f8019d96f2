// SPDX-License-Identifier: MIT
// portamem/rt/cuda/virtual.hpp: virtual memory. Contracts: rt/api/virtual.hpp.
//
// HIP on the NVIDIA platform includes this file behind its own types.
#pragma once

#include "portamem/rt/check.hpp"
#include "portamem/rt/cuda/driver_virtual.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemAllocationGranularity::Minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
static_assert(check::same(MemAllocationGranularity::Recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));

inline Error_t MemGetAllocationGranularity(std::size_t* granularity, Location location,
                                           MemAllocationGranularity option) {
    if (granularity == nullptr) return Error_t::InvalidValue;
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    const bool recommended = option == MemAllocationGranularity::Recommended;
    return driver::mem_get_allocation_granularity(granularity, location.id, recommended);
}

inline Error_t MemAddressReserve(void** ptr, std::size_t nbytes, std::size_t alignment, void* addr) {
    if (ptr == nullptr || nbytes == 0) return Error_t::InvalidValue;
    return driver::mem_address_reserve(ptr, nbytes, alignment, addr);
}

inline Error_t MemAddressFree(void* ptr, std::size_t nbytes) { return driver::mem_address_free(ptr, nbytes); }

inline Error_t MemCreate(MemGenericAllocationHandle_t* handle, std::size_t nbytes, Location location) {
    if (handle == nullptr || nbytes == 0) return Error_t::InvalidValue;
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    return driver::mem_create(handle, nbytes, location.id);
}

inline Error_t MemRelease(MemGenericAllocationHandle_t handle) { return driver::mem_release(handle); }

inline Error_t MemMap(void* ptr, std::size_t nbytes, std::size_t offset, MemGenericAllocationHandle_t handle) {
    return driver::mem_map(ptr, nbytes, offset, handle);
}

inline Error_t MemUnmap(void* ptr, std::size_t nbytes) { return driver::mem_unmap(ptr, nbytes); }

inline Error_t MemSetAccess(void* ptr, std::size_t nbytes, Location location, MemAccessFlags flags) {
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    return driver::mem_set_access(ptr, nbytes, location.id, flags);
}

inline Error_t MemGetAccess(MemAccessFlags* flags, Location location, void* ptr) {
    if (flags == nullptr) return Error_t::InvalidValue;
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    return driver::mem_get_access(flags, location.id, ptr);
}

PORTAMEM_RT_CLOSE
