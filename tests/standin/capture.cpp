// SPDX-License-Identifier: MIT
// capture.cpp: stream capture. A graph can be counted and destroyed, not run.
#include "standin.hpp"

using namespace standin;

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
    return answer(pmhStreamBeginCapture(native(stream), static_cast<int>(mode)));
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
    return answer(pmhStreamEndCapture(native(stream), native(graph)));
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
    if (status == nullptr) return answer(hipErrorInvalidValue);
    int found = 0;
    const pmhError_t error = pmhStreamIsCapturing(native(stream), &found);
    if (error == pmhSuccess) *status = static_cast<hipStreamCaptureStatus>(found);
    return answer(error);
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
    if (mode == nullptr) return answer(hipErrorInvalidValue);
    int exchanged = static_cast<int>(*mode);
    const pmhError_t error = pmhThreadExchangeStreamCaptureMode(&exchanged);
    if (error == pmhSuccess) *mode = static_cast<hipStreamCaptureMode>(exchanged);
    return answer(error);
}

hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, std::size_t* count) {
    if (count == nullptr) return answer(hipErrorInvalidValue);
    return answer(nodes == nullptr ? translate(pmhGraphGetNodeCount(native(graph), count)) : hipErrorNotSupported);
}

hipError_t hipGraphDestroy(hipGraph_t graph) { return answer(pmhGraphDestroy(native(graph))); }
