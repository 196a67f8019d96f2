// SPDX-License-Identifier: MIT
// portamem/rt/error_names.hpp: portamem's own spelling of error codes, one table for every backend.
//
// The vendors' own names differ for one and the same code (HIP on the NVIDIA platform even prints CUDA's), so a script
// that compares names would have to know the backend.
#pragma once

#include <cstdio>

#include "portamem/rt/enums.hpp"

namespace portamem {
namespace rt {

/// The name of a code; null for a code that portamem does not name. The switch has no default, so that a new code
/// without a name is a warning.
constexpr const char* error_name(Error_t error) {
    switch (error) {
        case Error_t::Success:
            return "Success";
        case Error_t::InvalidValue:
            return "InvalidValue";
        case Error_t::OutOfMemory:
            return "OutOfMemory";
        case Error_t::InitializationError:
            return "InitializationError";
        case Error_t::Deinitialized:
            return "Deinitialized";
        case Error_t::InvalidDevicePointer:
            return "InvalidDevicePointer";
        case Error_t::InvalidMemcpyDirection:
            return "InvalidMemcpyDirection";
        case Error_t::InsufficientDriver:
            return "InsufficientDriver";
        case Error_t::DevicesUnavailable:
            return "DevicesUnavailable";
        case Error_t::NoDevice:
            return "NoDevice";
        case Error_t::InvalidDevice:
            return "InvalidDevice";
        case Error_t::InvalidContext:
            return "InvalidContext";
        case Error_t::UnsupportedLimit:
            return "UnsupportedLimit";
        case Error_t::PeerAccessUnsupported:
            return "PeerAccessUnsupported";
        case Error_t::InvalidHandle:
            return "InvalidHandle";
        case Error_t::NotFound:
            return "NotFound";
        case Error_t::NotReady:
            return "NotReady";
        case Error_t::IllegalAddress:
            return "IllegalAddress";
        case Error_t::PeerAccessAlreadyEnabled:
            return "PeerAccessAlreadyEnabled";
        case Error_t::PeerAccessNotEnabled:
            return "PeerAccessNotEnabled";
        case Error_t::HostMemoryAlreadyRegistered:
            return "HostMemoryAlreadyRegistered";
        case Error_t::HostMemoryNotRegistered:
            return "HostMemoryNotRegistered";
        case Error_t::LaunchFailure:
            return "LaunchFailure";
        case Error_t::NotPermitted:
            return "NotPermitted";
        case Error_t::NotSupported:
            return "NotSupported";
        case Error_t::StreamCaptureUnsupported:
            return "StreamCaptureUnsupported";
        case Error_t::StreamCaptureInvalidated:
            return "StreamCaptureInvalidated";
        case Error_t::StreamCaptureMerge:
            return "StreamCaptureMerge";
        case Error_t::StreamCaptureUnmatched:
            return "StreamCaptureUnmatched";
        case Error_t::StreamCaptureUnjoined:
            return "StreamCaptureUnjoined";
        case Error_t::StreamCaptureIsolation:
            return "StreamCaptureIsolation";
        case Error_t::StreamCaptureImplicit:
            return "StreamCaptureImplicit";
        case Error_t::CapturedEvent:
            return "CapturedEvent";
        case Error_t::StreamCaptureWrongThread:
            return "StreamCaptureWrongThread";
        case Error_t::Unknown:
            return "Unknown";
    }
    return nullptr;
}

/// The name, or "Error_<number>" in thread-local storage that the next call on this thread overwrites.
inline const char* error_name_or_number(Error_t error) {
    if (const char* name = error_name(error)) return name;
    thread_local char number[24];
    std::snprintf(number, sizeof number, "Error_%d", static_cast<int>(error));
    return number;
}

}  // namespace rt
}  // namespace portamem
