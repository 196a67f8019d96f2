// SPDX-License-Identifier: MIT
// portamem/rt/api/stream.hpp: contracts of streams, events and capture.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// The legacy default stream, and the calling thread's own, of the current device. Where a version of HIP has no
/// handle for the legacy stream it is null, which means the same unless per-thread streams are compiled in.
inline Stream_t StreamLegacy();
inline Stream_t StreamPerThread();

/// A stream on the current device. flags: StreamFlags. A priority out of range is clamped.
inline Error_t StreamCreateWithPriority(Stream_t* stream, unsigned flags, int priority);

/// Destroys a stream; work that was submitted still runs. Errors: InvalidValue or InvalidHandle for a default stream.
inline Error_t StreamDestroy(Stream_t stream);

/// Success when all work has run, NotReady otherwise.
inline Error_t StreamQuery(Stream_t stream);

/// Blocks until all work submitted so far has run.
inline Error_t StreamSynchronize(Stream_t stream);

/// Work submitted to the stream later waits for the event's latest record. An event never recorded is no wait.
inline Error_t StreamWaitEvent(Stream_t stream, Event_t event);

/// Runs a host function in stream order. It may make no runtime call. HIP goes through hipStreamAddCallback, which
/// every version of its library exports.
inline Error_t LaunchHostFunc(Stream_t stream, HostFn_t fn, void* user_data);

inline Error_t StreamGetFlags(Stream_t stream, unsigned* flags);
inline Error_t StreamGetPriority(Stream_t stream, int* priority);

/// The device that a stream belongs to; for null and the default streams the current device.
inline Error_t StreamGetDevice(Stream_t stream, int* device);

/// The number of a created stream, which no other stream of the process ever has: handles are given out again. Errors:
/// NotSupported where the runtime numbers no streams; StreamCaptureUnsupported, and the capture stays valid, where it
/// must not be asked of a captured one (CUDA answers 900 in every mode and invalidates the capture: measured);
/// InvalidHandle for a default stream. A handle that was destroyed must not be asked: CUDA's driver crashes (measured).
inline Error_t StreamGetId(Stream_t stream, std::uint64_t* id);

/// Starts capture of a stream into a graph. The legacy stream cannot be captured: StreamCaptureUnsupported. Of the
/// per-thread stream CUDA allows it (measured).
inline Error_t StreamBeginCapture(Stream_t stream, StreamCaptureMode mode);

/// Ends it on the same thread (modes other than Relaxed); *graph is null after a failure. An invalidated capture ends
/// with StreamCaptureInvalidated.
inline Error_t StreamEndCapture(Stream_t stream, Graph_t* graph);
inline Error_t GraphDestroy(Graph_t graph);

/// How a stream's capture stands. Needs no current device, but for a default stream. On the legacy stream while a
/// blocking stream is captured: StreamCaptureImplicit, and the capture stays valid.
inline Error_t StreamIsCapturing(Stream_t stream, StreamCaptureStatus* status);

/// Swaps this thread's capture mode with *mode. Needs no current device. Under Relaxed, calls that have nothing to do
/// with a captured stream leave a capture whole. Otherwise, with a global capture anywhere, CUDA answers 900 and
/// invalidates it for (measured): all allocating and freeing of memory, pools' attributes and trimming, MemAdvise,
/// queries and synchronizes of any stream, event or device, and DeviceSetLimit; also for StreamGetFlags of the captured
/// stream in every mode.
inline Error_t ThreadExchangeStreamCaptureMode(StreamCaptureMode* mode);

/// An event on the current device. flags: EventFlags; Interprocess needs DisableTiming.
inline Error_t EventCreateWithFlags(Event_t* event, unsigned flags);
inline Error_t EventDestroy(Event_t event);

/// Marks the stream's present end. Recording again moves the mark.
inline Error_t EventRecord(Event_t event, Stream_t stream);

/// Success when the work before the mark has run, or the event was never recorded; NotReady otherwise.
inline Error_t EventQuery(Event_t event);
inline Error_t EventSynchronize(Event_t event);

/// Milliseconds between two marks. Errors: NotReady; InvalidHandle without timing or when never
/// recorded.
inline Error_t EventElapsedTime(float* milliseconds, Event_t start, Event_t end);

PORTAMEM_RT_CLOSE
