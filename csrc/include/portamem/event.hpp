// SPDX-License-Identifier: MIT
// portamem/event.hpp: marks in streams.
#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "portamem/capture.hpp"
#include "portamem/declared_work.hpp"
#include "portamem/detail/hearing.hpp"
#include "portamem/device_guard.hpp"
#include "portamem/leaving.hpp"

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
        std::shared_ptr<Event> made(new Event(handle, device, true, timed, nullptr));
        made->flags_ = flags;
        return made;
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
                if (const rt::Event_t newer = newer_.load()) (void)rt::EventDestroy(newer);
            } catch (...) {
                // The device is gone, and its events with it.
            }
        });
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    /// Of the latest record. It is another after the event has been recorded again while memory relied on it.
    rt::Event_t handle() const noexcept {
        const rt::Event_t newer = newer_.load(std::memory_order_acquire);
        return __builtin_expect(newer != rt::Event_t{}, 0) ? newer : handle_;
    }
    /// Of the record that memory relies on, or of the latest where none does.
    rt::Event_t relied_handle() const noexcept { return handle_; }
    /// Memory goes back once what is recorded now has happened, whatever becomes of the event: the program has it as well,
    /// and may record it again before that.
    void rely() const noexcept { is_relied_on_.store(true, std::memory_order_release); }
    /// Before it is recorded again: from here on the program's records are of another handle than the one that memory
    /// relies on.
    void leave_relied() const {
        if (!is_relied_on_.load(std::memory_order_acquire) || newer_.load() != rt::Event_t{}) return;
        const RelaxedCapture beside(device_);
        rt::Event_t made{};
        check(rt::EventCreateWithFlags(&made, flags_), "EventCreateWithFlags");
        rt::Event_t none{};
        if (!newer_.compare_exchange_strong(none, made)) (void)rt::EventDestroy(made);
    }
    int device() const noexcept { return device_; }
    /// Whether it was made here: of a foreign one the device is what the caller said.
    bool is_owned() const noexcept { return owned_; }

    /// What the latest record() of a Stream here has made of it. Others may have recorded it since.
    enum class Mark { None, Work, Captured };
    Mark mark() const noexcept { return mark_.load(std::memory_order_relaxed); }
    void set_mark(Mark mark) const noexcept { mark_.store(mark, std::memory_order_relaxed); }
    /// What its mark stands behind from now on: nothing, while it is being set.
    void stand_behind(detail::DeclaredSoFar so_far) const { behind_.set(std::move(so_far)); }

    /// True when the work before the mark has run, or there is no mark yet; what finished work has kept is let go of
    /// then. Of a mark in a capture, which never runs itself, nobody asks, here and below: std::invalid_argument, and the
    /// capture stays valid.
    bool query() const {
        refuse_forked();
        refuse_captured("query");
        if (!has_happened(handle())) return false;
        detail::Leaving::instance().let_go(detail::Leaving::Caller::Asks);
        return true;
    }

    /// Blocks until then, and lets go of what finished work has kept.
    void synchronize() const {
        refuse_forked();
        refuse_captured("synchronize");
        wait(handle());
        detail::Leaving::instance().let_go(detail::Leaving::Caller::Waits);
    }

    /// query() and synchronize() for portamem's own needs, of the record that memory relies on: nothing is let go of, so
    /// that locks may be held.
    bool has_happened() const {
        refuse_forked();
        if (handle() == handle_) refuse_captured("query");
        return has_happened(handle_);
    }
    void wait() const {
        refuse_forked();
        if (handle() == handle_) refuse_captured("synchronize");
        wait(handle_);
    }

    /// Milliseconds from this mark to `end`; both events need timing, and to be of one device.
    float elapsed_time(const Event& end) const {
        refuse_forked();
        if (!timed_ || !end.timed_) {
            throw std::invalid_argument("the time between events needs both to measure it: make them with timing=True");
        }
        if (owned_ && end.owned_ && device_ != end.device_) {
            throw std::invalid_argument("there is no time between an event of device " + std::to_string(device_) +
                                        " and one of device " + std::to_string(end.device_) +
                                        ": record both on one device");
        }
        refuse_captured("elapsed_time");
        end.refuse_captured("elapsed_time");
        const DeviceGuard guard(device_);
        float milliseconds = 0;
        const rt::Error_t answer = rt::EventElapsedTime(&milliseconds, handle(), end.handle());
        // NotReady is a refusal here: there is no time to give.
        if (answer != rt::Error_t::Success) detail::raise(answer, "EventElapsedTime");
        return milliseconds;
    }

  private:
    bool has_happened(rt::Event_t handle) const {
        const RelaxedCapture beside(device_);
        const detail::DeclaredSoFar behind = behind_.get();
        if (!check_ready(rt::EventQuery(handle), "EventQuery")) return false;
        note_run(handle, behind);
        return true;
    }
    void wait(rt::Event_t handle) const {
        const RelaxedCapture beside(device_);
        const detail::DeclaredSoFar behind = behind_.get();
        detail::hear_until([handle] { return check_ready(rt::EventQuery(handle), "EventSynchronize"); });
        check(rt::EventSynchronize(handle), "EventSynchronize");
        note_run(handle, behind);
    }
    // What was read before the runtime was asked is of the latest record.
    void note_run(rt::Event_t handle, const detail::DeclaredSoFar& behind) const {
        if (handle == this->handle()) behind_.note_run(behind);
    }

    void refuse_captured(const char* what) const {
        if (mark() != Mark::Captured) return;
        throw std::invalid_argument(std::string(what) +
                                    " of an event that was recorded while its stream was captured: "
                                    "record it again outside of the capture");
    }

    Event(rt::Event_t handle, int device, bool owned, bool timed, std::shared_ptr<void> owner)
        : handle_(handle), device_(device), owned_(owned), timed_(timed), owner_(std::move(owner)) {}

    const rt::Event_t handle_;
    mutable std::atomic<rt::Event_t> newer_{rt::Event_t{}};  // what the program records since memory relies on handle_
    mutable std::atomic<bool> is_relied_on_{false};
    unsigned flags_ = 0;
    int device_;
    bool owned_;
    bool timed_;  // of a foreign event: for all we know
    std::shared_ptr<void> owner_;
    mutable std::atomic<Mark> mark_{Mark::None};
    mutable detail::MarkedWork behind_;
};

PORTAMEM_CLOSE
