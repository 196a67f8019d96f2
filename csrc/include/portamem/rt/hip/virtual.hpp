// SPDX-License-Identifier: MIT
// portamem/rt/hip/virtual.hpp: virtual memory. Contracts: rt/api/virtual.hpp.
#pragma once

#include "portamem/rt/hip/types.hpp"

#if defined(__HIP_PLATFORM_NVIDIA__)
// HIP's header there names the driver's calls only in later versions, and links them.
#include "portamem/rt/cuda/virtual.hpp"
#else

PORTAMEM_RT_OPEN

static_assert(check::same(MemAllocationGranularity::Minimum, hipMemAllocationGranularityMinimum));
static_assert(check::same(MemAllocationGranularity::Recommended, hipMemAllocationGranularityRecommended));

namespace detail {

/// Memory on a device, made without a way to other processes.
inline hipMemAllocationProp memory_on(int device) {
    hipMemAllocationProp prop{};
    prop.type = hipMemAllocationTypePinned;
    prop.location.type = hipMemLocationTypeDevice;
    prop.location.id = device;
    return prop;
}

}  // namespace detail

inline Error_t MemGetAllocationGranularity(std::size_t* granularity, Location location,
                                           MemAllocationGranularity option) {
    if (granularity == nullptr) return Error_t::InvalidValue;
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    const hipMemAllocationProp prop = detail::memory_on(location.id);
    const auto native = static_cast<hipMemAllocationGranularity_flags>(option);
    return answer(hipMemGetAllocationGranularity(granularity, &prop, native));
}

inline Error_t MemAddressReserve(void** ptr, std::size_t nbytes, std::size_t alignment, void* addr) {
    if (ptr == nullptr || nbytes == 0) return Error_t::InvalidValue;
    return answer(hipMemAddressReserve(ptr, nbytes, alignment, addr, 0));
}

inline Error_t MemAddressFree(void* ptr, std::size_t nbytes) { return answer(hipMemAddressFree(ptr, nbytes)); }

inline Error_t MemCreate(MemGenericAllocationHandle_t* handle, std::size_t nbytes, Location location) {
    if (handle == nullptr || nbytes == 0) return Error_t::InvalidValue;
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    const hipMemAllocationProp prop = detail::memory_on(location.id);
    return answer(hipMemCreate(handle, nbytes, &prop, 0));
}

inline Error_t MemRelease(MemGenericAllocationHandle_t handle) { return answer(hipMemRelease(handle)); }

inline Error_t MemMap(void* ptr, std::size_t nbytes, std::size_t offset, MemGenericAllocationHandle_t handle) {
    return answer(hipMemMap(ptr, nbytes, offset, handle, 0));
}

inline Error_t MemUnmap(void* ptr, std::size_t nbytes) { return answer(hipMemUnmap(ptr, nbytes)); }

inline Error_t MemSetAccess(void* ptr, std::size_t nbytes, Location location, MemAccessFlags flags) {
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    hipMemAccessDesc native{};
    native.location.type = hipMemLocationTypeDevice;
    native.location.id = location.id;
    native.flags = static_cast<hipMemAccessFlags>(flags);
    return answer(hipMemSetAccess(ptr, nbytes, &native, 1));
}

inline Error_t MemGetAccess(MemAccessFlags* flags, Location location, void* ptr) {
    if (flags == nullptr) return Error_t::InvalidValue;
    if (const Error_t error = check::of_device(location); error != Error_t::Success) return error;
    hipMemLocation where{};
    where.type = hipMemLocationTypeDevice;
    where.id = location.id;
    unsigned long long native = 0;
    const Error_t error = answer(hipMemGetAccess(&native, &where, ptr));
    if (error == Error_t::Success) *flags = static_cast<MemAccessFlags>(native);
    return error;
}

PORTAMEM_RT_CLOSE
#endif
