// SPDX-License-Identifier: MIT
// portamem/rt/hip/error.hpp: versions, error codes and the last-error slot. Contracts: rt/api/error.hpp.
#pragma once

#include "portamem/rt/error_names.hpp"
#include "portamem/rt/hip/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(Error_t::Success, hipSuccess));
static_assert(check::same(Error_t::InvalidValue, hipErrorInvalidValue));
static_assert(check::same(Error_t::OutOfMemory, hipErrorOutOfMemory));
static_assert(check::same(Error_t::InitializationError, hipErrorNotInitialized));
static_assert(check::same(Error_t::Deinitialized, hipErrorDeinitialized));
static_assert(check::same(Error_t::InvalidDevicePointer, hipErrorInvalidDevicePointer));
static_assert(check::same(Error_t::InvalidMemcpyDirection, hipErrorInvalidMemcpyDirection));
static_assert(check::same(Error_t::InsufficientDriver, hipErrorInsufficientDriver));
static_assert(check::same(Error_t::NoDevice, hipErrorNoDevice));
static_assert(check::same(Error_t::InvalidDevice, hipErrorInvalidDevice));
static_assert(check::same(Error_t::InvalidContext, hipErrorInvalidContext));
static_assert(check::same(Error_t::UnsupportedLimit, hipErrorUnsupportedLimit));
static_assert(check::same(Error_t::PeerAccessUnsupported, hipErrorPeerAccessUnsupported));
static_assert(check::same(Error_t::InvalidHandle, hipErrorInvalidHandle));
static_assert(check::same(Error_t::NotFound, hipErrorNotFound));
static_assert(check::same(Error_t::NotReady, hipErrorNotReady));
static_assert(check::same(Error_t::IllegalAddress, hipErrorIllegalAddress));
static_assert(check::same(Error_t::PeerAccessAlreadyEnabled, hipErrorPeerAccessAlreadyEnabled));
static_assert(check::same(Error_t::PeerAccessNotEnabled, hipErrorPeerAccessNotEnabled));
static_assert(check::same(Error_t::HostMemoryAlreadyRegistered, hipErrorHostMemoryAlreadyRegistered));
static_assert(check::same(Error_t::HostMemoryNotRegistered, hipErrorHostMemoryNotRegistered));
static_assert(check::same(Error_t::LaunchFailure, hipErrorLaunchFailure));
static_assert(check::same(Error_t::NotSupported, hipErrorNotSupported));
static_assert(check::same(Error_t::StreamCaptureUnsupported, hipErrorStreamCaptureUnsupported));
static_assert(check::same(Error_t::StreamCaptureInvalidated, hipErrorStreamCaptureInvalidated));
static_assert(check::same(Error_t::StreamCaptureMerge, hipErrorStreamCaptureMerge));
static_assert(check::same(Error_t::StreamCaptureUnmatched, hipErrorStreamCaptureUnmatched));
static_assert(check::same(Error_t::StreamCaptureUnjoined, hipErrorStreamCaptureUnjoined));
static_assert(check::same(Error_t::StreamCaptureIsolation, hipErrorStreamCaptureIsolation));
static_assert(check::same(Error_t::StreamCaptureImplicit, hipErrorStreamCaptureImplicit));
static_assert(check::same(Error_t::CapturedEvent, hipErrorCapturedEvent));
static_assert(check::same(Error_t::StreamCaptureWrongThread, hipErrorStreamCaptureWrongThread));
static_assert(check::same(Error_t::Unknown, hipErrorUnknown));

inline Error_t RuntimeGetVersion(int* version) { return answer(hipRuntimeGetVersion(version)); }

inline Error_t DriverGetVersion(int* version) { return answer(hipDriverGetVersion(version)); }

constexpr int CompiledVersion() { return HIP_VERSION; }

inline std::string VersionText(int version) {
#if defined(__HIP_PLATFORM_NVIDIA__)
    // The runtime and the driver there are CUDA's, and so are their numbers.
    if (version < 10000000) return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
#endif
    return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100) + "." +
           std::to_string(version % 100000);
}

inline const char* GetErrorName(Error_t error) { return error_name_or_number(error); }

inline const char* GetErrorString(Error_t error) { return hipGetErrorString(static_cast<hipError_t>(error)); }

inline Error_t GetLastError() { return static_cast<Error_t>(hipGetLastError()); }

inline Error_t PeekAtLastError() { return static_cast<Error_t>(hipPeekAtLastError()); }

PORTAMEM_RT_CLOSE
