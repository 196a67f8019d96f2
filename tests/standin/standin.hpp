// SPDX-License-Identifier: MIT
// standin.hpp: what the files of the stand-in share: the vendor's header, the host runtime, and how its answers become
// the vendor's.
//
// The stand-in is a libamdhip64 for tests on machines without an AMD GPU. Signatures, structs and numbers are those of
// the HIP headers that it is compiled with; the work is done by portamem's host runtime. It is never shipped.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "portamem/host/runtime_api.h"
#include "quirks.hpp"

#if !defined(__HIP_PLATFORM_AMD__)
#error "the stand-in is compiled against HIP's headers for AMD's platform"
#endif

namespace standin {

/// Records an answer as this version does, and passes it on. Before 7.0 a success clears the thread's last error; from
/// 7.0 only failures are recorded, NotReady not among them (AMD's page "HIP 7.0 changes", error handling).
hipError_t answer(hipError_t error);

/// The host runtime's answer as the vendor's: the numbers are the same, except for the few that the vendor lacks.
hipError_t answer(pmhError_t error);

/// The same without recording.
hipError_t translate(pmhError_t error);

inline pmhStream_t native(hipStream_t stream) { return reinterpret_cast<pmhStream_t>(stream); }
inline pmhEvent_t native(hipEvent_t event) { return reinterpret_cast<pmhEvent_t>(event); }
inline pmhMemPool_t native(hipMemPool_t pool) { return reinterpret_cast<pmhMemPool_t>(pool); }
inline pmhGraph_t native(hipGraph_t graph) { return reinterpret_cast<pmhGraph_t>(graph); }

/// An out-parameter whose type is the vendor's name for a handle of the host runtime.
inline pmhStream_t* native(hipStream_t* stream) { return reinterpret_cast<pmhStream_t*>(stream); }
inline pmhEvent_t* native(hipEvent_t* event) { return reinterpret_cast<pmhEvent_t*>(event); }
inline pmhMemPool_t* native(hipMemPool_t* pool) { return reinterpret_cast<pmhMemPool_t*>(pool); }
inline pmhGraph_t* native(hipGraph_t* graph) { return reinterpret_cast<pmhGraph_t*>(graph); }

inline pmhMemLocation on_device(int device) { return {pmhMemLocationTypeDevice, device}; }

constexpr std::size_t round_up(std::size_t size, std::size_t granule) {
    return (size + granule - 1) / granule * granule;
}

}  // namespace standin
