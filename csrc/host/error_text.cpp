// SPDX-License-Identifier: MIT
// host/error_text.cpp: a sentence for each code.
#include "portamem/host/runtime_api.h"

const char* pmhGetErrorString(pmhError_t error) {
    switch (error) {
        case pmhSuccess:
            return "no error";
        case pmhErrorInvalidValue:
            return "an argument is not valid";
        case pmhErrorOutOfMemory:
            return "out of memory";
        case pmhErrorInitializationError:
            return "the runtime cannot work in this process";
        case pmhErrorInvalidMemcpyDirection:
            return "the direction of a copy is not valid";
        case pmhErrorNoDevice:
            return "there is no device";
        case pmhErrorInvalidDevice:
            return "there is no such device";
        case pmhErrorUnsupportedLimit:
            return "the device has no such limit";
        case pmhErrorPeerAccessUnsupported:
            return "the devices cannot access each other";
        case pmhErrorInvalidHandle:
            return "a handle is not valid";
        case pmhErrorIllegalState:
            return "the object is not in a state that allows this";
        case pmhErrorNotReady:
            return "the work is not done yet";
        case pmhErrorPeerAccessAlreadyEnabled:
            return "peer access is enabled already";
        case pmhErrorPeerAccessNotEnabled:
            return "peer access is not enabled";
        case pmhErrorHostMemoryAlreadyRegistered:
            return "part of the memory is registered already";
        case pmhErrorHostMemoryNotRegistered:
            return "the memory is not registered";
        case pmhErrorNotPermitted:
            return "not permitted here";
        case pmhErrorNotSupported:
            return "not supported";
        case pmhErrorStreamCaptureUnsupported:
            return "not permitted while a stream is captured";
        case pmhErrorStreamCaptureInvalidated:
            return "the capture was made invalid by an earlier error";
        case pmhErrorStreamCaptureMerge:
            return "two captures would be merged";
        case pmhErrorStreamCaptureUnmatched:
            return "the capture did not begin on this stream";
        case pmhErrorStreamCaptureUnjoined:
            return "captured work was not joined to the stream that began the capture";
        case pmhErrorStreamCaptureIsolation:
            return "a captured stream would depend on work that is not captured";
        case pmhErrorStreamCaptureImplicit:
            return "the legacy default stream would depend on captured work";
        case pmhErrorCapturedEvent:
            return "the event was last recorded in a capture";
        case pmhErrorStreamCaptureWrongThread:
            return "the capture began on another thread";
        case pmhErrorUnknown:
            return "unknown error";
    }
    return "an error that the host runtime does not know";
}
