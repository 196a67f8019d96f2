// SPDX-License-Identifier: MIT
// portamem/rt/hip/checker.hpp: what a memory checker is told. Contracts: rt/api/checker.hpp.
//
// AMD's checker, AddressSanitizer for device code, has no interface for memory in pieces.
#pragma once

#include "portamem/rt/hip/types.hpp"

#if defined(__HIP_PLATFORM_NVIDIA__)
#include "portamem/rt/cuda/checker.hpp"
#else

PORTAMEM_RT_OPEN

inline constexpr bool HasMemChecker = false;

inline bool MemCheckerAnnounced() { return false; }

inline Error_t MemHeapRegister(MemHeap_t* heap, const void* ptr, std::size_t nbytes) {
    if (heap == nullptr) return Error_t::InvalidValue;
    *heap = nullptr;
    return ptr == nullptr || nbytes == 0 ? Error_t::InvalidValue : Error_t::NotSupported;
}

inline Error_t MemHeapUnregister(MemHeap_t heap) {
    return heap == nullptr ? Error_t::InvalidValue : Error_t::NotSupported;
}

inline Error_t MemRegionsRegister(MemHeap_t heap, const void* ptr, std::size_t nbytes) {
    return heap == nullptr || ptr == nullptr || nbytes == 0 ? Error_t::InvalidValue : Error_t::NotSupported;
}

inline Error_t MemRegionsResize(const void* ptr, std::size_t nbytes) {
    return ptr == nullptr || nbytes == 0 ? Error_t::InvalidValue : Error_t::NotSupported;
}

inline Error_t MemRegionsUnregister(const void* ptr) {
    return ptr == nullptr ? Error_t::InvalidValue : Error_t::NotSupported;
}

PORTAMEM_RT_CLOSE

#endif
