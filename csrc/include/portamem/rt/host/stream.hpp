// SPDX-License-Identifier: MIT
// portamem/rt/host/stream.hpp: streams, events and capture. Contracts: rt/api/stream.hpp.
#pragma once

#include "portamem/rt/host/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(StreamDefault, pmhStreamDefault) && check::same(StreamNonBlocking, pmhStreamNonBlocking));
static_assert(check::same(EventDefault, pmhEventDefault) && check::same(EventBlockingSync, pmhEventBlockingSync));
static_assert(check::same(EventDisableTiming, pmhEventDisableTiming));
static_assert(check::same(EventInterprocess, pmhEventInterprocess));
static_assert(check::same(StreamCaptureMode::Global, pmhStreamCaptureModeGlobal));
static_assert(check::same(StreamCaptureMode::ThreadLocal, pmhStreamCaptureModeThreadLocal));
static_assert(check::same(StreamCaptureMode::Relaxed, pmhStreamCaptureModeRelaxed));
static_assert(check::same(StreamCaptureStatus::None, pmhStreamCaptureStatusNone));
static_assert(check::same(StreamCaptureStatus::Active, pmhStreamCaptureStatusActive));
static_assert(check::same(StreamCaptureStatus::Invalidated, pmhStreamCaptureStatusInvalidated));

inline Stream_t StreamLegacy() { return pmhStreamLegacy; }

inline Stream_t StreamPerThread() { return pmhStreamPerThread; }

inline Error_t StreamCreateWithPriority(Stream_t* stream, unsigned flags, int priority) {
    return answer(pmhStreamCreateWithPriority(stream, flags, priority));
}

inline Error_t StreamDestroy(Stream_t stream) { return answer(pmhStreamDestroy(stream)); }

inline Error_t StreamQuery(Stream_t stream) { return answer(pmhStreamQuery(stream)); }

inline Error_t StreamSynchronize(Stream_t stream) { return answer(pmhStreamSynchronize(stream)); }

inline Error_t StreamWaitEvent(Stream_t stream, Event_t event) { return answer(pmhStreamWaitEvent(stream, event, 0)); }

inline Error_t LaunchHostFunc(Stream_t stream, HostFn_t fn, void* user_data) {
    return answer(pmhLaunchHostFunc(stream, fn, user_data));
}

inline Error_t StreamGetFlags(Stream_t stream, unsigned* flags) { return answer(pmhStreamGetFlags(stream, flags)); }

inline Error_t StreamGetPriority(Stream_t stream, int* priority) {
    return answer(pmhStreamGetPriority(stream, priority));
}

inline Error_t StreamGetDevice(Stream_t stream, int* device) { return answer(pmhStreamGetDevice(stream, device)); }

inline Error_t StreamGetId(Stream_t stream, std::uint64_t* id) { return answer(pmhStreamGetId(stream, id)); }

inline Error_t StreamBeginCapture(Stream_t stream, StreamCaptureMode mode) {
    return answer(pmhStreamBeginCapture(stream, static_cast<int>(mode)));
}

inline Error_t StreamEndCapture(Stream_t stream, Graph_t* graph) {
    if (graph == nullptr) return Error_t::InvalidValue;
    *graph = nullptr;
    return answer(pmhStreamEndCapture(stream, graph));
}

inline Error_t GraphDestroy(Graph_t graph) { return answer(pmhGraphDestroy(graph)); }

inline Error_t StreamIsCapturing(Stream_t stream, StreamCaptureStatus* status) {
    if (status == nullptr) return Error_t::InvalidValue;
    int native = pmhStreamCaptureStatusNone;
    const Error_t error = answer(pmhStreamIsCapturing(stream, &native));
    if (error == Error_t::Success) *status = static_cast<StreamCaptureStatus>(native);
    return error;
}

inline Error_t ThreadExchangeStreamCaptureMode(StreamCaptureMode* mode) {
    if (mode == nullptr) return Error_t::InvalidValue;
    int native = static_cast<int>(*mode);
    const Error_t error = answer(pmhThreadExchangeStreamCaptureMode(&native));
    if (error == Error_t::Success) *mode = static_cast<StreamCaptureMode>(native);
    return error;
}

inline Error_t EventCreateWithFlags(Event_t* event, unsigned flags) {
    return answer(pmhEventCreateWithFlags(event, flags));
}

inline Error_t EventDestroy(Event_t event) { return answer(pmhEventDestroy(event)); }

inline Error_t EventRecord(Event_t event, Stream_t stream) { return answer(pmhEventRecord(event, stream)); }

inline Error_t EventQuery(Event_t event) { return answer(pmhEventQuery(event)); }

inline Error_t EventSynchronize(Event_t event) { return answer(pmhEventSynchronize(event)); }

inline Error_t EventElapsedTime(float* milliseconds, Event_t start, Event_t end) {
    return answer(pmhEventElapsedTime(milliseconds, start, end));
}

PORTAMEM_RT_CLOSE
