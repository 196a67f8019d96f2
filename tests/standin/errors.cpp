// SPDX-License-Identifier: MIT
// errors.cpp: versions, error codes and the last-error slot.
#include <cstring>
#include <string_view>
#include <utility>

#include "standin.hpp"

namespace standin {
namespace {

thread_local hipError_t last = hipSuccess;

struct Name {
    hipError_t error;
    const char* name;
};

#define STANDIN_NAME(error) \
    { error, #error }
constexpr Name names[] = {
    STANDIN_NAME(hipSuccess),
    STANDIN_NAME(hipErrorInvalidValue),
    STANDIN_NAME(hipErrorOutOfMemory),
    STANDIN_NAME(hipErrorNotInitialized),
    STANDIN_NAME(hipErrorInvalidMemcpyDirection),
    STANDIN_NAME(hipErrorNoDevice),
    STANDIN_NAME(hipErrorInvalidDevice),
    STANDIN_NAME(hipErrorUnsupportedLimit),
    STANDIN_NAME(hipErrorPeerAccessUnsupported),
    STANDIN_NAME(hipErrorInvalidHandle),
    STANDIN_NAME(hipErrorIllegalState),
    STANDIN_NAME(hipErrorNotFound),
    STANDIN_NAME(hipErrorNotReady),
    STANDIN_NAME(hipErrorPeerAccessAlreadyEnabled),
    STANDIN_NAME(hipErrorPeerAccessNotEnabled),
    STANDIN_NAME(hipErrorHostMemoryAlreadyRegistered),
    STANDIN_NAME(hipErrorHostMemoryNotRegistered),
    STANDIN_NAME(hipErrorNotSupported),
    STANDIN_NAME(hipErrorStreamCaptureUnsupported),
    STANDIN_NAME(hipErrorStreamCaptureInvalidated),
    STANDIN_NAME(hipErrorStreamCaptureMerge),
    STANDIN_NAME(hipErrorStreamCaptureUnmatched),
    STANDIN_NAME(hipErrorStreamCaptureUnjoined),
    STANDIN_NAME(hipErrorStreamCaptureIsolation),
    STANDIN_NAME(hipErrorStreamCaptureImplicit),
    STANDIN_NAME(hipErrorCapturedEvent),
    STANDIN_NAME(hipErrorStreamCaptureWrongThread),
    STANDIN_NAME(hipErrorInvalidContext),
    STANDIN_NAME(hipErrorInvalidDevicePointer),
    STANDIN_NAME(hipErrorDeinitialized),
    STANDIN_NAME(hipErrorProfilerDisabled),
    STANDIN_NAME(hipErrorProfilerNotInitialized),
    STANDIN_NAME(hipErrorProfilerAlreadyStarted),
    STANDIN_NAME(hipErrorProfilerAlreadyStopped),
    STANDIN_NAME(hipErrorInvalidConfiguration),
    STANDIN_NAME(hipErrorInvalidPitchValue),
    STANDIN_NAME(hipErrorInvalidSymbol),
    STANDIN_NAME(hipErrorInsufficientDriver),
    STANDIN_NAME(hipErrorMissingConfiguration),
    STANDIN_NAME(hipErrorPriorLaunchFailure),
    STANDIN_NAME(hipErrorInvalidDeviceFunction),
    STANDIN_NAME(hipErrorInvalidImage),
    STANDIN_NAME(hipErrorContextAlreadyCurrent),
    STANDIN_NAME(hipErrorMapFailed),
    STANDIN_NAME(hipErrorUnmapFailed),
    STANDIN_NAME(hipErrorArrayIsMapped),
    STANDIN_NAME(hipErrorAlreadyMapped),
    STANDIN_NAME(hipErrorNoBinaryForGpu),
    STANDIN_NAME(hipErrorAlreadyAcquired),
    STANDIN_NAME(hipErrorNotMapped),
    STANDIN_NAME(hipErrorNotMappedAsArray),
    STANDIN_NAME(hipErrorNotMappedAsPointer),
    STANDIN_NAME(hipErrorECCNotCorrectable),
    STANDIN_NAME(hipErrorContextAlreadyInUse),
    STANDIN_NAME(hipErrorInvalidKernelFile),
    STANDIN_NAME(hipErrorInvalidGraphicsContext),
    STANDIN_NAME(hipErrorInvalidSource),
    STANDIN_NAME(hipErrorFileNotFound),
    STANDIN_NAME(hipErrorSharedObjectSymbolNotFound),
    STANDIN_NAME(hipErrorSharedObjectInitFailed),
    STANDIN_NAME(hipErrorOperatingSystem),
    STANDIN_NAME(hipErrorIllegalAddress),
    STANDIN_NAME(hipErrorLaunchOutOfResources),
    STANDIN_NAME(hipErrorLaunchTimeOut),
    STANDIN_NAME(hipErrorSetOnActiveProcess),
    STANDIN_NAME(hipErrorContextIsDestroyed),
    STANDIN_NAME(hipErrorAssert),
    STANDIN_NAME(hipErrorLaunchFailure),
    STANDIN_NAME(hipErrorCooperativeLaunchTooLarge),
    STANDIN_NAME(hipErrorGraphExecUpdateFailure),
    STANDIN_NAME(hipErrorRuntimeMemory),
    STANDIN_NAME(hipErrorRuntimeOther),
    STANDIN_NAME(hipErrorUnknown),
};
#undef STANDIN_NAME

// True where the latest call was given a stream or event that is gone, or never was. The runtime has other words for
// other handles that do not fit, and null is no handle.
bool was_of_no_object() {
    const std::string_view detail = pmhGetErrorDetail(pmhErrorInvalidHandle);
    return detail.rfind("there is no ", 0) == 0 && detail.find("(nil)") == std::string_view::npos;
}

}  // namespace

hipError_t translate(pmhError_t error) {
    if (error == pmhErrorInvalidHandle && was_of_no_object()) return hipErrorContextIsDestroyed;
    if (error == pmhErrorNotPermitted)
        return hipErrorUnknown;  // a call in a host function: the vendor has no such code
    // Only the count of devices says NoDevice before 7.0; Debian's library was asked.
    if (error == pmhErrorNoDevice && HIP_VERSION_MAJOR < 7) return hipErrorInvalidDevice;
    return static_cast<hipError_t>(error);
}

hipError_t answer(hipError_t error) {
    if (HIP_VERSION_MAJOR < 7 || (error != hipSuccess && error != hipErrorNotReady)) last = error;
    return error;
}

hipError_t answer(pmhError_t error) { return answer(translate(error)); }

}  // namespace standin

using namespace standin;

hipError_t hipGetLastError() { return std::exchange(last, hipSuccess); }

hipError_t hipPeekAtLastError() { return last; }

#if HIP_VERSION_MAJOR >= 6
hipError_t hipExtGetLastError() { return std::exchange(last, hipSuccess); }
#endif

const char* hipGetErrorName(hipError_t error) {
    for (const Name& each : names)
        if (each.error == error) return each.name;
    return "hipErrorUnknown";
}

const char* hipGetErrorString(hipError_t error) {
    if (error == hipErrorNoDevice) return "no ROCm-capable device is detected";
    return pmhGetErrorString(static_cast<pmhError_t>(error));
}

hipError_t hipInit(unsigned flags) { return answer(flags == 0 ? hipSuccess : hipErrorInvalidValue); }

hipError_t hipRuntimeGetVersion(int* version) {
    if (version == nullptr) return answer(hipErrorInvalidValue);
    *version = HIP_VERSION;
    return answer(hipSuccess);
}

hipError_t hipDriverGetVersion(int* version) { return hipRuntimeGetVersion(version); }
