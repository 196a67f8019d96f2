// SPDX-License-Identifier: MIT
// portamem/rt/api/memory.hpp: contracts of device, pinned and registered memory.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// Device memory on the current device, at least 256-byte aligned. Not a stream operation: it is there on return.
/// 0 bytes: Success and null. Errors: OutOfMemory; StreamCaptureUnsupported under a global capture.
inline Error_t Malloc(void** ptr, std::size_t nbytes);

/// Frees memory of Malloc, MallocPitch, ExtMallocWithFlags or MallocManaged, and of a pool; null is fine. It may wait
/// for the device, but no caller may rely on that: for memory of a pool, HIP 7 does not wait, and CUDA never did.
/// Errors: InvalidValue for a pointer that is unknown, interior, or freed already.
inline Error_t Free(void* ptr);

/// Device memory for `height` rows of `width` bytes, each row aligned; *pitch is the bytes from row to row. Width or
/// height 0: Success, null, pitch 0.
inline Error_t MallocPitch(void** ptr, std::size_t* pitch, std::size_t width, std::size_t height);

/// Malloc with a choice of coherence. Default is Malloc. HIP: FineGrained, Uncached (headers 5.7 and later).
/// CUDA: anything but Default is NotSupported. Pinned-only values are InvalidValue. Host: Default and FineGrained.
inline Error_t ExtMallocWithFlags(void** ptr, std::size_t nbytes, Coherence coherence);

/// Page-locked host memory, at least 256-byte aligned (CUDA puts several small pieces into a page). Coherent unless
/// NonCoherent is asked for: on HIP, where Portable or WriteCombined alone would make it non-coherent, the coherent
/// flag is added. NonCoherent is accepted on CUDA and host and has no effect there. Flags outside HostMallocFlags:
/// InvalidValue. 0 bytes: Success and null.
inline Error_t HostMalloc(void** ptr, std::size_t nbytes, unsigned flags, Coherence coherence);

/// Frees memory of HostMalloc; null is fine. Errors: InvalidValue for anything else. HIP also takes memory of Malloc.
inline Error_t HostFree(void* ptr);

/// Page-locks memory that the caller owns. Errors: InvalidValue for null, 0 bytes or unknown flags;
/// HostMemoryAlreadyRegistered where it overlaps a registered range (HIP notices one that holds its first or last
/// byte); NotSupported for ReadOnly on HIP, where that number means something else.
inline Error_t HostRegister(void* ptr, std::size_t nbytes, unsigned flags);

/// Undoes HostRegister; `ptr` is the address that was registered. It may wait for work that has nothing to do with the
/// memory: HIP waits for the device, host for all devices. Errors: HostMemoryNotRegistered.
inline Error_t HostUnregister(void* ptr);

/// The address by which the current device reaches pinned or registered memory; it may differ from the host's.
/// Errors: InvalidValue for memory that is neither.
inline Error_t HostGetDevicePointer(void** device_ptr, void* host_ptr);

/// The HostMallocFlags of memory of HostMalloc. Every runtime adds Mapped, and HIP Portable too.
/// Errors: InvalidValue for anything else.
inline Error_t HostGetFlags(unsigned* flags, void* host_ptr);

PORTAMEM_RT_CLOSE
