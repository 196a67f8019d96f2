// SPDX-License-Identifier: MIT
// portamem/rt/api/checker.hpp: contracts of what is told to the vendor's memory checker.
//
// A checker sees by itself what the runtime allocates. A caller that hands such memory out in pieces tells it more with
// these functions: the whole allocation is a heap, and work may touch no bytes of a heap but those of its regions.
// CUDA's checker is compute-sanitizer, told through NVTX; AMD's and the CPU's checkers cannot be told. HasMemChecker, a
// constant of each backend, says whether this build can tell one.
//
// For every call the caller makes the memory's device current. Where no checker listens, MemHeapRegister gives no heap,
// and the caller makes none of the other calls. Where HasMemChecker is false, all answer NotSupported. No call waits
// for the device, or is ordered with a stream: the checker may judge work that runs meanwhile by the state before the
// call or after it.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

using MemHeap_t = void*;

/// Whether a tool that may be a checker has announced itself to this process. The call reads the environment, and a
/// tool may write there only when the runtime is first used: so the caller asks after that. The first MemHeapRegister
/// tells whether the tool listens.
inline bool MemCheckerAnnounced();

/// Makes the whole allocation at `ptr` a heap without regions. The caller has used the runtime before. Errors:
/// InvalidValue for null and for 0 bytes; NotSupported where no checker listens, or it takes no such heap. *heap is
/// null after an error.
inline Error_t MemHeapRegister(MemHeap_t* heap, const void* ptr, std::size_t nbytes);

/// Ends a heap that has no regions any more. The caller does this before it frees the memory; in between, the checker
/// allows no access to it. Errors: InvalidValue for a null heap.
inline Error_t MemHeapUnregister(MemHeap_t heap);

/// Begins a region of a heap: work may read and write these bytes. The region overlaps no other region. Errors:
/// InvalidValue for null and for 0 bytes.
inline Error_t MemRegionsRegister(MemHeap_t heap, const void* ptr, std::size_t nbytes);

/// Moves the end of the region that begins at `ptr`: it has `nbytes` bytes from now on. Errors: InvalidValue for null
/// and for 0 bytes.
inline Error_t MemRegionsResize(const void* ptr, std::size_t nbytes);

/// Ends the region that begins at `ptr`: work may no longer touch its bytes. Errors: InvalidValue for null.
inline Error_t MemRegionsUnregister(const void* ptr);

PORTAMEM_RT_CLOSE
