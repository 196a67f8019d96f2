// SPDX-License-Identifier: MIT
// portamem/rt/cuda/types.hpp: the vendor's headers, handles, and how its answers become portamem's.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "portamem/backend.hpp"
#include "portamem/c_api.h"
#include "portamem/rt/check.hpp"
#include "portamem/rt/enums.hpp"

#if CUDART_VERSION < 12000
#error "portamem: CUDA 12.0 or later is needed"
#endif

PORTAMEM_RT_OPEN

using Stream_t = cudaStream_t;
using Event_t = cudaEvent_t;
using MemPool_t = cudaMemPool_t;
using Graph_t = cudaGraph_t;
using MemGenericAllocationHandle_t = CUmemGenericAllocationHandle;

inline constexpr const char* BackendName = "cuda";
inline constexpr portamem_backend BackendId = PORTAMEM_BACKEND_CUDA;

/// Whether device memory goes to array libraries through __cuda_array_interface__ (on HIP by convention).
inline constexpr bool HasDeviceArrayInterface = true;
/// Whether Free and HostFree may wait for work that has nothing to do with the memory; HostUnregister always may.
inline constexpr bool FreeMayWait = true;
/// Whether FreeAsync takes memory of Malloc, and waits for its stream alone. Measured (H100, CUDA 13.0): it takes 48 us
/// a pair where Free takes 73.
inline constexpr bool FreeAsyncTakesPlain = true;

/// Most bytes of pageable memory that a copy reads without waiting for what its stream holds.
inline constexpr std::size_t StagedAtOnce = std::size_t{64} << 10;
/// Whether the runtime carries large copies of pageable memory at a fraction of the bus's rate.
inline constexpr bool StagesSlowly = true;

/// What DLPack calls this backend's memory and streams.
inline constexpr DlpackDeviceTypes DlpackTypes{2, 3, 13};
inline constexpr DlpackStreamNumbers DlpackStreams{1, 2};

/// A vendor's answer as portamem's: the same number. A failure is taken out of the last-error slot, where a later
/// check of unrelated code would find it; NotReady is never put there.
inline Error_t answer(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) (void)cudaGetLastError();
    return static_cast<Error_t>(error);
}

PORTAMEM_RT_CLOSE

#include "portamem/rt/cuda/driver.hpp"

PORTAMEM_RT_OPEN

/// What PushDevice leaves for PopDevice.
using DeviceState_t = driver::DeviceState;

PORTAMEM_RT_CLOSE
