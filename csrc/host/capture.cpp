// SPDX-License-Identifier: MIT
// host/capture.cpp: the rules of stream capture.
#include "capture.hpp"

#include <algorithm>
#include <utility>

#include "entry.hpp"

namespace portamem::host {
namespace {

// Refuses work on a legacy stream during a capture: it cannot wait for work that only a graph will run.
void forbid_legacy(State& state, const Stream& legacy, const char* call) {
    bool conflict = false;
    for (const auto& stream : device_of(state, legacy.device).streams) {
        if (!stream->is_blocking() || stream->capture == nullptr) continue;
        stream->capture->invalidated = true;
        conflict = true;
    }
    if (conflict)
        refuse(pmhErrorStreamCaptureImplicit, "%s on the legacy default stream while a blocking stream is captured",
               call);
}

void refuse_invalidated(const Capture& capture, const char* call) {
    if (capture.invalidated)
        refuse(pmhErrorStreamCaptureInvalidated, "%s in a capture that an earlier call has made invalid", call);
}

void merge_branch(Branch& into, const Branch& from) {
    for (const auto& [stream, nodes] : from.joined) {
        std::size_t& known = into.joined[stream];
        known = std::max(known, nodes);
    }
}

}  // namespace

std::size_t Capture::node_count() const {
    std::size_t count = 0;
    for (const auto& [stream, branch] : branches) count += branch.nodes;
    return count;
}

bool Capture::is_joined() const {
    const Branch& home = branches.at(origin);
    return std::all_of(branches.begin(), branches.end(), [&](const auto& entry) {
        const auto& [stream, branch] = entry;
        const auto known = home.joined.find(stream);
        return stream == origin || branch.nodes <= (known == home.joined.end() ? 0 : known->second);
    });
}

void forbid_unsafe_call(State& state, const char* call) {
    const ThreadState& thread = this_thread();
    if (state.captures.empty() || thread.capture_mode == pmhStreamCaptureModeRelaxed) return;
    bool conflict = false;
    for (const auto& capture : state.captures) {
        const bool forbidden = capture->thread == &thread ? capture->mode != pmhStreamCaptureModeRelaxed
                                                          : capture->mode == pmhStreamCaptureModeGlobal &&
                                                                thread.capture_mode == pmhStreamCaptureModeGlobal;
        if (!forbidden) continue;
        capture->invalidated = true;
        conflict = true;
    }
    if (conflict) refuse(pmhErrorStreamCaptureUnsupported, "%s while a stream is captured", call);
}

void forbid_progress_query(State& state, Stream& stream, const char* call) {
    if (state.captures.empty()) return;
    if (stream.is_legacy()) forbid_legacy(state, stream, call);
    if (stream.capture != nullptr) {
        stream.capture->invalidated = true;
        refuse(pmhErrorStreamCaptureUnsupported, "%s of a stream that is captured", call);
    }
    forbid_unsafe_call(state, call);
}

bool take(State& state, Stream& stream, const char* call) {
    if (state.captures.empty()) return false;
    if (stream.is_legacy()) forbid_legacy(state, stream, call);
    if (stream.capture == nullptr) return false;
    refuse_invalidated(*stream.capture, call);
    ++stream.capture->branches[stream.identity].nodes;
    return true;
}

void forbid_in_capture(State& state, Stream& stream, const char* call) {
    if (state.captures.empty()) return;
    if (stream.is_legacy()) forbid_legacy(state, stream, call);
    if (stream.capture == nullptr) return;
    refuse_invalidated(*stream.capture, call);
    refuse(pmhErrorNotSupported, "%s on a captured stream: the host runtime has no memory nodes in graphs", call);
}

bool record_in_capture(State& state, Stream& stream, Event& event) {
    if (!state.captures.empty()) {
        if (stream.is_legacy()) forbid_legacy(state, stream, "EventRecord");
        if (stream.capture != nullptr) {
            refuse_invalidated(*stream.capture, "EventRecord");
            event.capture = stream.capture;
            event.branch = stream.capture->branches[stream.identity];
            event.branch.joined[stream.identity] = event.branch.nodes;
            return true;
        }
    }
    event.capture = nullptr;
    return false;
}

bool wait_in_capture(State& state, Stream& stream, const Event& event) {
    if (!state.captures.empty() && stream.is_legacy()) forbid_legacy(state, stream, "StreamWaitEvent");
    if (event.capture == nullptr) {
        if (stream.capture == nullptr) return false;
        refuse_invalidated(*stream.capture, "StreamWaitEvent");
        if (event.point.stream == nullptr) return true;
        stream.capture->invalidated = true;
        refuse(pmhErrorStreamCaptureIsolation, "a captured stream cannot wait for work outside its capture");
    }
    if (event.capture->ended) refuse(pmhErrorInvalidValue, "the event was recorded in a capture that has ended");
    if (stream.is_legacy())
        refuse(pmhErrorStreamCaptureImplicit, "the legacy default stream cannot wait for captured work");
    if (stream.capture != nullptr && stream.capture != event.capture) {
        stream.capture->invalidated = true;
        event.capture->invalidated = true;
        refuse(pmhErrorStreamCaptureMerge, "the event belongs to another capture than the stream");
    }
    refuse_invalidated(*event.capture, "StreamWaitEvent");
    stream.capture = event.capture;
    merge_branch(stream.capture->branches[stream.identity], event.branch);
    return true;
}

void forbid_captured_event(State& state, const Event& event, const char* call) {
    if (event.capture != nullptr) {
        if (event.capture->ended) refuse(pmhErrorInvalidValue, "the event was recorded in a capture that has ended");
        event.capture->invalidated = true;
        refuse(pmhErrorCapturedEvent, "%s of an event that was recorded in a capture", call);
    }
    forbid_unsafe_call(state, call);
}

void end_capture(State& state, Capture& capture) {
    capture.ended = true;
    for (const auto& device : state.devices)
        for (const auto& stream : device->streams)
            if (stream->capture.get() == &capture) stream->capture = nullptr;
    auto& all = state.captures;
    all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& other) { return other.get() == &capture; }),
              all.end());
}

}  // namespace portamem::host

