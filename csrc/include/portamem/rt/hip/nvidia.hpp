// SPDX-License-Identifier: MIT
// portamem/rt/hip/nvidia.hpp: what HIP's header lacks on the NVIDIA platform, under HIP's own names.
//
// There HIP is a header over CUDA. It shows stream capture to nvcc only, and wants one pointer of another type. The
// functions here are found before any of the header's own, as they are in the inner namespace; they answer in CUDA's
// codes.
#pragma once

#include "portamem/rt/check.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

inline Error_t answer(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) (void)cudaGetLastError();
    return static_cast<Error_t>(error);
}

PORTAMEM_RT_CLOSE

#include "portamem/rt/cuda/driver.hpp"

PORTAMEM_RT_OPEN

inline cudaError_t hipStreamAttachMemAsync(hipStream_t stream, void* ptr, std::size_t nbytes, unsigned flags) {
    return cudaStreamAttachMemAsync(stream, ptr, nbytes, flags);
}

inline cudaError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
    return cudaStreamBeginCapture(stream, mode);
}

inline cudaError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
    return cudaStreamEndCapture(stream, graph);
}

inline cudaError_t hipGraphDestroy(hipGraph_t graph) { return cudaGraphDestroy(graph); }

inline cudaError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
    if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
        return cudaStreamIsCapturing(stream, status);
    }
    auto native = CU_STREAM_CAPTURE_STATUS_NONE;
    const Error_t error = driver::stream_is_capturing(stream, &native);
    *status = static_cast<hipStreamCaptureStatus>(native);
    return static_cast<cudaError_t>(error);
}

inline cudaError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
    auto native = static_cast<CUstreamCaptureMode>(*mode);
    const Error_t error = driver::thread_exchange_stream_capture_mode(&native);
    *mode = static_cast<hipStreamCaptureMode>(native);
    return static_cast<cudaError_t>(error);
}

PORTAMEM_RT_CLOSE
