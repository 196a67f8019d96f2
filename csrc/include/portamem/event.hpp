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
#include "portamem/detail/spare_events.hpp"
#include "portamem/device_guard.hpp"
#include "portamem/leaving.hpp"

PORTAMEM_OPEN

/// Marks a point in a stream. The last holder's end destroys the event; the runtime keeps what a stream still waits
/// for.
class Event {
  public:
    /// Makes an event on a device. By default it measures no time. flags: rt::EventFlags. Throws Error if the runtime
    /// refuses.
    static std::shared_ptr<Event> create(int device, unsigned flags = rt::EventDisableTiming) {
        refuse_forked();
        const DeviceGuard guard(device);
        rt::Event_t handle{};
        check(rt::EventCreateWithFlags(&handle, flags), "EventCreateWithFlags");
        detail::watch_exit();
        return owner_of(handle, device, flags);
    }

    /// Makes an event as create does, or takes one that is out of use, for a caller that records it before anyone asks
    /// it. Throws Error if the runtime refuses.
    static std::shared_ptr<Event> create_to_record(int device) {
        refuse_forked();
        const rt::Event_t spare = detail::SpareEvents::instance().take(device);
        return spare != rt::Event_t{} ? owner_of(spare, device, rt::EventDisableTiming) : create(device);
    }

    /// Wraps an event that the caller owns: it is never destroyed here, and `owner` is kept alive instead.
    static std::shared_ptr<Event> from_handle(rt::Event_t handle, int device, std::shared_ptr<void> owner = nullptr) {
        return std::shared_ptr<Event>(new Event(handle, device, false, true, std::move(owner)));
    }

    ~Event() {
        if (!owned_ || !runtime_usable()) return;
        detail::unlocked([this] {
            try {
                if (is_reusable() && detail::SpareEvents::instance().keep(device_, handle_)) return;
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

    /// Returns the handle of the latest record. It changes once the event is recorded again while memory relies on it.
    rt::Event_t handle() const noexcept {
        const rt::Event_t newer = newer_.load(std::memory_order_acquire);
        return __builtin_expect(newer != rt::Event_t{}, 0) ? newer : handle_;
    }
    /// Returns the handle of the record that memory relies on, or of the latest record where no memory relies on one.
    rt::Event_t relied_handle() const noexcept { return handle_; }
    /// Makes memory rely on the present record: the memory goes back once that record has happened. The program holds
    /// the event too, and may record it again before that.
    void rely() const noexcept { is_relied_on_.store(true, std::memory_order_release); }
    /// Stream::record calls this before it records the event again. If memory relies on the present record, the
    /// program's records go to another handle from here on.
    void leave_relied() const {
        if (!is_relied_on_.load(std::memory_order_acquire) || newer_.load() != rt::Event_t{}) return;
        const RelaxedCapture beside(device_);
        rt::Event_t made{};
        check(rt::EventCreateWithFlags(&made, flags_), "EventCreateWithFlags");
        rt::Event_t none{};
        if (!newer_.compare_exchange_strong(none, made)) (void)rt::EventDestroy(made);
    }
    int device() const noexcept { return device_; }
    /// Returns whether the event was made here. For a foreign event the device is what the caller said.
    bool is_owned() const noexcept { return owned_; }

    /// Says what the latest record() by a Stream of portamem made of the event. The program may have recorded it since
    /// by other means.
    enum class Mark { None, Work, Captured };
    Mark mark() const noexcept { return mark_.load(std::memory_order_relaxed); }
    void set_mark(Mark mark) const noexcept { mark_.store(mark, std::memory_order_relaxed); }
    /// Notes the declared work that the mark stands behind. Stream::record notes none first, and the work once the mark
    /// is set.
    void stand_behind(detail::DeclaredSoFar so_far) const { behind_.set(std::move(so_far)); }

    /// Returns whether the work before the mark has run, or there is no mark yet; does not wait. If so, portamem drops
    /// the references that it held for finished work (owners of host memory, dropped buffers). A mark in a capture
    /// never runs by itself, so query() and synchronize() throw std::invalid_argument for it, and the capture stays
    /// valid.
    bool query() const {
        refuse_forked();
        refuse_captured("query");
        if (!has_happened(handle())) return false;
        detail::Leaving::instance().let_go(detail::Leaving::Caller::Asks);
        return true;
    }

    /// Blocks until query() would return true, and drops the same references.
    void synchronize() const {
        refuse_forked();
        refuse_captured("synchronize");
        wait(handle());
        detail::Leaving::instance().let_go(detail::Leaving::Caller::Waits);
    }

    /// These are query() and synchronize() for portamem's own needs, about relied_handle(). They drop no references, so
    /// the caller may hold locks.
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

    /// Returns the milliseconds from this mark to the mark of `end`. Throws Error: NotReady if one of the marks has not
    /// happened, InvalidHandle if an event was never recorded. Throws std::invalid_argument for an event that measures
    /// no time, for events of two devices, and for a mark in a capture.
    float elapsed_time(const Event& end) const {
        refuse_forked();
        if (!timed_ || !end.timed_) {
            throw std::invalid_argument(
                "the time between events needs both to measure it: create both without rt::EventDisableTiming "
                "(timing=True in Python)");
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
        // NotReady is an error here, because there is no time to return yet.
        if (answer != rt::Error_t::Success) detail::raise(answer, "EventElapsedTime");
        return milliseconds;
    }

  private:
    static std::shared_ptr<Event> owner_of(rt::Event_t handle, int device, unsigned flags) {
        const bool timed = (flags & rt::EventDisableTiming) == 0;
        std::shared_ptr<Event> made(new Event(handle, device, true, timed, nullptr));
        made->flags_ = flags;
        return made;
    }

    // An event without a known mark is not: it may have a part in a capture, by which a runtime still knows it.
    bool is_reusable() const noexcept {
        return flags_ == rt::EventDisableTiming && newer_.load() == rt::Event_t{} && mark() == Mark::Work;
    }

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
    // `behind` was read before the runtime was asked, so it belongs to the latest record.
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
    mutable std::atomic<rt::Event_t> newer_{rt::Event_t{}};  // the program's record since memory relies on handle_
    mutable std::atomic<bool> is_relied_on_{false};
    unsigned flags_ = 0;
    int device_;
    bool owned_;
    bool timed_;  // assumed for a foreign event
    std::shared_ptr<void> owner_;
    mutable std::atomic<Mark> mark_{Mark::None};
    mutable detail::MarkedWork behind_;
};

PORTAMEM_CLOSE
