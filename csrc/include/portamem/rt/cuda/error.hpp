// SPDX-License-Identifier: MIT
// portamem/rt/cuda/error.hpp: versions, error codes and the last-error slot. Contracts: rt/api/error.hpp.
#pragma once

#include "portamem/rt/cuda/types.hpp"
#include "portamem/rt/error_names.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(Error_t::Success, cudaSuccess));
static_assert(check::same(Error_t::InvalidValue, cudaErrorInvalidValue));
static_assert(check::same(Error_t::OutOfMemory, cudaErrorMemoryAllocation));
static_assert(check::same(Error_t::InitializationError, cudaErrorInitializationError));
static_assert(check::same(Error_t::Deinitialized, cudaErrorCudartUnloading));
static_assert(check::same(Error_t::InvalidDevicePointer, cudaErrorInvalidDevicePointer));
static_assert(check::same(Error_t::InvalidMemcpyDirection, cudaErrorInvalidMemcpyDirection));
static_assert(check::same(Error_t::InsufficientDriver, cudaErrorInsufficientDriver));
static_assert(check::same(Error_t::DevicesUnavailable, cudaErrorDevicesUnavailable));
static_assert(check::same(Error_t::NoDevice, cudaErrorNoDevice));
static_assert(check::same(Error_t::InvalidDevice, cudaErrorInvalidDevice));
static_assert(check::same(Error_t::InvalidContext, cudaErrorDeviceUninitialized));
static_assert(check::same(Error_t::UnsupportedLimit, cudaErrorUnsupportedLimit));
static_assert(check::same(Error_t::PeerAccessUnsupported, cudaErrorPeerAccessUnsupported));
static_assert(check::same(Error_t::InvalidHandle, cudaErrorInvalidResourceHandle));
static_assert(check::same(Error_t::NotFound, cudaErrorSymbolNotFound));
static_assert(check::same(Error_t::NotReady, cudaErrorNotReady));
static_assert(check::same(Error_t::IllegalAddress, cudaErrorIllegalAddress));
static_assert(check::same(Error_t::PeerAccessAlreadyEnabled, cudaErrorPeerAccessAlreadyEnabled));
static_assert(check::same(Error_t::PeerAccessNotEnabled, cudaErrorPeerAccessNotEnabled));
static_assert(check::same(Error_t::HostMemoryAlreadyRegistered, cudaErrorHostMemoryAlreadyRegistered));
static_assert(check::same(Error_t::HostMemoryNotRegistered, cudaErrorHostMemoryNotRegistered));
static_assert(check::same(Error_t::LaunchFailure, cudaErrorLaunchFailure));
static_assert(check::same(Error_t::NotPermitted, cudaErrorNotPermitted));
static_assert(check::same(Error_t::NotSupported, cudaErrorNotSupported));
static_assert(check::same(Error_t::StreamCaptureUnsupported, cudaErrorStreamCaptureUnsupported));
static_assert(check::same(Error_t::StreamCaptureInvalidated, cudaErrorStreamCaptureInvalidated));
static_assert(check::same(Error_t::StreamCaptureMerge, cudaErrorStreamCaptureMerge));
static_assert(check::same(Error_t::StreamCaptureUnmatched, cudaErrorStreamCaptureUnmatched));
static_assert(check::same(Error_t::StreamCaptureUnjoined, cudaErrorStreamCaptureUnjoined));
static_assert(check::same(Error_t::StreamCaptureIsolation, cudaErrorStreamCaptureIsolation));
static_assert(check::same(Error_t::StreamCaptureImplicit, cudaErrorStreamCaptureImplicit));
static_assert(check::same(Error_t::CapturedEvent, cudaErrorCapturedEvent));
static_assert(check::same(Error_t::StreamCaptureWrongThread, cudaErrorStreamCaptureWrongThread));
static_assert(check::same(Error_t::Unknown, cudaErrorUnknown));

inline Error_t RuntimeGetVersion(int* version) { return answer(cudaRuntimeGetVersion(version)); }

inline Error_t DriverGetVersion(int* version) { return answer(cudaDriverGetVersion(version)); }

constexpr int CompiledVersion() { return CUDART_VERSION; }

inline std::string VersionText(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

inline const char* GetErrorName(Error_t error) { return error_name_or_number(error); }

inline const char* GetErrorString(Error_t error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

inline Error_t GetLastError() { return static_cast<Error_t>(cudaGetLastError()); }

inline Error_t PeekAtLastError() { return static_cast<Error_t>(cudaPeekAtLastError()); }

PORTAMEM_RT_CLOSE
