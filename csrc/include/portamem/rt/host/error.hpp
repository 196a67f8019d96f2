// SPDX-License-Identifier: MIT
// portamem/rt/host/error.hpp: versions, error codes and the last-error slot. Contracts: rt/api/error.hpp.
#pragma once

#include "portamem/rt/error_names.hpp"
#include "portamem/rt/host/types.hpp"
#include "portamem/version.h"

PORTAMEM_RT_OPEN

static_assert(check::same(Error_t::Success, pmhSuccess));
static_assert(check::same(Error_t::InvalidValue, pmhErrorInvalidValue));
static_assert(check::same(Error_t::OutOfMemory, pmhErrorOutOfMemory));
static_assert(check::same(Error_t::InitializationError, pmhErrorInitializationError));
static_assert(check::same(Error_t::InvalidMemcpyDirection, pmhErrorInvalidMemcpyDirection));
static_assert(check::same(Error_t::NoDevice, pmhErrorNoDevice));
static_assert(check::same(Error_t::InvalidDevice, pmhErrorInvalidDevice));
static_assert(check::same(Error_t::UnsupportedLimit, pmhErrorUnsupportedLimit));
static_assert(check::same(Error_t::PeerAccessUnsupported, pmhErrorPeerAccessUnsupported));
static_assert(check::same(Error_t::InvalidHandle, pmhErrorInvalidHandle));
static_assert(check::same(Error_t::NotReady, pmhErrorNotReady));
static_assert(check::same(Error_t::PeerAccessAlreadyEnabled, pmhErrorPeerAccessAlreadyEnabled));
static_assert(check::same(Error_t::PeerAccessNotEnabled, pmhErrorPeerAccessNotEnabled));
static_assert(check::same(Error_t::HostMemoryAlreadyRegistered, pmhErrorHostMemoryAlreadyRegistered));
static_assert(check::same(Error_t::HostMemoryNotRegistered, pmhErrorHostMemoryNotRegistered));
static_assert(check::same(Error_t::NotPermitted, pmhErrorNotPermitted));
static_assert(check::same(Error_t::NotSupported, pmhErrorNotSupported));
static_assert(check::same(Error_t::StreamCaptureUnsupported, pmhErrorStreamCaptureUnsupported));
static_assert(check::same(Error_t::StreamCaptureInvalidated, pmhErrorStreamCaptureInvalidated));
static_assert(check::same(Error_t::StreamCaptureMerge, pmhErrorStreamCaptureMerge));
static_assert(check::same(Error_t::StreamCaptureUnmatched, pmhErrorStreamCaptureUnmatched));
static_assert(check::same(Error_t::StreamCaptureUnjoined, pmhErrorStreamCaptureUnjoined));
static_assert(check::same(Error_t::StreamCaptureIsolation, pmhErrorStreamCaptureIsolation));
static_assert(check::same(Error_t::StreamCaptureImplicit, pmhErrorStreamCaptureImplicit));
static_assert(check::same(Error_t::CapturedEvent, pmhErrorCapturedEvent));
static_assert(check::same(Error_t::StreamCaptureWrongThread, pmhErrorStreamCaptureWrongThread));
static_assert(check::same(Error_t::Unknown, pmhErrorUnknown));

inline Error_t RuntimeGetVersion(int* version) { return answer(pmhRuntimeGetVersion(version)); }

inline Error_t DriverGetVersion(int* version) { return answer(pmhRuntimeGetVersion(version)); }

constexpr int CompiledVersion() {
    return 1000 * PORTAMEM_VERSION_MAJOR + 10 * PORTAMEM_VERSION_MINOR + PORTAMEM_VERSION_PATCH;
}

inline std::string VersionText(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version / 10 % 100) + "." +
           std::to_string(version % 10);
}

inline const char* GetErrorName(Error_t error) { return error_name_or_number(error); }

inline const char* GetErrorString(Error_t error) { return pmhGetErrorDetail(static_cast<pmhError_t>(error)); }

inline Error_t GetLastError() { return static_cast<Error_t>(pmhGetLastError()); }

inline Error_t PeekAtLastError() { return static_cast<Error_t>(pmhPeekAtLastError()); }

PORTAMEM_RT_CLOSE
