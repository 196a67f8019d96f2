// SPDX-License-Identifier: MIT
// portamem/rt/host/checker.hpp: what a memory checker is told: nothing. Contracts: rt/api/checker.hpp.
//
// The CPU's checkers see the host's uses of memory, and are told of pools above this (portamem/abi/pool_annotator.h).
#pragma once

#include "portamem/rt/host/types.hpp"

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
