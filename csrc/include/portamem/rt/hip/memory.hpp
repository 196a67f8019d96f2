// SPDX-License-Identifier: MIT
// portamem/rt/hip/memory.hpp: device, pinned and registered memory. Contracts: rt/api/memory.hpp.
#pragma once

#include "portamem/rt/hip/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(HostMallocDefault, hipHostMallocDefault));
static_assert(check::same(HostMallocPortable, hipHostMallocPortable));
static_assert(check::same(HostMallocMapped, hipHostMallocMapped));
static_assert(check::same(HostMallocWriteCombined, hipHostMallocWriteCombined));
static_assert(check::same(HostRegisterDefault, hipHostRegisterDefault));
static_assert(check::same(HostRegisterPortable, hipHostRegisterPortable));
static_assert(check::same(HostRegisterMapped, hipHostRegisterMapped));
static_assert(check::same(HostRegisterIoMemory, hipHostRegisterIoMemory));

inline Error_t Malloc(void** ptr, std::size_t nbytes) {
    if (ptr == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(hipMalloc(ptr, nbytes));
}

inline Error_t Free(void* ptr) {
    if (ptr == nullptr) return Error_t::Success;
    return answer(hipFree(ptr));
}

inline Error_t MallocPitch(void** ptr, std::size_t* pitch, std::size_t width, std::size_t height) {
    if (ptr == nullptr || pitch == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    *pitch = 0;
    if (width == 0 || height == 0) return Error_t::Success;
    return answer(hipMallocPitch(ptr, pitch, width, height));
}

inline Error_t ExtMallocWithFlags(void** ptr, std::size_t nbytes, Coherence coherence) {
    if (ptr == nullptr || !check::device_coherence(coherence)) return Error_t::InvalidValue;
    if (coherence == Coherence::Default) return Malloc(ptr, nbytes);
    *ptr = nullptr;
#if defined(__HIP_PLATFORM_NVIDIA__)
    return Error_t::NotSupported;
#else
#if !defined(hipDeviceMallocUncached)
    if (coherence == Coherence::Uncached) return Error_t::NotSupported;
    const unsigned flags = hipDeviceMallocFinegrained;
#else
    const unsigned flags = coherence == Coherence::Uncached ? hipDeviceMallocUncached : hipDeviceMallocFinegrained;
#endif
    if (nbytes == 0) return Error_t::Success;
    return answer(hipExtMallocWithFlags(ptr, nbytes, flags));
#endif
}

inline Error_t HostMalloc(void** ptr, std::size_t nbytes, unsigned flags, Coherence coherence) {
    if (ptr == nullptr || !check::host_malloc(flags, coherence)) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    // Without one of these two, other flags and the environment decide.
    flags |= coherence == Coherence::NonCoherent ? hipHostMallocNonCoherent : hipHostMallocCoherent;
    return answer(hipHostMalloc(ptr, nbytes, flags));
}

inline Error_t HostFree(void* ptr) {
    if (ptr == nullptr) return Error_t::Success;
    return answer(hipHostFree(ptr));
}

#if !defined(__HIP_PLATFORM_NVIDIA__)
/// Why memory at an address cannot be registered. The library itself takes what it has already, and then gives all of
/// it up at the first HostUnregister.
inline Error_t registrable(const void* ptr) {
    hipPointerAttribute_t known{};
    const Error_t error = answer(hipPointerGetAttributes(&known, ptr));
    if (error == Error_t::InvalidValue) return Error_t::Success;  // memory unknown to versions before 6
    if (error != Error_t::Success) return error;
#if HIP_VERSION_MAJOR >= 6
    if (known.type == hipMemoryTypeUnregistered) return Error_t::Success;
    const bool is_host = known.type == hipMemoryTypeHost;
#else
    const bool is_host = known.memoryType == hipMemoryTypeHost && known.isManaged == 0;
#endif
    return is_host ? Error_t::HostMemoryAlreadyRegistered : Error_t::InvalidValue;
}
#endif

inline Error_t HostRegister(void* ptr, std::size_t nbytes, unsigned flags) {
    if (!check::host_register(ptr, nbytes, flags)) return Error_t::InvalidValue;
    // The number of ReadOnly asks an AMD library for coarse-grained memory instead.
    if ((flags & HostRegisterReadOnly) != 0) return Error_t::NotSupported;
#if !defined(__HIP_PLATFORM_NVIDIA__)
    const char* last = static_cast<const char*>(ptr) + (nbytes - 1);
    Error_t error = registrable(ptr);
    if (error == Error_t::Success) error = registrable(last);
    if (error != Error_t::Success) return error;
#endif
    return answer(hipHostRegister(ptr, nbytes, flags));
}

inline Error_t HostUnregister(void* ptr) { return answer(hipHostUnregister(ptr)); }

inline Error_t HostGetDevicePointer(void** device_ptr, void* host_ptr) {
    return answer(hipHostGetDevicePointer(device_ptr, host_ptr, 0));
}

inline Error_t HostGetFlags(unsigned* flags, void* host_ptr) {
    if (flags == nullptr) return Error_t::InvalidValue;
    const Error_t error = answer(hipHostGetFlags(flags, host_ptr));
    if (error == Error_t::Success) *flags &= HostMallocPortable | HostMallocMapped | HostMallocWriteCombined;
    return error;
}

PORTAMEM_RT_CLOSE
