// SPDX-License-Identifier: MIT
// portamem/rt/api/checker.hpp: contracts of what is told to the vendor's memory checker.
//
// A checker sees what the runtime allocates. Of memory that is handed out in pieces it is told here: the whole is a
// heap, of which nothing may be touched but its regions. CUDA's is compute-sanitizer, told through NVTX; AMD's and the
// CPU's have none of the kind. HasMemChecker, a constant of each backend, says whether there is anything in this build
// to tell one with.
//
// The device whose memory it is must be current, for all of them. Where no checker listens there is no heap to begin
// with, and the others are not called. Where HasMemChecker is false all answer NotSupported. None of them waits for the
// device, or is ordered with a stream: work that runs meanwhile may be judged by either state.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

using MemHeap_t = void*;

/// Whether a tool that may be a checker has announced itself to this process. Asks the environment and not the runtime:
/// a tool may announce itself only when the runtime is first used, so ask after that. Whether it listens, the first
/// MemHeapRegister says.
inline bool MemCheckerAnnounced();

/// The allocation at `ptr`, whole, is a heap without regions. The runtime must have been used before. Errors:
/// InvalidValue for null and for no bytes; NotSupported where no checker listens, or not to this: `heap` is null then.
inline Error_t MemHeapRegister(MemHeap_t* heap, const void* ptr, std::size_t nbytes);

/// To be called before the memory is freed: to the checker no access is allowed until then. Errors: InvalidValue for a
/// null heap, here and below.
inline Error_t MemHeapUnregister(MemHeap_t heap);

/// One region of a heap, which touches no other of them: these bytes may be read and written.
inline Error_t MemRegionsRegister(MemHeap_t heap, const void* ptr, std::size_t nbytes);

/// Moves the end of the region that begins at `ptr`.
inline Error_t MemRegionsResize(const void* ptr, std::size_t nbytes);

/// The bytes of the region that begins at `ptr` may no longer be touched.
inline Error_t MemRegionsUnregister(const void* ptr);

PORTAMEM_RT_CLOSE
