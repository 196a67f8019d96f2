// SPDX-License-Identifier: MIT
// portamem/rt/cuda/managed.hpp: managed memory. Contracts: rt/api/managed.hpp.
//
// From 13.0 the vendor's prefetch and advice take a location. Before, they took a device ordinal, with _v2 forms for
// locations from 12.2; those need a driver of 12.2 too, so they are used only for what an ordinal cannot say.
#pragma once

#include "portamem/rt/cuda/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemoryAdvise::SetReadMostly, cudaMemAdviseSetReadMostly));
static_assert(check::same(MemoryAdvise::UnsetReadMostly, cudaMemAdviseUnsetReadMostly));
static_assert(check::same(MemoryAdvise::SetPreferredLocation, cudaMemAdviseSetPreferredLocation));
static_assert(check::same(MemoryAdvise::UnsetPreferredLocation, cudaMemAdviseUnsetPreferredLocation));
static_assert(check::same(MemoryAdvise::SetAccessedBy, cudaMemAdviseSetAccessedBy));
static_assert(check::same(MemoryAdvise::UnsetAccessedBy, cudaMemAdviseUnsetAccessedBy));
static_assert(check::same(MemRangeAttribute::ReadMostly, cudaMemRangeAttributeReadMostly));
static_assert(check::same(MemRangeAttribute::PreferredLocation, cudaMemRangeAttributePreferredLocation));
static_assert(check::same(MemRangeAttribute::AccessedBy, cudaMemRangeAttributeAccessedBy));
static_assert(check::same(MemRangeAttribute::LastPrefetchLocation, cudaMemRangeAttributeLastPrefetchLocation));
static_assert(check::same(MemAttach::Global, cudaMemAttachGlobal));
static_assert(check::same(MemAttach::Host, cudaMemAttachHost));
static_assert(check::same(MemAttach::Single, cudaMemAttachSingle));
static_assert(check::same(LocationType::Device, cudaMemLocationTypeDevice));

#if CUDART_VERSION >= 12020
static_assert(check::same(LocationType::Host, cudaMemLocationTypeHost));
static_assert(check::same(LocationType::HostNuma, cudaMemLocationTypeHostNuma));
static_assert(check::same(LocationType::HostNumaCurrent, cudaMemLocationTypeHostNumaCurrent));

inline cudaMemLocation native_location(Location location) {
    cudaMemLocation native{};
    native.type = static_cast<cudaMemLocationType>(location.type);
    native.id = location.id;
    return native;
}
#endif

inline Error_t MallocManaged(void** ptr, std::size_t nbytes, MemAttach attach) {
    if (ptr == nullptr || !check::attach(attach)) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(cudaMallocManaged(ptr, nbytes, static_cast<unsigned>(attach)));
}

inline Error_t MemPrefetchAsync(const void* ptr, std::size_t nbytes, Location location, Stream_t stream) {
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    if (nbytes == 0) return Error_t::Success;
#if CUDART_VERSION >= 13000
    return answer(cudaMemPrefetchAsync(ptr, nbytes, native_location(location), 0, stream));
#else
#if CUDART_VERSION >= 12020
    if (check::names_numa_node(location)) {
        return answer(cudaMemPrefetchAsync_v2(ptr, nbytes, native_location(location), 0, stream));
    }
#endif
    return answer(cudaMemPrefetchAsync(ptr, nbytes, check::device_or_cpu(location), stream));
#endif
}

inline Error_t MemAdvise(const void* ptr, std::size_t nbytes, MemoryAdvise advice, Location location) {
    if (check::is_coarse_grain(advice)) return Error_t::NotSupported;
    // An advice that ignores its location is refused without a valid one.
    if (!check::uses_location(advice)) location = Location{LocationType::Device, 0};
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    if (nbytes == 0) return Error_t::Success;
    const auto native = static_cast<cudaMemoryAdvise>(advice);
#if CUDART_VERSION >= 13000
    return answer(cudaMemAdvise(ptr, nbytes, native, native_location(location)));
#else
#if CUDART_VERSION >= 12020
    if (check::names_numa_node(location)) {
        return answer(cudaMemAdvise_v2(ptr, nbytes, native, native_location(location)));
    }
#endif
    return answer(cudaMemAdvise(ptr, nbytes, native, check::device_or_cpu(location)));
#endif
}

inline Error_t MemRangeGetAttribute(void* data, std::size_t data_size, MemRangeAttribute attribute, const void* ptr,
                                    std::size_t nbytes) {
    if (attribute == MemRangeAttribute::CoherencyMode) return Error_t::NotSupported;
    return answer(
        cudaMemRangeGetAttribute(data, data_size, static_cast<cudaMemRangeAttribute>(attribute), ptr, nbytes));
}

inline Error_t StreamAttachMemAsync(Stream_t stream, void* ptr, std::size_t nbytes, MemAttach attach) {
    return answer(cudaStreamAttachMemAsync(stream, ptr, nbytes, static_cast<unsigned>(attach)));
}

PORTAMEM_RT_CLOSE
