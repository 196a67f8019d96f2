// SPDX-License-Identifier: MIT
// portamem/rt/host/managed.hpp: managed memory. Contracts: rt/api/managed.hpp.
#pragma once

#include "portamem/rt/host/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemoryAdvise::SetReadMostly, pmhMemAdviseSetReadMostly));
static_assert(check::same(MemoryAdvise::UnsetReadMostly, pmhMemAdviseUnsetReadMostly));
static_assert(check::same(MemoryAdvise::SetPreferredLocation, pmhMemAdviseSetPreferredLocation));
static_assert(check::same(MemoryAdvise::UnsetPreferredLocation, pmhMemAdviseUnsetPreferredLocation));
static_assert(check::same(MemoryAdvise::SetAccessedBy, pmhMemAdviseSetAccessedBy));
static_assert(check::same(MemoryAdvise::UnsetAccessedBy, pmhMemAdviseUnsetAccessedBy));
static_assert(check::same(MemRangeAttribute::ReadMostly, pmhMemRangeAttributeReadMostly));
static_assert(check::same(MemRangeAttribute::PreferredLocation, pmhMemRangeAttributePreferredLocation));
static_assert(check::same(MemRangeAttribute::AccessedBy, pmhMemRangeAttributeAccessedBy));
static_assert(check::same(MemRangeAttribute::LastPrefetchLocation, pmhMemRangeAttributeLastPrefetchLocation));
static_assert(check::same(MemAttach::Global, pmhMemAttachGlobal));
static_assert(check::same(MemAttach::Host, pmhMemAttachHost));
static_assert(check::same(MemAttach::Single, pmhMemAttachSingle));

inline Error_t MallocManaged(void** ptr, std::size_t nbytes, MemAttach attach) {
    if (ptr == nullptr || !check::attach(attach)) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMallocManaged(ptr, nbytes, static_cast<unsigned>(attach)));
}

inline Error_t MemPrefetchAsync(const void* ptr, std::size_t nbytes, Location location, Stream_t stream) {
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMemPrefetchAsync(ptr, nbytes, native_location(location), 0, stream));
}

inline Error_t MemAdvise(const void* ptr, std::size_t nbytes, MemoryAdvise advice, Location location) {
    if (check::is_coarse_grain(advice)) return Error_t::NotSupported;
    if (!check::uses_location(advice)) location = Location{LocationType::Device, 0};
    if (const Error_t error = check::location(location); error != Error_t::Success) return error;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMemAdvise(ptr, nbytes, static_cast<int>(advice), native_location(location)));
}

inline Error_t MemRangeGetAttribute(void* data, std::size_t data_size, MemRangeAttribute attribute, const void* ptr,
                                    std::size_t nbytes) {
    if (attribute == MemRangeAttribute::CoherencyMode) return Error_t::NotSupported;
    return answer(pmhMemRangeGetAttribute(data, data_size, static_cast<int>(attribute), ptr, nbytes));
}

inline Error_t StreamAttachMemAsync(Stream_t stream, void* ptr, std::size_t nbytes, MemAttach attach) {
    return answer(pmhStreamAttachMemAsync(stream, ptr, nbytes, static_cast<unsigned>(attach)));
}

PORTAMEM_RT_CLOSE
