// SPDX-License-Identifier: MIT
// pinned.cpp: pinned and registered host memory.
#include "coherence.hpp"
#include "records.hpp"
#include "standin.hpp"

using namespace standin;
using portamem::host::Kind;

namespace {

constexpr unsigned placement = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined;
constexpr unsigned coherence = hipHostMallocCoherent | hipHostMallocNonCoherent;

#if defined(hipHostMallocUncached)
constexpr unsigned known_flags = placement | coherence | hipHostMallocNumaUser | hipHostMallocUncached;
#else
constexpr unsigned known_flags = placement | coherence | hipHostMallocNumaUser;
#endif

// HIP_HOST_COHERENT=1 is not simulated.
bool is_coherent(unsigned flags) {
    if (flags == 0 || (flags & (hipHostMallocCoherent | hipHostMallocMapped | hipHostMallocNumaUser)) != 0) return true;
    if ((flags & hipHostMallocNonCoherent) != 0) return false;
    return !has(Quirk::PinnedFlagsDropCoherence);
}

hipError_t host_malloc(void** ptr, std::size_t size, unsigned flags) {
    if (ptr == nullptr || (flags & ~known_flags) != 0 || (flags & coherence) == coherence) return hipErrorInvalidValue;
    const pmhError_t error = pmhHostMalloc(ptr, size, flags & placement);
    if (error != pmhSuccess || size == 0) return translate(error);
    set_flags(*ptr, flags);
    if (is_coherent(flags) || add_shadow(*ptr, size)) return hipSuccess;
    (void)pmhHostFree(*ptr);
    *ptr = nullptr;
    return hipErrorOutOfMemory;
}

}  // namespace

hipError_t hipHostMalloc(void** ptr, std::size_t size, unsigned flags) { return answer(host_malloc(ptr, size, flags)); }

hipError_t hipHostAlloc(void** ptr, std::size_t size, unsigned flags) { return answer(host_malloc(ptr, size, flags)); }

hipError_t hipMallocHost(void** ptr, std::size_t size) { return answer(host_malloc(ptr, size, 0)); }

hipError_t hipMemAllocHost(void** ptr, std::size_t size) { return answer(host_malloc(ptr, size, 0)); }

hipError_t hipHostRegister(void* ptr, std::size_t size, unsigned flags) {
    const pmhError_t error = pmhHostRegister(ptr, size, flags);
    const bool overlaps = error == pmhErrorHostMemoryAlreadyRegistered;
    return answer(overlaps && has(Quirk::RegisterOverlapAllowed) ? pmhSuccess : error);
}

hipError_t hipHostUnregister(void* ptr) { return answer(pmhHostUnregister(ptr)); }

hipError_t hipHostGetDevicePointer(void** device_ptr, void* host_ptr, unsigned flags) {
    return answer(pmhHostGetDevicePointer(device_ptr, host_ptr, flags));
}

// All that the user asked for, and nothing that the runtime adds.
hipError_t hipHostGetFlags(unsigned* flags, void* host_ptr) {
    const auto memory = known(host_ptr);
    if (flags == nullptr || !memory || !memory->is_host_memory()) return answer(hipErrorInvalidValue);
    *flags = memory->flags;
    return answer(hipSuccess);
}
