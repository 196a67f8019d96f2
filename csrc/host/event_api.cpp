// SPDX-License-Identifier: MIT
// host/event_api.cpp: events by handle.
#include "event.hpp"

#include <chrono>
#include <ratio>

#include "entry.hpp"
#include "order_hooks.hpp"

namespace portamem::host {
namespace {

Event& event_of(State& state, pmhEvent_t handle) {
    const auto found = state.events.find(handle);
    if (found == state.events.end()) refuse(pmhErrorInvalidHandle, "there is no event %p", static_cast<void*>(handle));
    return *found->second;
}

// Records an event. An idle stream's end is now, so that no thread has to wake up for it.
void record_now(State& state, Stream& stream, Event& event) {
    const auto stamp = event.is_timed() ? std::make_shared<Stamp>() : nullptr;
    const auto now = [stamp] { stamp->when = std::chrono::steady_clock::now(); };
    if (stamp != nullptr && !(stream.is_idle() && implied_waits(state, stream).empty())) {
        event.point = submit(state, stream, now);
    } else {
        event.point = mark(state, stream);
        if (stamp != nullptr) now();
    }
    event.stamp = stamp;
    event.seen = stream.seen;
    note_mark(event.mark, stream);
}

}  // namespace
}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhEventCreateWithFlags(pmhEvent_t* handle, unsigned flags) {
    return enter("EventCreateWithFlags", [&](State& state, Hold&) {
        require(handle != nullptr, "event is null");
        constexpr unsigned known = pmhEventBlockingSync | pmhEventDisableTiming | pmhEventInterprocess;
        require((flags & ~known) == 0, "unknown event flags");
        require((flags & pmhEventInterprocess) == 0 || (flags & pmhEventDisableTiming) != 0,
                "an interprocess event needs its timing disabled");
        auto event = std::make_unique<Event>();
        event->device = this_thread().device;
        event->flags = flags;
        *handle = reinterpret_cast<pmhEvent_t>(event.get());
        state.events.emplace(*handle, std::move(event));
    });
}

pmhError_t pmhEventDestroy(pmhEvent_t handle) {
    return enter("EventDestroy", [&](State& state, Hold&) {
        (void)event_of(state, handle);
        state.events.erase(handle);
    });
}

pmhError_t pmhEventRecord(pmhEvent_t handle, pmhStream_t stream_handle) {
    return enter("EventRecord", [&](State& state, Hold&) {
        Event& event = event_of(state, handle);
        Stream& stream = *stream_of(state, stream_handle);
        if (event.device != stream.device)
            refuse(pmhErrorInvalidHandle, "the event is of device %d, the stream of device %d", event.device,
                   stream.device);
        if (!record_in_capture(state, stream, event)) record_now(state, stream, event);
    });
}

pmhError_t pmhEventQuery(pmhEvent_t handle) {
    return enter("EventQuery", [&](State& state, Hold&) {
        const Event& event = event_of(state, handle);
        forbid_captured_event(state, event, "EventQuery");
        if (event.point.stream != nullptr && !event.point.reached()) return pmhErrorNotReady;
        note_reached(event.mark);
        return pmhSuccess;
    });
}

pmhError_t pmhEventSynchronize(pmhEvent_t handle) {
    return enter("EventSynchronize", [&](State& state, Hold& hold) {
        const Event& event = event_of(state, handle);
        forbid_captured_event(state, event, "EventSynchronize");
        const Point point = event.point;  // the event may be recorded again, or destroyed, during the wait
        const auto seen = event.mark;
        if (point.stream == nullptr) return;
        wait_for(hold, point, seen);
        state.synchronized(hold, point.stream->device);
    });
}

pmhError_t pmhEventElapsedTime(float* milliseconds, pmhEvent_t start_handle, pmhEvent_t end_handle) {
    return enter("EventElapsedTime", [&](State& state, Hold&) {
        require(milliseconds != nullptr, "milliseconds is null");
        const Event& start = event_of(state, start_handle);
        const Event& end = event_of(state, end_handle);
        for (const Event* event : {&start, &end}) {
            if (event->capture != nullptr) refuse(pmhErrorInvalidHandle, "the event's latest record was captured");
            if (!event->is_timed()) refuse(pmhErrorInvalidHandle, "the event was made without timing");
            if (event->point.stream == nullptr) refuse(pmhErrorInvalidHandle, "the event was never recorded");
        }
        if (start.device != end.device) refuse(pmhErrorInvalidHandle, "the events are of two devices");
        if (!start.point.reached() || !end.point.reached()) return pmhErrorNotReady;
        *milliseconds = std::chrono::duration<float, std::milli>(end.stamp->when - start.stamp->when).count();
        return pmhSuccess;
    });
}

pmhError_t pmhStreamWaitEvent(pmhStream_t handle, pmhEvent_t event_handle, unsigned flags) {
    return enter("StreamWaitEvent", [&](State& state, Hold&) {
        require(flags == 0, "unknown flags of a wait");
        Stream& stream = *stream_of(state, handle);
        const Event& event = event_of(state, event_handle);
        if (wait_in_capture(state, stream, event) || event.point.stream == nullptr) return;
        if (event.point.stream.get() != &stream && !event.point.reached())
            (void)submit(state, stream, nullptr, {event.point});
        stream.seen.merge(event.seen);
        stream.seen.raise(event.point.stream->identity, event.point.ticket);
        note_wait(stream, event.mark);
    });
}
