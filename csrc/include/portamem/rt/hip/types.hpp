// SPDX-License-Identifier: MIT
// portamem/rt/hip/types.hpp: the vendor's headers, handles, and how its answers become portamem's.
//
// HIP exists on two platforms: on AMD's it is the runtime itself, on NVIDIA's a header over CUDA.
#pragma once

#if defined(__HIP_PLATFORM_NVIDIA__)
#include <cuda.h>
#include <cuda_runtime_api.h>

// HIP before 6 names three calls that CUDA 12 removed, in inline functions that portamem does not call.
struct textureReference;
cudaError_t cudaBindTexture(std::size_t*, const textureReference*, const void*, const cudaChannelFormatDesc*,
                            std::size_t);
cudaError_t cudaBindTexture2D(std::size_t*, const textureReference*, const void*, const cudaChannelFormatDesc*,
                              std::size_t, std::size_t, std::size_t);
cudaError_t cudaGetTextureAlignmentOffset(std::size_t*, const textureReference*);
#endif

#include <hip/hip_runtime_api.h>

#include "portamem/backend.hpp"
#include "portamem/c_api.h"
#include "portamem/rt/check.hpp"
#include "portamem/rt/enums.hpp"

#if HIP_VERSION < 50200000
#error "portamem: HIP 5.2 or later is needed"
#endif

PORTAMEM_RT_OPEN

using Stream_t = hipStream_t;
using Event_t = hipEvent_t;
using MemPool_t = hipMemPool_t;
using Graph_t = hipGraph_t;
#if defined(__HIP_PLATFORM_NVIDIA__)
using MemGenericAllocationHandle_t = CUmemGenericAllocationHandle;  // HIP's header names it in later versions only
#else
using MemGenericAllocationHandle_t = hipMemGenericAllocationHandle_t;
#endif

inline constexpr const char* BackendName = "hip";
inline constexpr portamem_backend BackendId = PORTAMEM_BACKEND_HIP;

/// Whether device memory goes to array libraries through __cuda_array_interface__ (on HIP by convention).
inline constexpr bool HasDeviceArrayInterface = true;
/// Whether Free and HostFree may wait for work that has nothing to do with the memory; HostUnregister always may.
inline constexpr bool FreeMayWait = true;
/// Whether FreeAsync takes memory of Malloc, and waits for its stream alone: AMD does not promise it.
#if defined(__HIP_PLATFORM_NVIDIA__)
inline constexpr bool FreeAsyncTakesPlain = true;
#else
inline constexpr bool FreeAsyncTakesPlain = false;
#endif

/// Most bytes of pageable memory that a copy reads without waiting for what its stream holds. HIP promises none on AMD:
/// such a copy may block its caller (hip_runtime_api.h, hipMemcpyAsync).
#if defined(__HIP_PLATFORM_NVIDIA__)
inline constexpr std::size_t StagedAtOnce = std::size_t{64} << 10;
#else
inline constexpr std::size_t StagedAtOnce = 0;
#endif
/// Whether the runtime carries large copies of pageable memory at a fraction of the bus's rate.
inline constexpr bool StagesSlowly = true;

/// What DLPack calls this backend's memory and streams.
#if defined(__HIP_PLATFORM_NVIDIA__)
inline constexpr DlpackDeviceTypes DlpackTypes{2, 3, 13};
inline constexpr DlpackStreamNumbers DlpackStreams{1, 2};
#else
inline constexpr DlpackDeviceTypes DlpackTypes{10, 11, 10};  // managed memory has no type of its own
inline constexpr DlpackStreamNumbers DlpackStreams{0, DlpackNoStream};
#endif

/// A vendor's answer as portamem's: the same number. A failure is taken out of the last-error slot, where a later
/// check of unrelated code would find it.
inline Error_t answer(hipError_t error) {
    if (error == hipSuccess) return Error_t::Success;
#if defined(__HIP_PLATFORM_NVIDIA__)
    if (error == hipErrorNotReady) return Error_t::NotReady;
    // HIP's header knows some of CUDA's codes and calls the others Unknown. The slot still has the true one.
    const cudaError_t native = cudaGetLastError();
    if (error == hipErrorUnknown && native != cudaSuccess) return static_cast<Error_t>(native);
#elif HIP_VERSION_MAJOR >= 7
    if (error != hipErrorNotReady) (void)hipGetLastError();
#else
    (void)hipGetLastError();  // NotReady is recorded as well
#endif
    return static_cast<Error_t>(error);
}

PORTAMEM_RT_CLOSE

#if defined(__HIP_PLATFORM_NVIDIA__)
#include "portamem/rt/hip/nvidia.hpp"
#endif

PORTAMEM_RT_OPEN

/// What PushDevice leaves for PopDevice.
#if defined(__HIP_PLATFORM_NVIDIA__)
using DeviceState_t = driver::DeviceState;
#else
struct DeviceState_t {
    bool switched = false;
    int device = InvalidDeviceId;
};
#endif

PORTAMEM_RT_CLOSE
