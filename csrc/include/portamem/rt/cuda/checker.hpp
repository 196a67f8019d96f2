// SPDX-License-Identifier: MIT
// portamem/rt/cuda/checker.hpp: what compute-sanitizer is told. Contracts: rt/api/checker.hpp.
//
// HIP on the NVIDIA platform includes this file too: its programs run under the same checker.
#pragma once

#include "portamem/rt/cuda/nvtx.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

inline constexpr bool HasMemChecker = nvtx::Present;

inline bool MemCheckerAnnounced() { return HasMemChecker && nvtx::announced(); }

inline Error_t MemHeapRegister(MemHeap_t* heap, const void* ptr, std::size_t nbytes) {
    if (heap == nullptr) return Error_t::InvalidValue;
    *heap = nullptr;
    if (ptr == nullptr || nbytes == 0) return Error_t::InvalidValue;
    *heap = nvtx::heap_register(ptr, nbytes);
    return *heap == nullptr ? Error_t::NotSupported : Error_t::Success;
}

inline Error_t MemHeapUnregister(MemHeap_t heap) {
    if (heap == nullptr) return Error_t::InvalidValue;
    nvtx::heap_unregister(heap);
    return HasMemChecker ? Error_t::Success : Error_t::NotSupported;
}

// A null heap is the whole address space to NVTX.
inline Error_t MemRegionsRegister(MemHeap_t heap, const void* ptr, std::size_t nbytes) {
    if (heap == nullptr || ptr == nullptr || nbytes == 0) return Error_t::InvalidValue;
    nvtx::region_register(heap, ptr, nbytes);
    return HasMemChecker ? Error_t::Success : Error_t::NotSupported;
}

inline Error_t MemRegionsResize(const void* ptr, std::size_t nbytes) {
    if (ptr == nullptr || nbytes == 0) return Error_t::InvalidValue;
    nvtx::region_resize(ptr, nbytes);
    return HasMemChecker ? Error_t::Success : Error_t::NotSupported;
}

inline Error_t MemRegionsUnregister(const void* ptr) {
    if (ptr == nullptr) return Error_t::InvalidValue;
    nvtx::region_unregister(ptr);
    return HasMemChecker ? Error_t::Success : Error_t::NotSupported;
}

PORTAMEM_RT_CLOSE
