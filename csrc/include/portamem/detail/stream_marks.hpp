// SPDX-License-Identifier: MIT
// portamem/detail/stream_marks.hpp: events at the end of the work of a stream, and streams that wait for one another.
#pragma once

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/device_guard.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

inline void Stream::record(const Event& event) const {
    if (event.is_owned() && event.device() != device_) {
        throw std::invalid_argument("an event of device " + std::to_string(event.device()) +
                                    " cannot be recorded on a stream of device " + std::to_string(device_) +
                                    ": make the event on the stream's device");
    }
    const Use use = in_use();
    const bool captured = capture_status() != rt::StreamCaptureStatus::None;
    if (captured && is_default()) refuse_capture("record");
    event.leave_relied();
    event.stand_behind({});
    const detail::DeclaredSoFar so_far = declared_so_far();
    record_unasked(event);
    event.set_mark(captured ? Event::Mark::Captured : Event::Mark::Work);
    if (!captured) event.stand_behind(so_far);
}

inline void Stream::record_unasked(const Event& event) const {
    const Use use = in_use();
    record_in_use(event);
}

inline std::shared_ptr<Event> Stream::tail(std::shared_ptr<Event> blank) {
    refuse_forked();
    // Only its own thread can mark a per-thread stream. Other threads wait for the whole device, which is rare and
    // always right.
    if (is_elsewhere()) {
        detail::refuse_in_capture("synchronizing the device");
        const RelaxedCapture beside(device_);
        detail::hear_until_idle(device_);
        check(rt::DeviceSynchronize(), "DeviceSynchronize");  // runs no chore: the caller may hold a lock
        return nullptr;
    }
    auto event = is_closed() || blank ? std::move(blank) : Event::create(device_);
    // Waiting for a stream is no use of it, so close() may run meanwhile. The lock keeps it from running between
    // question and mark.
    std::lock_guard<std::mutex> lock(end_of_handle().mutex);
    if (is_closed()) return last_under_lock();
    if (is_default()) refuse_capture("record");
    record_in_use(*event);
    return event;
}

inline void Stream::wait(const Event& event) const {
    const Use use = in_use();
    if (is_default() || event.mark() == Event::Mark::Work) refuse_capture("waiting for work outside of a capture");
    const DeviceGuard guard(device_);
    check(rt::StreamWaitEvent(handle_, event.handle()), "StreamWaitEvent");
}

inline void Stream::wait(Stream& other) {
    if (&other == this) return;
    const Use use = in_use();
    if (!is_default() && is_in_capture() && !other.is_in_capture()) {
        refuse_capture("waiting for work outside of a capture");
    }
    if (const auto event = other.tail()) wait(*event);
}

inline void Stream::launch_host_func(rt::HostFn_t fn, void* user_data) const {
    const Use use = in_use();
    if (is_default()) refuse_capture("launch_host_func");
    const DeviceGuard guard(device_);
    check(rt::LaunchHostFunc(handle_, fn, user_data), "LaunchHostFunc");
}

inline void Stream::record_in_use(const Event& event) const {
    const DeviceGuard guard(device_);
    check(rt::EventRecord(event.handle(), handle_), "EventRecord");
}

inline std::shared_ptr<Event> Stream::last() {
    std::lock_guard<std::mutex> lock(end_->mutex);
    return end_->last;
}

// Returns the last event of a closed stream. The caller holds the lock of end_of_handle().
inline std::shared_ptr<Event> Stream::last_under_lock() const {
    if (!told_end_ || told_end_->is_closed) return end_of_handle().last;
    std::lock_guard<std::mutex> lock(end_->mutex);
    return end_->last;
}

PORTAMEM_CLOSE
