// SPDX-License-Identifier: MIT
// portamem/rt/cuda/stream.hpp: streams, events and capture. Contracts: rt/api/stream.hpp.
#pragma once

#include "portamem/rt/cuda/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(StreamDefault, cudaStreamDefault) && check::same(StreamNonBlocking, cudaStreamNonBlocking));
static_assert(check::same(EventDefault, cudaEventDefault) && check::same(EventBlockingSync, cudaEventBlockingSync));
static_assert(check::same(EventDisableTiming, cudaEventDisableTiming));
static_assert(check::same(EventInterprocess, cudaEventInterprocess));
static_assert(check::same(StreamCaptureMode::Global, cudaStreamCaptureModeGlobal));
static_assert(check::same(StreamCaptureMode::ThreadLocal, cudaStreamCaptureModeThreadLocal));
static_assert(check::same(StreamCaptureMode::Relaxed, cudaStreamCaptureModeRelaxed));
static_assert(check::same(StreamCaptureStatus::None, cudaStreamCaptureStatusNone));
static_assert(check::same(StreamCaptureStatus::Active, cudaStreamCaptureStatusActive));
static_assert(check::same(StreamCaptureStatus::Invalidated, cudaStreamCaptureStatusInvalidated));
// The driver's numbers are the runtime's.
static_assert(check::same(CU_STREAM_CAPTURE_MODE_GLOBAL, cudaStreamCaptureModeGlobal));
static_assert(check::same(CU_STREAM_CAPTURE_MODE_RELAXED, cudaStreamCaptureModeRelaxed));
static_assert(check::same(CU_STREAM_CAPTURE_STATUS_ACTIVE, cudaStreamCaptureStatusActive));
static_assert(check::same(CU_STREAM_CAPTURE_STATUS_INVALIDATED, cudaStreamCaptureStatusInvalidated));

inline Stream_t StreamLegacy() { return cudaStreamLegacy; }

inline Stream_t StreamPerThread() { return cudaStreamPerThread; }

/// Whether a handle is one of the default streams, which no call has created.
inline bool is_default_stream(Stream_t stream) {
    return stream == nullptr || stream == StreamLegacy() || stream == StreamPerThread();
}

inline Error_t StreamCreateWithPriority(Stream_t* stream, unsigned flags, int priority) {
    return answer(cudaStreamCreateWithPriority(stream, flags, priority));
}

inline Error_t StreamDestroy(Stream_t stream) {
    if (is_default_stream(stream)) return Error_t::InvalidHandle;
    return answer(cudaStreamDestroy(stream));
}

inline Error_t StreamQuery(Stream_t stream) { return answer(cudaStreamQuery(stream)); }

inline Error_t StreamSynchronize(Stream_t stream) { return answer(cudaStreamSynchronize(stream)); }

inline Error_t StreamWaitEvent(Stream_t stream, Event_t event) { return answer(cudaStreamWaitEvent(stream, event, 0)); }

inline Error_t LaunchHostFunc(Stream_t stream, HostFn_t fn, void* user_data) {
    return answer(cudaLaunchHostFunc(stream, fn, user_data));
}

inline Error_t StreamGetFlags(Stream_t stream, unsigned* flags) { return answer(cudaStreamGetFlags(stream, flags)); }

inline Error_t StreamGetPriority(Stream_t stream, int* priority) {
    return answer(cudaStreamGetPriority(stream, priority));
}

inline Error_t StreamGetDevice(Stream_t stream, int* device) {
    if (device == nullptr) return Error_t::InvalidValue;
    if (is_default_stream(stream)) return GetDevice(device);
    return driver::stream_get_device(stream, device);
}

inline Error_t StreamGetId(Stream_t stream, std::uint64_t* id) {
    if (id == nullptr) return Error_t::InvalidValue;
    if (is_default_stream(stream)) return Error_t::InvalidHandle;
    return driver::stream_get_id(stream, id);
}

inline Error_t StreamBeginCapture(Stream_t stream, StreamCaptureMode mode) {
    return answer(cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(mode)));
}

inline Error_t StreamEndCapture(Stream_t stream, Graph_t* graph) {
    if (graph == nullptr) return Error_t::InvalidValue;
    *graph = nullptr;
    return answer(cudaStreamEndCapture(stream, graph));
}

inline Error_t GraphDestroy(Graph_t graph) { return answer(cudaGraphDestroy(graph)); }

inline Error_t StreamIsCapturing(Stream_t stream, StreamCaptureStatus* status) {
    if (status == nullptr) return Error_t::InvalidValue;
    auto native = CU_STREAM_CAPTURE_STATUS_NONE;
    Error_t error{};
    if (is_default_stream(stream)) {
        auto of_runtime = cudaStreamCaptureStatusNone;
        error = answer(cudaStreamIsCapturing(stream, &of_runtime));
        native = static_cast<CUstreamCaptureStatus>(of_runtime);
    } else {
        error = driver::stream_is_capturing(stream, &native);
    }
    if (error == Error_t::Success) *status = static_cast<StreamCaptureStatus>(native);
    return error;
}

inline Error_t ThreadExchangeStreamCaptureMode(StreamCaptureMode* mode) {
    if (mode == nullptr) return Error_t::InvalidValue;
    auto native = static_cast<CUstreamCaptureMode>(*mode);
    const Error_t error = driver::thread_exchange_stream_capture_mode(&native);
    if (error == Error_t::Success) *mode = static_cast<StreamCaptureMode>(native);
    return error;
}

inline Error_t EventCreateWithFlags(Event_t* event, unsigned flags) {
    return answer(cudaEventCreateWithFlags(event, flags));
}

inline Error_t EventDestroy(Event_t event) { return answer(cudaEventDestroy(event)); }

inline Error_t EventRecord(Event_t event, Stream_t stream) { return answer(cudaEventRecord(event, stream)); }

inline Error_t EventQuery(Event_t event) { return answer(cudaEventQuery(event)); }

inline Error_t EventSynchronize(Event_t event) { return answer(cudaEventSynchronize(event)); }

inline Error_t EventElapsedTime(float* milliseconds, Event_t start, Event_t end) {
    return answer(cudaEventElapsedTime(milliseconds, start, end));
}

PORTAMEM_RT_CLOSE
