// SPDX-License-Identifier: MIT
// portamem/event.hpp: marks in streams.
#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "portamem/capture.hpp"
#include "portamem/device_guard.hpp"

PORTAMEM_OPEN

/// A mark in a stream. Destroyed when its last holder lets go; the runtime keeps what is still waited for.
class Event {
  public:
    /// On a device. flags: rt::EventFlags.
    static std::shared_ptr<Event> create(int device, unsigned flags = rt::EventDisableTiming) {
        refuse_forked();
        const DeviceGuard guard(device);
        rt::Event_t handle{};
        check(rt::EventCreateWithFlags(&handle, flags), "EventCreateWithFlags");
        detail::watch_exit();
        const bool timed = (flags & rt::EventDisableTiming) == 0;
        return std::shared_ptr<Event>(new Event(handle, device, true, timed, nullptr));
    }

    /// Somebody else's event: never destroyed here, `owner` kept alive instead.
    static std::shared_ptr<Event> from_handle(rt::Event_t handle, int device, std::shared_ptr<void> owner = nullptr) {
        return std::shared_ptr<Event>(new Event(handle, device, false, true, std::move(owner)));
    }

    ~Event() {
        if (!owned_ || !runtime_usable()) return;
        detail::unlocked([this] {
            try {
                const DeviceGuard guard(device_);
                (void)rt::EventDestroy(handle_);
            } catch (...) {
                // The device is gone, and its events with it.
            }
        });
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    rt::Event_t handle() const noexcept { return handle_; }
    int device() const noexcept { return device_; }

    /// What the latest record() of a Stream here has made of it. Others may have recorded it since.
    enum class Mark { None, Work, Captured };
    Mark mark() const noexcept { return mark_.load(std::memory_order_relaxed); }
    void set_mark(Mark mark) const noexcept { mark_.store(mark, std::memory_order_relaxed); }

    /// True when the work before the mark has run, or there is no mark yet. Of a mark in a capture, which never runs
    /// itself, nobody asks, here and below: std::invalid_argument, and the capture stays valid.
    bool query() const {
        refuse_forked();
        refuse_captured("query");
        const RelaxedCapture beside(device_);
        return check_ready(rt::EventQuery(handle_), "EventQuery");
    }

    /// Blocks until then.
    void synchronize() const {
        refuse_forked();
        refuse_captured("synchronize");
        const RelaxedCapture beside(device_);
        check(rt::EventSynchronize(handle_), "EventSynchronize");
    }

    /// Milliseconds from this mark to `end`; both events need timing.
    float elapsed_time(const Event& end) const {
        refuse_forked();
        if (!timed_ || !end.timed_) {
            throw std::invalid_argument("the time between events needs both to measure it: make them with timing=True");
        }
        refuse_captured("elapsed_time");
        end.refuse_captured("elapsed_time");
        const DeviceGuard guard(device_);
        float milliseconds = 0;
        const rt::Error_t answer = rt::EventElapsedTime(&milliseconds, handle_, end.handle_);
        // NotReady is a refusal here: there is no time to give.
        if (answer != rt::Error_t::Success) detail::raise(answer, "EventElapsedTime");
        return milliseconds;
    }

  private:
    void refuse_captured(const char* what) const {
        if (mark() != Mark::Captured) return;
        throw std::invalid_argument(std::string(what) +
                                    " of an event that was recorded while its stream was captured: "
                                    "record it again outside of the capture");
    }

    Event(rt::Event_t handle, int device, bool owned, bool timed, std::shared_ptr<void> owner)
        : handle_(handle), device_(device), owned_(owned), timed_(timed), owner_(std::move(owner)) {}

    rt::Event_t handle_;
    int device_;
    bool owned_;
    bool timed_;  // of a foreign event: for all we know
    std::shared_ptr<void> owner_;
    mutable std::atomic<Mark> mark_{Mark::None};
};

PORTAMEM_CLOSE
