// SPDX-License-Identifier: MIT
// portamem/rt/host/memory.hpp: device, pinned and registered memory. Contracts: rt/api/memory.hpp.
#pragma once

#include "portamem/rt/host/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(HostMallocDefault, pmhHostMallocDefault));
static_assert(check::same(HostMallocPortable, pmhHostMallocPortable));
static_assert(check::same(HostMallocMapped, pmhHostMallocMapped));
static_assert(check::same(HostMallocWriteCombined, pmhHostMallocWriteCombined));
static_assert(check::same(HostRegisterDefault, pmhHostRegisterDefault));
static_assert(check::same(HostRegisterPortable, pmhHostRegisterPortable));
static_assert(check::same(HostRegisterMapped, pmhHostRegisterMapped));
static_assert(check::same(HostRegisterIoMemory, pmhHostRegisterIoMemory));
static_assert(check::same(HostRegisterReadOnly, pmhHostRegisterReadOnly));

inline Error_t Malloc(void** ptr, std::size_t nbytes) {
    if (ptr == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhMalloc(ptr, nbytes));
}

inline Error_t Free(void* ptr) {
    if (ptr == nullptr) return Error_t::Success;
    return answer(pmhFree(ptr));
}

inline Error_t MallocPitch(void** ptr, std::size_t* pitch, std::size_t width, std::size_t height) {
    if (ptr == nullptr || pitch == nullptr) return Error_t::InvalidValue;
    *ptr = nullptr;
    *pitch = 0;
    if (width == 0 || height == 0) return Error_t::Success;
    return answer(pmhMallocPitch(ptr, pitch, width, height));
}

inline Error_t ExtMallocWithFlags(void** ptr, std::size_t nbytes, Coherence coherence) {
    if (ptr == nullptr || !check::device_coherence(coherence)) return Error_t::InvalidValue;
    if (coherence == Coherence::Default) return Malloc(ptr, nbytes);
    *ptr = nullptr;
    if (coherence == Coherence::Uncached) return Error_t::NotSupported;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhExtMallocWithFlags(ptr, nbytes, pmhDeviceMallocFinegrained));
}

inline Error_t HostMalloc(void** ptr, std::size_t nbytes, unsigned flags, Coherence coherence) {
    if (ptr == nullptr || !check::host_malloc(flags, coherence)) return Error_t::InvalidValue;
    *ptr = nullptr;
    if (nbytes == 0) return Error_t::Success;
    return answer(pmhHostMalloc(ptr, nbytes, flags));
}

inline Error_t HostFree(void* ptr) {
    if (ptr == nullptr) return Error_t::Success;
    return answer(pmhHostFree(ptr));
}

inline Error_t HostRegister(void* ptr, std::size_t nbytes, unsigned flags) {
    if (!check::host_register(ptr, nbytes, flags)) return Error_t::InvalidValue;
    return answer(pmhHostRegister(ptr, nbytes, flags));
}

inline Error_t HostUnregister(void* ptr) { return answer(pmhHostUnregister(ptr)); }

inline Error_t HostGetDevicePointer(void** device_ptr, void* host_ptr) {
    return answer(pmhHostGetDevicePointer(device_ptr, host_ptr, 0));
}

inline Error_t HostGetFlags(unsigned* flags, void* host_ptr) { return answer(pmhHostGetFlags(flags, host_ptr)); }

PORTAMEM_RT_CLOSE
