// SPDX-License-Identifier: MIT
// portamem/rt/host/types.hpp: the host runtime's header, handles, and how its answers become portamem's.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/c_api.h"
#include "portamem/host/runtime_api.h"
#include "portamem/rt/check.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

using Stream_t = pmhStream_t;
using Event_t = pmhEvent_t;
using MemPool_t = pmhMemPool_t;
using Graph_t = pmhGraph_t;
using MemGenericAllocationHandle_t = pmhMemGenericAllocationHandle_t;

inline constexpr const char* BackendName = "host";
inline constexpr portamem_backend BackendId = PORTAMEM_BACKEND_HOST;

/// Whether device memory goes to array libraries through __cuda_array_interface__ (on HIP by convention).
inline constexpr bool HasDeviceArrayInterface = false;
/// Whether Free and HostFree may wait for work that has nothing to do with the memory; HostUnregister always may.
inline constexpr bool FreeMayWait = false;
/// Whether FreeAsync takes memory of Malloc, and waits for its stream alone.
inline constexpr bool FreeAsyncTakesPlain = false;

/// Most bytes of pageable memory that a copy reads without waiting for what its stream holds.
inline constexpr std::size_t StagedAtOnce = 0;
/// Whether the runtime carries large copies of pageable memory at a fraction of the bus's rate.
inline constexpr bool StagesSlowly = false;

/// What DLPack calls this backend's memory and streams.
inline constexpr DlpackDeviceTypes DlpackTypes{};
inline constexpr DlpackStreamNumbers DlpackStreams{};

/// The runtime's answer as portamem's: the same number. A failure is taken out of the last-error slot, where a later
/// check of unrelated code would find it; NotReady is never put there.
inline Error_t answer(pmhError_t error) {
    if (error != pmhSuccess && error != pmhErrorNotReady) (void)pmhGetLastError();
    return static_cast<Error_t>(error);
}

/// What PushDevice leaves for PopDevice.
struct DeviceState_t {
    bool switched = false;
    int device = InvalidDeviceId;
};

static_assert(check::same(LocationType::Device, pmhMemLocationTypeDevice));
static_assert(check::same(LocationType::Host, pmhMemLocationTypeHost));
static_assert(check::same(LocationType::HostNuma, pmhMemLocationTypeHostNuma));
static_assert(check::same(LocationType::HostNumaCurrent, pmhMemLocationTypeHostNumaCurrent));

inline pmhMemLocation native_location(Location location) { return {static_cast<int>(location.type), location.id}; }

PORTAMEM_RT_CLOSE
