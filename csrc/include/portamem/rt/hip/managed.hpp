// SPDX-License-Identifier: MIT
// portamem/rt/hip/managed.hpp: managed memory. Contracts: rt/api/managed.hpp.
//
// The vendor's prefetch and advice take a device ordinal, with _v2 forms for locations from 7.1, which are used only
// for what an ordinal cannot say. Before 7.1 a NUMA node is taken as the host.
#pragma once

#include "portamem/rt/hip/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemRangeAttribute::ReadMostly, hipMemRangeAttributeReadMostly));
static_assert(check::same(MemRangeAttribute::PreferredLocation, hipMemRangeAttributePreferredLocation));
static_assert(check::same(MemRangeAttribute::AccessedBy, hipMemRangeAttributeAccessedBy));
static_assert(check::same(MemRangeAttribute::LastPrefetchLocation, hipMemRangeAttributeLastPrefetchLocation));
static_assert(check::same(MemAttach::Global, hipMemAttachGlobal));
static_assert(check::same(MemAttach::Host, hipMemAttachHost));
static_assert(check::same(MemAttach::Single, hipMemAttachSingle));

#if HIP_VERSION >= 70100000
static_assert(check::same(LocationType::Device, hipMemLocationTypeDevice));
static_assert(check::same(LocationType::Host, hipMemLocationTypeHost));
static_assert(check::same(LocationType::HostNuma, hipMemLocationTypeHostNuma));
static_assert(check::same(LocationType::HostNumaCurrent, hipMemLocationTypeHostNumaCurrent));

inline hipMemLocation native_location(Location location) {
    hipMemLocation native{};
    native.type = static_cast<hipMemLocationType>(location.type);
    native.id = location.id;
    return native;
}
#endif

/// By name: on the NVIDIA platform HIP before 6 counts from 0, and has no coarse grain.
inline Error_t native_advice(MemoryAdvise advice, hipMemoryAdvise* native) {
    switch (advice) {
        case MemoryAdvise::SetReadMostly:
            *native = hipMemAdviseSetReadMostly;
            return Error_t::Success;
        case MemoryAdvise::UnsetReadMostly:
            *native = hipMemAdviseUnsetReadMostly;
            return Error_t::Success;
        case MemoryAdvise::SetPreferredLocation:
            *native = hipMemAdviseSetPreferredLocation;
            return Error_t::Success;
        case MemoryAdvise::UnsetPreferredLocation:
            *native = hipMemAdviseUnsetPreferredLocation;
            return Error_t::Success;
        case MemoryAdvise::SetAccessedBy:
            *native = hipMemAdviseSetAccessedBy;
            return Error_t::Success;
        case MemoryAdvise::UnsetAccessedBy:
            *native = hipMemAdviseUnsetAccessedBy;
            return Error_t::Success;
#if defined(__HIP_PLATFORM_NVIDIA__)
        case MemoryAdvise::SetCoarseGrain:
        case MemoryAdvise::UnsetCoarseGrain:
            return Error_t::NotSupported;
#else
        case MemoryAdvise::SetCoarseGrain:
            *native = hipMemAdviseSetCoarseGrain;
            return Error_t::Success;
        case MemoryAdvise::UnsetCoarseGrain:
            *native = hipMemAdviseUnsetCoarseGrain;
            return Error_t::Success;
#endif
    }
    return Error_t::InvalidValue;
}

inline Error_t MallocManaged(void** ptr, std::size_t nbytes, MemAttach attach) {
    if (ptr == nullptr || !check::attach(attach)) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(hipMallocManaged(ptr, nbytes, static_cast<unsigned>(attach)));
}

inline Error_t MemPrefetchAsync(const void* ptr, std::size_t nbytes, Location location, Stream_t stream) {
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    if (nbytes == 0) return Error_t::Success;
#if HIP_VERSION >= 70100000
    if (check::names_numa_node(location)) {
        return answer(hipMemPrefetchAsync_v2(ptr, nbytes, native_location(location), 0, stream));
    }
#endif
    return answer(hipMemPrefetchAsync(ptr, nbytes, check::device_or_cpu(location), stream));
}

inline Error_t MemAdvise(const void* ptr, std::size_t nbytes, MemoryAdvise advice, Location location) {
    hipMemoryAdvise native{};
    if (const Error_t error = native_advice(advice, &native); error != Error_t::Success) return error;
    // An advice that ignores its location is refused without a valid one.
    if (!check::uses_location(advice)) location = Location{LocationType::Device, 0};
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    if (nbytes == 0) return Error_t::Success;
#if HIP_VERSION >= 70100000
    if (check::names_numa_node(location)) {
        return answer(hipMemAdvise_v2(ptr, nbytes, native, native_location(location)));
    }
#endif
    return answer(hipMemAdvise(ptr, nbytes, native, check::device_or_cpu(location)));
}

inline Error_t MemRangeGetAttribute(void* data, std::size_t data_size, MemRangeAttribute attribute, const void* ptr,
                                    std::size_t nbytes) {
#if defined(__HIP_PLATFORM_NVIDIA__)
    if (attribute == MemRangeAttribute::CoherencyMode) return Error_t::NotSupported;
#else
    static_assert(check::same(MemRangeAttribute::CoherencyMode, hipMemRangeAttributeCoherencyMode));
#endif
    return answer(hipMemRangeGetAttribute(data, data_size, static_cast<hipMemRangeAttribute>(attribute), ptr, nbytes));
}

inline Error_t StreamAttachMemAsync(Stream_t stream, void* ptr, std::size_t nbytes, MemAttach attach) {
    return answer(hipStreamAttachMemAsync(stream, ptr, nbytes, static_cast<unsigned>(attach)));
}

PORTAMEM_RT_CLOSE