using namespace portamem::host;

namespace {

const char* const modes = "the capture mode is none of global, thread-local and relaxed";

bool is_mode(int mode) { return mode >= pmhStreamCaptureModeGlobal && mode <= pmhStreamCaptureModeRelaxed; }

}  // namespace

pmhError_t pmhStreamBeginCapture(pmhStream_t handle, int mode) {
    return enter("StreamBeginCapture", [&](State& state, Hold&) {
        require(is_mode(mode), modes);
        Stream& stream = *stream_of(state, handle);
        if (stream.is_legacy())
            refuse(pmhErrorStreamCaptureUnsupported, "the legacy default stream cannot be captured");
        if (stream.capture != nullptr) refuse(pmhErrorIllegalState, "the stream is being captured already");
        auto capture = std::make_shared<Capture>();
        capture->mode = mode;
        capture->thread = &this_thread();
        capture->origin = stream.identity;
        capture->branches[stream.identity];
        state.captures.push_back(capture);
        stream.capture = std::move(capture);
    });
}

pmhError_t pmhStreamEndCapture(pmhStream_t handle, pmhGraph_t* graph) {
    return enter("StreamEndCapture", [&](State& state, Hold&) {
        require(graph != nullptr, "graph is null");
        *graph = nullptr;
        Stream& stream = *stream_of(state, handle);
        const std::shared_ptr<Capture> capture = stream.capture;
        if (capture == nullptr) refuse(pmhErrorIllegalState, "the stream is not being captured");
        if (capture->origin != stream.identity) {
            capture->invalidated = true;
            refuse(pmhErrorStreamCaptureUnmatched, "the capture began on another stream");
        }
        end_capture(state, *capture);
        if (capture->mode != pmhStreamCaptureModeRelaxed && capture->thread != &this_thread())
            refuse(pmhErrorStreamCaptureWrongThread, "the capture began on another thread; it is given up");
        refuse_invalidated(*capture, "StreamEndCapture");
        if (!capture->is_joined())
            refuse(pmhErrorStreamCaptureUnjoined, "work captured on another stream was not joined to the origin");
        auto made = std::make_unique<Graph>();
        made->nodes = capture->node_count();
        *graph = reinterpret_cast<pmhGraph_t>(made.get());
        state.graphs.emplace(*graph, std::move(made));
    });
}

pmhError_t pmhStreamIsCapturing(pmhStream_t handle, int* status) {
    return enter("StreamIsCapturing", [&](State& state, Hold&) {
        require(status != nullptr, "status is null");
        const Stream& stream = *stream_of(state, handle);
        if (stream.is_legacy())
            for (const auto& other : device_of(state, stream.device).streams)
                if (other->is_blocking() && other->capture != nullptr)
                    refuse(pmhErrorStreamCaptureImplicit, "a blocking stream is captured");
        *status = stream.capture == nullptr     ? pmhStreamCaptureStatusNone
                  : stream.capture->invalidated ? pmhStreamCaptureStatusInvalidated
                                                : pmhStreamCaptureStatusActive;
    });
}

pmhError_t pmhThreadExchangeStreamCaptureMode(int* mode) {
    return enter_unlocked("ThreadExchangeStreamCaptureMode", [&] {
        require(mode != nullptr && is_mode(*mode), modes);
        std::swap(this_thread().capture_mode, *mode);
    });
}

pmhError_t pmhGraphGetNodeCount(pmhGraph_t graph, size_t* count) {
    return enter("GraphGetNodeCount", [&](State& state, Hold&) {
        require(count != nullptr, "count is null");
        const auto found = state.graphs.find(graph);
        if (found == state.graphs.end()) refuse(pmhErrorInvalidValue, "there is no such graph");
        *count = found->second->nodes;
    });
}

pmhError_t pmhGraphDestroy(pmhGraph_t graph) {
    return enter("GraphDestroy", [&](State& state, Hold&) {
        if (state.graphs.erase(graph) == 0) refuse(pmhErrorInvalidValue, "there is no such graph");
    });
}
