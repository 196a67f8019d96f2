// SPDX-License-Identifier: MIT
// portamem/rt/api/stream.hpp: contracts of streams, events and capture.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// The legacy default stream, and the calling thread's own default stream, of the current device. Where a version of
/// HIP has no handle for the legacy stream, StreamLegacy is null, which means that stream unless per-thread streams are
/// compiled in.
inline Stream_t StreamLegacy();
inline Stream_t StreamPerThread();

/// A stream on the current device. flags: StreamFlags. A priority out of range is clamped.
inline Error_t StreamCreateWithPriority(Stream_t* stream, unsigned flags, int priority);

/// Destroys a stream; work that was submitted still runs. Errors: InvalidHandle for a default stream.
inline Error_t StreamDestroy(Stream_t stream);

/// Success when all work has run, NotReady otherwise.
inline Error_t StreamQuery(Stream_t stream);

/// Blocks until all work submitted to the stream so far has run.
inline Error_t StreamSynchronize(Stream_t stream);

/// Work submitted to the stream later waits for the event's latest record. The host does not wait. For an event that
/// was never recorded, nothing waits.
inline Error_t StreamWaitEvent(Stream_t stream, Event_t event);

/// Has the stream call fn(user_data) on the host, in stream order. The function may make no runtime call. HIP goes
/// through hipStreamAddCallback, which every version of its library exports. Errors: InvalidValue for a null function.
inline Error_t LaunchHostFunc(Stream_t stream, HostFn_t fn, void* user_data);

/// The StreamFlags, and the priority, that a stream was created with.
inline Error_t StreamGetFlags(Stream_t stream, unsigned* flags);
inline Error_t StreamGetPriority(Stream_t stream, int* priority);

/// The device that a stream belongs to; for null and the default streams the current device.
inline Error_t StreamGetDevice(Stream_t stream, int* device);

/// The number of a created stream. Runtimes give a destroyed stream's handle to another stream, but never its number.
/// The stream has to exist: for a destroyed one CUDA's driver crashes (measured). Errors:
///  - NotSupported where the runtime numbers no streams.
///  - StreamCaptureUnsupported for a captured stream on CUDA, and the capture stays valid: the driver is not asked, as
///    it would answer the same and invalidate the capture, in every mode (measured).
///  - InvalidHandle for a default stream.
inline Error_t StreamGetId(Stream_t stream, std::uint64_t* id);

/// Starts capture of a stream into a graph. The legacy stream cannot be captured: StreamCaptureUnsupported. CUDA can
/// capture the per-thread stream (measured).
inline Error_t StreamBeginCapture(Stream_t stream, StreamCaptureMode mode);

/// Ends a stream's capture. The thread that began it has to end it, except in mode Relaxed. The caller gives *graph to
/// GraphDestroy; it is null after a failure. An invalidated capture ends with StreamCaptureInvalidated.
inline Error_t StreamEndCapture(Stream_t stream, Graph_t* graph);
inline Error_t GraphDestroy(Graph_t graph);

/// How a stream's capture stands. Only a default stream needs a current device. Errors: StreamCaptureImplicit for the
/// legacy stream while a blocking stream is captured; that capture stays valid.
inline Error_t StreamIsCapturing(Stream_t stream, StreamCaptureStatus* status);

/// Swaps this thread's capture mode with *mode. Needs no current device. Under Relaxed, calls that have nothing to do
/// with a captured stream leave its capture valid. Under another mode, while any global capture is open, CUDA answers
/// StreamCaptureUnsupported to these calls and invalidates that capture (measured): all allocating and freeing of
/// memory, pools' attributes and trimming, MemAdvise, queries and synchronizes of any stream, event or device, and
/// DeviceSetLimit. It does so for StreamGetFlags of the captured stream in every mode.
inline Error_t ThreadExchangeStreamCaptureMode(StreamCaptureMode* mode);

/// An event on the current device. flags: EventFlags; Interprocess needs DisableTiming.
inline Error_t EventCreateWithFlags(Event_t* event, unsigned flags);
inline Error_t EventDestroy(Event_t event);

/// Marks the end of the work submitted to the stream so far. Recording again moves the mark.
inline Error_t EventRecord(Event_t event, Stream_t stream);

/// Success when the work before the mark has run, or the event was never recorded; NotReady otherwise.
inline Error_t EventQuery(Event_t event);
/// Blocks until the work before the mark has run; returns at once where the event was never recorded.
inline Error_t EventSynchronize(Event_t event);

/// Milliseconds from the mark of `start` to that of `end`. Errors: NotReady while work before one of them has not run;
/// InvalidHandle for an event that was made without timing or was never recorded.
inline Error_t EventElapsedTime(float* milliseconds, Event_t start, Event_t end);

PORTAMEM_RT_CLOSE
