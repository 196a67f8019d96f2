// SPDX-License-Identifier: MIT
// portamem/rt/cuda/pool.hpp: stream-ordered memory and its pools. Contracts: rt/api/pool.hpp.
#pragma once

#include "portamem/rt/cuda/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemPoolAttr::ReuseFollowEventDependencies, cudaMemPoolReuseFollowEventDependencies));
static_assert(check::same(MemPoolAttr::ReuseAllowOpportunistic, cudaMemPoolReuseAllowOpportunistic));
static_assert(check::same(MemPoolAttr::ReuseAllowInternalDependencies, cudaMemPoolReuseAllowInternalDependencies));
static_assert(check::same(MemPoolAttr::ReleaseThreshold, cudaMemPoolAttrReleaseThreshold));
static_assert(check::same(MemPoolAttr::ReservedMemCurrent, cudaMemPoolAttrReservedMemCurrent));
static_assert(check::same(MemPoolAttr::ReservedMemHigh, cudaMemPoolAttrReservedMemHigh));
static_assert(check::same(MemPoolAttr::UsedMemCurrent, cudaMemPoolAttrUsedMemCurrent));
static_assert(check::same(MemPoolAttr::UsedMemHigh, cudaMemPoolAttrUsedMemHigh));
static_assert(check::same(MemAccessFlags::None, cudaMemAccessFlagsProtNone));
static_assert(check::same(MemAccessFlags::Read, cudaMemAccessFlagsProtRead));
static_assert(check::same(MemAccessFlags::ReadWrite, cudaMemAccessFlagsProtReadWrite));

/// Sets a field that only newer headers have.
template <class Props>
auto set_max_size(Props& props, std::size_t max_size, int) -> decltype(props.maxSize, void()) {
    props.maxSize = max_size;
}
template <class Props>
void set_max_size(Props&, std::size_t, long) {}

inline Error_t MallocAsync(void** ptr, std::size_t nbytes, Stream_t stream) {
    if (ptr == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(cudaMallocAsync(ptr, nbytes, stream));
}

inline Error_t FreeAsync(void* ptr, Stream_t stream) {
    if (ptr == nullptr) return Error_t::Success;
    return driver::mem_free_async(ptr, stream);
}

inline Error_t MallocFromPoolAsync(void** ptr, std::size_t nbytes, MemPool_t pool, Stream_t stream) {
    if (ptr == nullptr || pool == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return driver::mem_alloc_from_pool_async(ptr, nbytes, pool, stream);
}

inline Error_t MemPoolCreate(MemPool_t* pool, const MemPoolProps& props) {
    if (pool == nullptr || props.location.type != LocationType::Device) return Error_t::InvalidValue;
    cudaMemPoolProps native{};
    native.allocType = cudaMemAllocationTypePinned;
    native.location.type = cudaMemLocationTypeDevice;
    native.location.id = props.location.id;
    set_max_size(native, props.max_size, 0);
    return answer(cudaMemPoolCreate(pool, &native));
}

inline Error_t MemPoolDestroy(MemPool_t pool) { return answer(cudaMemPoolDestroy(pool)); }

inline Error_t MemPoolTrimTo(MemPool_t pool, std::size_t min_bytes_to_keep) {
    return answer(cudaMemPoolTrimTo(pool, min_bytes_to_keep));
}

inline Error_t MemPoolSetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t value) {
    int boolean = value != 0;
    void* native = check::is_boolean(attr) ? static_cast<void*>(&boolean) : &value;
    return answer(cudaMemPoolSetAttribute(pool, static_cast<cudaMemPoolAttr>(attr), native));
}

inline Error_t MemPoolGetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t* value) {
    if (value == nullptr) return Error_t::InvalidValue;
    int boolean = 0;
    void* native = check::is_boolean(attr) ? static_cast<void*>(&boolean) : value;
    const Error_t error = answer(cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(attr), native));
    if (error == Error_t::Success && check::is_boolean(attr)) *value = boolean != 0;
    return error;
}

inline Error_t MemPoolSetAccess(MemPool_t pool, Location location, MemAccessFlags flags) {
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    cudaMemAccessDesc native{};
    native.location.type = static_cast<cudaMemLocationType>(location.type);
    native.location.id = location.id;
    native.flags = static_cast<cudaMemAccessFlags>(flags);
    return answer(cudaMemPoolSetAccess(pool, &native, 1));
}

inline Error_t MemPoolGetAccess(MemAccessFlags* flags, MemPool_t pool, Location location) {
    if (flags == nullptr) return Error_t::InvalidValue;
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    cudaMemLocation where{};
    where.type = static_cast<cudaMemLocationType>(location.type);
    where.id = location.id;
    cudaMemAccessFlags native = cudaMemAccessFlagsProtNone;
    const Error_t error = answer(cudaMemPoolGetAccess(&native, pool, &where));
    if (error == Error_t::Success) *flags = static_cast<MemAccessFlags>(native);
    return error;
}

inline Error_t DeviceGetDefaultMemPool(MemPool_t* pool, int device) {
    return answer(cudaDeviceGetDefaultMemPool(pool, device));
}

inline Error_t DeviceGetMemPool(MemPool_t* pool, int device) { return answer(cudaDeviceGetMemPool(pool, device)); }

inline Error_t DeviceSetMemPool(int device, MemPool_t pool) { return answer(cudaDeviceSetMemPool(device, pool)); }

PORTAMEM_RT_CLOSE
