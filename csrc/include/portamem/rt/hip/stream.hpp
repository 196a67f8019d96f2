// SPDX-License-Identifier: MIT
// portamem/rt/hip/stream.hpp: streams, events and capture. Contracts: rt/api/stream.hpp.
#pragma once

#include <memory>
#include <new>

#include "portamem/rt/hip/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(StreamDefault, hipStreamDefault) && check::same(StreamNonBlocking, hipStreamNonBlocking));
static_assert(check::same(EventDefault, hipEventDefault) && check::same(EventBlockingSync, hipEventBlockingSync));
static_assert(check::same(EventDisableTiming, hipEventDisableTiming));
static_assert(check::same(EventInterprocess, hipEventInterprocess));
static_assert(check::same(StreamCaptureMode::Global, hipStreamCaptureModeGlobal));
static_assert(check::same(StreamCaptureMode::ThreadLocal, hipStreamCaptureModeThreadLocal));
static_assert(check::same(StreamCaptureMode::Relaxed, hipStreamCaptureModeRelaxed));
static_assert(check::same(StreamCaptureStatus::None, hipStreamCaptureStatusNone));
static_assert(check::same(StreamCaptureStatus::Active, hipStreamCaptureStatusActive));
static_assert(check::same(StreamCaptureStatus::Invalidated, hipStreamCaptureStatusInvalidated));

inline Stream_t StreamLegacy() {
#if defined(hipStreamLegacy)
    return hipStreamLegacy;
#else
    return nullptr;
#endif
}

inline Stream_t StreamPerThread() { return hipStreamPerThread; }

/// Whether a handle is one of the default streams, which no call has created.
inline bool is_default_stream(Stream_t stream) {
    return stream == nullptr || stream == StreamLegacy() || stream == StreamPerThread();
}

inline Error_t StreamCreateWithPriority(Stream_t* stream, unsigned flags, int priority) {
    return answer(hipStreamCreateWithPriority(stream, flags, priority));
}

inline Error_t StreamDestroy(Stream_t stream) {
    if (is_default_stream(stream)) return Error_t::InvalidHandle;
    return answer(hipStreamDestroy(stream));
}

inline Error_t StreamQuery(Stream_t stream) { return answer(hipStreamQuery(stream)); }

inline Error_t StreamSynchronize(Stream_t stream) { return answer(hipStreamSynchronize(stream)); }

inline Error_t StreamWaitEvent(Stream_t stream, Event_t event) { return answer(hipStreamWaitEvent(stream, event, 0)); }

/// What a stream's callback needs to call a host function: it hands over a stream and a status besides the data.
struct HostCall {
    HostFn_t fn;
    void* user_data;

    static void run(hipStream_t, hipError_t, void* self) {
        const std::unique_ptr<HostCall> call(static_cast<HostCall*>(self));
        call->fn(call->user_data);
    }
};

inline Error_t LaunchHostFunc(Stream_t stream, HostFn_t fn, void* user_data) {
    if (fn == nullptr) return Error_t::InvalidValue;
    std::unique_ptr<HostCall> call(new (std::nothrow) HostCall{fn, user_data});
    if (call == nullptr) return Error_t::OutOfMemory;
    const Error_t error = answer(hipStreamAddCallback(stream, &HostCall::run, call.get(), 0));
    if (error == Error_t::Success) (void)call.release();
    return error;
}

inline Error_t StreamGetFlags(Stream_t stream, unsigned* flags) { return answer(hipStreamGetFlags(stream, flags)); }

inline Error_t StreamGetPriority(Stream_t stream, int* priority) {
    return answer(hipStreamGetPriority(stream, priority));
}

inline Error_t StreamGetDevice(Stream_t stream, int* device) {
    if (device == nullptr) return Error_t::InvalidValue;
    if (is_default_stream(stream)) return GetDevice(device);
#if defined(__HIP_PLATFORM_NVIDIA__)
    return driver::stream_get_device(stream, device);
#else
    // Every version has this call; it names no device where it knows no stream.
    const int found = hipGetStreamDeviceId(stream);
    if (found < 0) return Error_t::InvalidHandle;
    *device = found;
    return Error_t::Success;
#endif
}

inline Error_t StreamGetId(Stream_t stream, std::uint64_t* id) {
    if (id == nullptr) return Error_t::InvalidValue;
    if (is_default_stream(stream)) return Error_t::InvalidHandle;
#if defined(__HIP_PLATFORM_NVIDIA__)
    return driver::stream_get_id(stream, id);
#else
    return Error_t::NotSupported;
#endif
}

inline Error_t StreamBeginCapture(Stream_t stream, StreamCaptureMode mode) {
    return answer(hipStreamBeginCapture(stream, static_cast<hipStreamCaptureMode>(mode)));
}

inline Error_t StreamEndCapture(Stream_t stream, Graph_t* graph) {
    if (graph == nullptr) return Error_t::InvalidValue;
    *graph = nullptr;
    return answer(hipStreamEndCapture(stream, graph));
}

inline Error_t GraphDestroy(Graph_t graph) { return answer(hipGraphDestroy(graph)); }

inline Error_t StreamIsCapturing(Stream_t stream, StreamCaptureStatus* status) {
    if (status == nullptr) return Error_t::InvalidValue;
    hipStreamCaptureStatus native = hipStreamCaptureStatusNone;
    const Error_t error = answer(hipStreamIsCapturing(stream, &native));
    if (error == Error_t::Success) *status = static_cast<StreamCaptureStatus>(native);
    return error;
}

inline Error_t ThreadExchangeStreamCaptureMode(StreamCaptureMode* mode) {
    if (mode == nullptr) return Error_t::InvalidValue;
    auto native = static_cast<hipStreamCaptureMode>(*mode);
    const Error_t error = answer(hipThreadExchangeStreamCaptureMode(&native));
    if (error == Error_t::Success) *mode = static_cast<StreamCaptureMode>(native);
    return error;
}

inline Error_t EventCreateWithFlags(Event_t* event, unsigned flags) {
    return answer(hipEventCreateWithFlags(event, flags));
}

inline Error_t EventDestroy(Event_t event) { return answer(hipEventDestroy(event)); }

inline Error_t EventRecord(Event_t event, Stream_t stream) { return answer(hipEventRecord(event, stream)); }

inline Error_t EventQuery(Event_t event) { return answer(hipEventQuery(event)); }

inline Error_t EventSynchronize(Event_t event) { return answer(hipEventSynchronize(event)); }

inline Error_t EventElapsedTime(float* milliseconds, Event_t start, Event_t end) {
    return answer(hipEventElapsedTime(milliseconds, start, end));
}

PORTAMEM_RT_CLOSE
