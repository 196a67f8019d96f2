// SPDX-License-Identifier: MIT
// portamem/rt/host/pool.hpp: stream-ordered memory and its pools. Contracts: rt/api/pool.hpp.
#pragma once

#include "portamem/rt/host/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemPoolAttr::ReuseFollowEventDependencies, pmhMemPoolReuseFollowEventDependencies));
static_assert(check::same(MemPoolAttr::ReuseAllowOpportunistic, pmhMemPoolReuseAllowOpportunistic));
static_assert(check::same(MemPoolAttr::ReuseAllowInternalDependencies, pmhMemPoolReuseAllowInternalDependencies));
static_assert(check::same(MemPoolAttr::ReleaseThreshold, pmhMemPoolAttrReleaseThreshold));
static_assert(check::same(MemPoolAttr::ReservedMemCurrent, pmhMemPoolAttrReservedMemCurrent));
static_assert(check::same(MemPoolAttr::ReservedMemHigh, pmhMemPoolAttrReservedMemHigh));
static_assert(check::same(MemPoolAttr::UsedMemCurrent, pmhMemPoolAttrUsedMemCurrent));
static_assert(check::same(MemPoolAttr::UsedMemHigh, pmhMemPoolAttrUsedMemHigh));
static_assert(check::same(MemAccessFlags::None, pmhMemAccessFlagsProtNone));
static_assert(check::same(MemAccessFlags::Read, pmhMemAccessFlagsProtRead));
static_assert(check::same(MemAccessFlags::ReadWrite, pmhMemAccessFlagsProtReadWrite));

inline Error_t MallocAsync(void** ptr, std::size_t nbytes, Stream_t stream) {
    if (ptr == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMallocAsync(ptr, nbytes, stream));
}

inline Error_t FreeAsync(void* ptr, Stream_t stream) {
    if (ptr == nullptr) return Error_t::Success;
    return answer(pmhFreeAsync(ptr, stream));
}

inline Error_t MallocFromPoolAsync(void** ptr, std::size_t nbytes, MemPool_t pool, Stream_t stream) {
    if (ptr == nullptr || pool == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMallocFromPoolAsync(ptr, nbytes, pool, stream));
}

inline Error_t MemPoolCreate(MemPool_t* pool, const MemPoolProps& props) {
    if (pool == nullptr || props.location.type != LocationType::Device) return Error_t::InvalidValue;
    const pmhMemPoolProps native{native_location(props.location), props.max_size};
    return answer(pmhMemPoolCreate(pool, &native));
}

inline Error_t MemPoolDestroy(MemPool_t pool) { return answer(pmhMemPoolDestroy(pool)); }

inline Error_t MemPoolTrimTo(MemPool_t pool, std::size_t min_bytes_to_keep) {
    return answer(pmhMemPoolTrimTo(pool, min_bytes_to_keep));
}

inline Error_t MemPoolSetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t value) {
    return answer(pmhMemPoolSetAttribute(pool, static_cast<int>(attr), value));
}

inline Error_t MemPoolGetAttribute(MemPool_t pool, MemPoolAttr attr, std::uint64_t* value) {
    if (value == nullptr) return Error_t::InvalidValue;
    return answer(pmhMemPoolGetAttribute(pool, static_cast<int>(attr), value));
}

inline Error_t MemPoolSetAccess(MemPool_t pool, Location location, MemAccessFlags flags) {
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    return answer(pmhMemPoolSetAccess(pool, native_location(location), static_cast<int>(flags)));
}

inline Error_t MemPoolGetAccess(MemAccessFlags* flags, MemPool_t pool, Location location) {
    if (flags == nullptr) return Error_t::InvalidValue;
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    int native = pmhMemAccessFlagsProtNone;
    const Error_t error = answer(pmhMemPoolGetAccess(&native, pool, native_location(location)));
    if (error == Error_t::Success) *flags = static_cast<MemAccessFlags>(native);
    return error;
}

inline Error_t DeviceGetDefaultMemPool(MemPool_t* pool, int device) {
    return answer(pmhDeviceGetDefaultMemPool(pool, device));
}

inline Error_t DeviceGetMemPool(MemPool_t* pool, int device) { return answer(pmhDeviceGetMemPool(pool, device)); }

inline Error_t DeviceSetMemPool(int device, MemPool_t pool) { return answer(pmhDeviceSetMemPool(device, pool)); }

PORTAMEM_RT_CLOSE
