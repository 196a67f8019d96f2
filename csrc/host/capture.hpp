// SPDX-License-Identifier: MIT
// host/capture.hpp: stream capture: which streams it has taken, and which calls it forbids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "portamem/host/runtime_api.h"

namespace portamem::host {

class Stream;
struct Event;
struct State;

/// The operations that one stream has put into a capture, and how far it waits for each other stream.
struct Branch {
    std::size_t nodes = 0;
    std::map<std::uint64_t, std::size_t> joined;
};

struct Capture {
    int mode = pmhStreamCaptureModeGlobal;
    const void* thread = nullptr;  ///< the thread that began the capture
    std::uint64_t origin = 0;      ///< the stream on which the capture began
    bool invalidated = false;
    bool ended = false;
    std::map<std::uint64_t, Branch> branches;

    std::size_t node_count() const;
    bool is_joined() const;  ///< every branch has come back to the origin
};

struct Graph {
    std::size_t nodes = 0;
};

/// Checks a call that a capture forbids because of its possible effects, whatever stream it concerns.
void forbid_unsafe_call(State& state, const char* call);

/// Checks a call that asks for a stream's progress.
void forbid_progress_query(State& state, Stream& stream, const char* call);

/// Checks an operation on a stream. True if a capture has taken it, so that it does not run.
bool take(State& state, Stream& stream, const char* call);

/// Refuses an operation that no capture can hold with NotSupported. The capture stays valid.
void forbid_in_capture(State& state, Stream& stream, const char* call);

/// These do the parts of recording an event and of waiting for it that concern captures. True if nothing else is to be
/// done.
bool record_in_capture(State& state, Stream& stream, Event& event);
bool wait_in_capture(State& state, Stream& stream, const Event& event);

/// Checks a call that asks for an event's progress.
void forbid_captured_event(State& state, const Event& event, const char* call);

/// Lets go of a capture's streams.
void end_capture(State& state, Capture& capture);

}  // namespace portamem::host
