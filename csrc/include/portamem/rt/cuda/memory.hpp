// SPDX-License-Identifier: MIT
// portamem/rt/cuda/memory.hpp: device, pinned and registered memory. Contracts: rt/api/memory.hpp.
#pragma once

#include "portamem/rt/cuda/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(HostMallocDefault, cudaHostAllocDefault));
static_assert(check::same(HostMallocPortable, cudaHostAllocPortable));
static_assert(check::same(HostMallocMapped, cudaHostAllocMapped));
static_assert(check::same(HostMallocWriteCombined, cudaHostAllocWriteCombined));
static_assert(check::same(HostRegisterDefault, cudaHostRegisterDefault));
static_assert(check::same(HostRegisterPortable, cudaHostRegisterPortable));
static_assert(check::same(HostRegisterMapped, cudaHostRegisterMapped));
static_assert(check::same(HostRegisterIoMemory, cudaHostRegisterIoMemory));
static_assert(check::same(HostRegisterReadOnly, cudaHostRegisterReadOnly));

inline Error_t Malloc(void** ptr, std::size_t nbytes) {
    if (ptr == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(cudaMalloc(ptr, nbytes));
}

inline Error_t Free(void* ptr) {
    if (ptr == nullptr) return Error_t::Success;
    return answer(cudaFree(ptr));
}

inline Error_t MallocPitch(void** ptr, std::size_t* pitch, std::size_t width, std::size_t height) {
    if (ptr == nullptr || pitch == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    *pitch = 0;
    if (width == 0 || height == 0) return Error_t::Success;
    return answer(cudaMallocPitch(ptr, pitch, width, height));
}

inline Error_t ExtMallocWithFlags(void** ptr, std::size_t nbytes, Coherence coherence) {
    if (ptr == nullptr || !check::device_coherence(coherence)) return Error_t::InvalidValue;
    if (coherence == Coherence::Default) return Malloc(ptr, nbytes);
    *ptr = nullptr;
    return Error_t::NotSupported;
}

inline Error_t HostMalloc(void** ptr, std::size_t nbytes, unsigned flags, Coherence coherence) {
    if (ptr == nullptr || !check::host_malloc(flags, coherence)) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(cudaHostAlloc(ptr, nbytes, flags));
}

inline Error_t HostFree(void* ptr) {
    if (ptr == nullptr) return Error_t::Success;
    return answer(cudaFreeHost(ptr));
}

inline Error_t HostRegister(void* ptr, std::size_t nbytes, unsigned flags) {
    if (!check::host_register(ptr, nbytes, flags)) return Error_t::InvalidValue;
    return answer(cudaHostRegister(ptr, nbytes, flags));
}

inline Error_t HostUnregister(void* ptr) { return answer(cudaHostUnregister(ptr)); }

inline Error_t HostGetDevicePointer(void** device_ptr, void* host_ptr) {
    return answer(cudaHostGetDevicePointer(device_ptr, host_ptr, 0));
}

inline Error_t HostGetFlags(unsigned* flags, void* host_ptr) { return answer(cudaHostGetFlags(flags, host_ptr)); }

PORTAMEM_RT_CLOSE
