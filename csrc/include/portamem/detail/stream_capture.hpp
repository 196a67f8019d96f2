// SPDX-License-Identifier: MIT
// portamem/detail/stream_capture.hpp: captures that are open on a stream, and what they forbid.
#pragma once

#include <mutex>
#include <stdexcept>
#include <string>

#include "portamem/device_guard.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

inline rt::StreamCaptureStatus Stream::capture_status() const {
    refuse_forked();
    if (is_elsewhere()) return rt::StreamCaptureStatus::None;  // it would be asked about this thread's own
    const Use use = in_use();
    return status_unasked();
}

inline void Stream::refuse_capture_if_open(const char* what) const {
    std::lock_guard<std::mutex> lock(end_of_handle().mutex);
    if (!is_closed() && !is_elsewhere()) refuse(status_unasked(), what);
}

inline void Stream::begin_capture(rt::StreamCaptureMode mode) const {
    if (is_default()) throw std::invalid_argument("a default stream cannot be captured: create a stream");
    const Use use = in_use();
    refuse_capture("begin_capture");
    const DeviceGuard guard(device_);
    check(rt::StreamBeginCapture(handle_, mode), "StreamBeginCapture");
    count_capture(true);
}

inline void Stream::end_capture() const {
    refuse_forked();
    const Use use = in_use();
    const DeviceGuard guard(device_);
    rt::Graph_t graph{};
    const rt::Error_t answer = rt::StreamEndCapture(handle_, &graph);
    // A capture that another thread began stays open.
    if (answer == rt::Error_t::Success || answer == rt::Error_t::StreamCaptureInvalidated) count_capture(false);
    if (graph != rt::Graph_t{}) (void)rt::GraphDestroy(graph);
    check(answer, "StreamEndCapture");
}

inline bool Stream::is_in_capture() const {
    const Use use(*this);
    return use && status_unasked() != rt::StreamCaptureStatus::None;
}

// Returns capture_status within a use, or under the lock of an open stream.
inline rt::StreamCaptureStatus Stream::status_unasked() const {
    if (!is_default()) return status_here();
    const DeviceGuard guard(device_);
    return status_here();
}

// Does the same with the stream's device current.
inline rt::StreamCaptureStatus Stream::status_here() const {
    const bool counted = captured_here_.load();
    auto status = rt::StreamCaptureStatus::None;
    const rt::Error_t answer = rt::StreamIsCapturing(handle_, &status);
    // The legacy stream reports a capture of another stream: work on it is forbidden just the same.
    if (answer == rt::Error_t::StreamCaptureImplicit) return rt::StreamCaptureStatus::Active;
    check(answer, "StreamIsCapturing");
    if (counted && status == rt::StreamCaptureStatus::None) count_capture(false);  // the program has ended it
    return status;
}

inline void Stream::refuse(rt::StreamCaptureStatus status, const char* what) const {
    if (status == rt::StreamCaptureStatus::None) return;
    throw std::invalid_argument(std::string(what) + " is forbidden while " +
                                (is_default() ? "a stream is captured: name a stream"
                                              : "its stream is captured: do it before or after the capture"));
}

// Each capture that began here counts once, whichever call or thread ends it.
inline void Stream::count_capture(bool open) const noexcept {
    if (captured_here_.exchange(open) != open) detail::open_captures().fetch_add(open ? 1 : -1);
}

PORTAMEM_CLOSE
