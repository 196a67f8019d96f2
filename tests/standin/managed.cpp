// SPDX-License-Identifier: MIT
// managed.cpp: managed memory.
#include "records.hpp"
#include "standin.hpp"

using namespace standin;
using portamem::host::Kind;

namespace {

pmhMemLocation location_of(int device) {
    return device == hipCpuDeviceId ? pmhMemLocation{pmhMemLocationTypeHost, 0} : on_device(device);
}

bool reaches_pageable() {
    int value = 0;
    return pmhDeviceGetAttribute(&value, pmhDevAttrPageableMemoryAccess, 0) == pmhSuccess && value != 0;
}

// True where there is nothing to prefetch. `error` is then the vendor's answer.
bool is_foreign(const void* ptr, bool to_host, hipError_t* error) {
    if (!has(Quirk::PrefetchIgnoresForeign)) return false;
    const auto memory = known(ptr);
    if (memory && memory->kind == Kind::Managed) return false;
    if (!memory && reaches_pageable()) return false;
    *error = memory || to_host ? hipSuccess : hipErrorNotSupported;
    return true;
}

hipError_t prefetch(const void* ptr, std::size_t size, pmhMemLocation location, hipStream_t stream) {
    if (ptr == nullptr || size == 0) return hipErrorInvalidValue;
    hipError_t error = hipSuccess;
    const bool to_host = location.type != pmhMemLocationTypeDevice;
    int count = 0;
    if (const pmhError_t failed = pmhGetDeviceCount(&count); failed != pmhSuccess) return translate(failed);
    if (!to_host && (location.id < 0 || location.id >= count)) return hipErrorInvalidDevice;
    if (is_foreign(ptr, to_host, &error)) return error;
    return translate(pmhMemPrefetchAsync(ptr, size, location, 0, native(stream)));
}

// Coarse grain is a way to cache: nothing to be seen here.
hipError_t advise(const void* ptr, std::size_t size, int advice, pmhMemLocation location) {
    const bool grain = advice == hipMemAdviseSetCoarseGrain || advice == hipMemAdviseUnsetCoarseGrain;
    if (!grain) return translate(pmhMemAdvise(ptr, size, advice, location));
    const auto memory = known(ptr);
    return memory && memory->kind == Kind::Managed && size != 0 ? hipSuccess : hipErrorInvalidValue;
}

}  // namespace

hipError_t hipMallocManaged(void** ptr, std::size_t size, unsigned flags) {
    if (size == 0 && has(Quirk::ManagedZeroRefused)) return answer(hipErrorInvalidValue);
    return answer(pmhMallocManaged(ptr, size, flags));
}

hipError_t hipMemPrefetchAsync(const void* ptr, std::size_t size, int device, hipStream_t stream) {
    return answer(prefetch(ptr, size, location_of(device), stream));
}

hipError_t hipMemAdvise(const void* ptr, std::size_t size, hipMemoryAdvise advice, int device) {
    return answer(advise(ptr, size, static_cast<int>(advice), location_of(device)));
}

#if HIP_VERSION >= 70100000
hipError_t hipMemPrefetchAsync_v2(const void* ptr, std::size_t size, hipMemLocation location, unsigned flags,
                                  hipStream_t stream) {
    if (flags != 0) return answer(hipErrorInvalidValue);
    return answer(prefetch(ptr, size, {static_cast<int>(location.type), location.id}, stream));
}

hipError_t hipMemAdvise_v2(const void* ptr, std::size_t size, hipMemoryAdvise advice, hipMemLocation location) {
    return answer(advise(ptr, size, static_cast<int>(advice), {static_cast<int>(location.type), location.id}));
}
#endif

hipError_t hipMemRangeGetAttribute(void* data, std::size_t data_size, hipMemRangeAttribute attribute, const void* ptr,
                                   std::size_t size) {
    if (attribute != hipMemRangeAttributeCoherencyMode)
        return answer(pmhMemRangeGetAttribute(data, data_size, static_cast<int>(attribute), ptr, size));
    const auto memory = known(ptr);
    if (data == nullptr || data_size != sizeof(int) || !memory || memory->kind != Kind::Managed)
        return answer(hipErrorInvalidValue);
    *static_cast<int*>(data) = hipMemRangeCoherencyModeFineGrain;
    return answer(hipSuccess);
}

hipError_t hipStreamAttachMemAsync(hipStream_t stream, void* ptr, std::size_t size, unsigned flags) {
    return answer(pmhStreamAttachMemAsync(native(stream), ptr, size, flags));
}
