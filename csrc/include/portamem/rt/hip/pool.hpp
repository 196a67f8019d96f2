// SPDX-License-Identifier: MIT
// portamem/rt/hip/pool.hpp: stream-ordered memory and its pools. Contracts: rt/api/pool.hpp.
#pragma once

#include <type_traits>

#include "portamem/rt/hip/types.hpp"

PORTAMEM_RT_OPEN

// HIP's header for the NVIDIA platform has the types and none of their values; there they are CUDA's.
#if defined(__HIP_PLATFORM_NVIDIA__)
inline constexpr auto PinnedAllocation = cudaMemAllocationTypePinned;
inline constexpr auto DeviceLocation = cudaMemLocationTypeDevice;
#else
inline constexpr auto PinnedAllocation = hipMemAllocationTypePinned;
inline constexpr auto DeviceLocation = hipMemLocationTypeDevice;
static_assert(check::same(MemPoolAttr::ReuseFollowEventDependencies, hipMemPoolReuseFollowEventDependencies));
static_assert(check::same(MemPoolAttr::ReuseAllowOpportunistic, hipMemPoolReuseAllowOpportunistic));
static_assert(check::same(MemPoolAttr::ReuseAllowInternalDependencies, hipMemPoolReuseAllowInternalDependencies));
static_assert(check::same(MemPoolAttr::ReleaseThreshold, hipMemPoolAttrReleaseThreshold));
static_assert(check::same(MemPoolAttr::ReservedMemCurrent, hipMemPoolAttrReservedMemCurrent));
static_assert(check::same(MemPoolAttr::ReservedMemHigh, hipMemPoolAttrReservedMemHigh));
static_assert(check::same(MemPoolAttr::UsedMemCurrent, hipMemPoolAttrUsedMemCurrent));
static_assert(check::same(MemPoolAttr::UsedMemHigh, hipMemPoolAttrUsedMemHigh));
static_assert(check::same(MemAccessFlags::None, hipMemAccessFlagsProtNone));
static_assert(check::same(MemAccessFlags::Read, hipMemAccessFlagsProtRead));
static_assert(check::same(MemAccessFlags::ReadWrite, hipMemAccessFlagsProtReadWrite));
#endif

/// Sets a field that only newer headers have.
template <class Props>
auto set_max_size(Props& props, std::size_t max_size, int) -> decltype(props.maxSize, void()) {
    props.maxSize = max_size;
}
template <class Props>
void set_max_size(Props&, std::size_t, long) {}

/// Some versions answer Success where a pool has no memory, and give none.
inline Error_t given(Error_t error, void* const* ptr) {
    return error == Error_t::Success && *ptr == nullptr ? Error_t::OutOfMemory : error;
}

inline Error_t MallocAsync(void** ptr, std::size_t nbytes, Stream_t stream) {
    if (ptr == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return given(answer(hipMallocAsync(ptr, nbytes, stream)), ptr);
}

inline Error_t FreeAsync(void* ptr, Stream_t stream) {
    if (ptr == nullptr) return Error_t::Success;
#if defined(__HIP_PLATFORM_NVIDIA__)
    return driver::mem_free_async(ptr, stream);  // a runtime's call would give the thread a context
#else
    return answer(hipFreeAsync(ptr, stream));
#endif
}

inline Error_t MallocFromPoolAsync(void** ptr, std::size_t nbytes, MemPool_t pool, Stream_t stream) {
    if (ptr == nullptr || pool == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
#if defined(__HIP_PLATFORM_NVIDIA__)
    return driver::mem_alloc_from_pool_async(ptr, nbytes, pool, stream);  // the same
#else
    return given(answer(hipMallocFromPoolAsync(ptr, nbytes, pool, stream)), ptr);
#endif
}

inline Error_t MemPoolCreate(MemPool_t* pool, const MemPoolProps& props) {
    if (pool == nullptr || props.location.type != LocationType::Device) return Error_t::InvalidValue;
    hipMemPoolProps native{};
    native.allocType = PinnedAllocation;
    native.location.type = DeviceLocation;
    native.location.id = props.location.id;
    set_max_size(native, props.max_size, 0);
    return answer(hipMemPoolCreate(pool, &native));
}

inline Error_t MemPoolDestroy(MemPool_t pool) { return answer(hipMemPoolDestroy(pool)); }

inline Error_t MemPoolTrimTo(MemPool_t pool, std::size_t min_bytes_to_keep) {
    return answer(hipMemPoolTrimTo(pool, min_bytes_to_keep));
}

inline Error_t MemPoolSetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t value) {
    int boolean = value != 0;
    void* native = check::is_boolean(attr) ? static_cast<void*>(&boolean) : &value;
    return answer(hipMemPoolSetAttribute(pool, static_cast<hipMemPoolAttr>(attr), native));
}

inline Error_t MemPoolGetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t* value) {
    if (value == nullptr) return Error_t::InvalidValue;
    int boolean = 0;
    void* native = check::is_boolean(attr) ? static_cast<void*>(&boolean) : value;
    const Error_t error = answer(hipMemPoolGetAttribute(pool, static_cast<hipMemPoolAttr>(attr), native));
    if (error == Error_t::Success && check::is_boolean(attr)) *value = boolean != 0;
    return error;
}

inline Error_t MemPoolSetAccess(MemPool_t pool, Location location, MemAccessFlags flags) {
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    hipMemAccessDesc native{};
    native.location.type = static_cast<std::remove_const_t<decltype(DeviceLocation)>>(location.type);
    native.location.id = location.id;
    native.flags = static_cast<hipMemAccessFlags>(flags);
    return answer(hipMemPoolSetAccess(pool, &native, 1));
}

inline Error_t MemPoolGetAccess(MemAccessFlags* flags, MemPool_t pool, Location location) {
    if (flags == nullptr) return Error_t::InvalidValue;
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    hipMemLocation where{};
    where.type = static_cast<std::remove_const_t<decltype(DeviceLocation)>>(location.type);
    where.id = location.id;
    hipMemAccessFlags native{};
    const Error_t error = answer(hipMemPoolGetAccess(&native, pool, &where));
    if (error == Error_t::Success) *flags = static_cast<MemAccessFlags>(native);
    return error;
}

inline Error_t DeviceGetDefaultMemPool(MemPool_t* pool, int device) {
    return answer(hipDeviceGetDefaultMemPool(pool, device));
}

inline Error_t DeviceGetMemPool(MemPool_t* pool, int device) { return answer(hipDeviceGetMemPool(pool, device)); }

inline Error_t DeviceSetMemPool(int device, MemPool_t pool) { return answer(hipDeviceSetMemPool(device, pool)); }

PORTAMEM_RT_CLOSE
