// SPDX-License-Identifier: MIT
// portamem/detail/stream_close.hpp: the end of a stream, and who is told of it.
#pragma once

#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "portamem/detail/hearing.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/device_guard.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

// Notes which thread is within close(), for its scope.
class Stream::Closer {
  public:
    explicit Closer(Stream& stream) noexcept : stream_(stream) { stream_.closer_.store(detail::this_thread_number()); }
    ~Closer() { stream_.closer_.store(0); }
    Closer(const Closer&) = delete;
    Closer& operator=(const Closer&) = delete;

  private:
    Stream& stream_;
};

inline Stream::~Stream() {
    if (is_known_) detail::KnownStreams::instance().remove(handle_, weak_from_this());
    count_capture(false);
    if (end_->is_closed || !runtime_usable()) return;
    const bool is_stood_for = kind_ == Kind::Owned && end_.use_count() > 1;
    bool is_unused = true;
    if (is_stood_for || !listeners_.empty()) {
        detail::unlocked([&] { is_unused = tell_end_unasked(is_stood_for); });
    }
    // The runtime keeps a handle that a call still holds.
    if (kind_ != Kind::Owned || !is_unused || (is_stood_for && end_->users.leave_to_waits())) return;
    detail::unlocked([this] { destroy_unasked(); });
}

inline bool Stream::listen(const std::weak_ptr<StreamListener>& listener) {
    std::lock_guard<std::mutex> lock(end_->mutex);
    if (is_closed()) return false;
    // A legacy stream never ends. A per-thread stream ends unseen, at some moment of its thread's end.
    if (is_default()) return true;
    const auto is_same = [&listener](const std::weak_ptr<StreamListener>& l) {
        return !l.owner_before(listener) && !listener.owner_before(l);
    };
    if (listeners_.any_of(is_same)) return true;
    if (listeners_.size() == listeners_.capacity()) {
        const auto is_gone = [](const std::weak_ptr<StreamListener>& l) { return l.expired(); };
        listeners_.erase_if(is_gone);
    }
    listeners_.push_back(listener);
    return true;
}

inline void Stream::close() {
    refuse_forked();
    if (is_default()) throw std::invalid_argument("a default stream belongs to its device and cannot be closed");
    if (closer_.load() == detail::this_thread_number()) return;  // called by code that its own close() runs
    std::shared_ptr<void> owner;  // let go with no lock held, because that may run the program's code
    std::unique_lock<std::mutex> one(closing_, std::try_to_lock);
    if (!one.owns_lock() && !detail::hear_until([&one] { return one.try_lock(); })) one.lock();
    if (is_closed()) return;
    const Closer closer(*this);
    if (end_->users.is_used_here(kind_ != Kind::Owned)) {
        throw std::invalid_argument(
            "the stream is in use by a call further out on this thread: close it when that has returned");
    }
    refuse_capture("close");
    const RelaxedCapture beside(device_);
    end_->users.refuse(kind_ != Kind::Owned);
    try {
        mark_closed(true, tail());
    } catch (...) {
        end_->users.allow();
        throw;
    }
    if (is_known_) detail::KnownStreams::instance().remove(handle_, weak_from_this());
    tell_end(last());
    // No lock is held here: destroying may wait for the stream's work (HIP's does).
    const bool destroys = kind_ == Kind::Owned && !end_->users.leave_to_waits();
    const rt::Error_t answer = destroys ? rt::StreamDestroy(handle_) : rt::Error_t::Success;
    if (answer != rt::Error_t::Success) {
        mark_closed(false, nullptr);
        end_->users.allow();
    }
    check(answer, "StreamDestroy");
    owner = std::move(owner_);
}

inline void Stream::destroy_unasked() const noexcept {
    if (!runtime_usable()) return;
    try {
        const DeviceGuard guard(device_);
        (void)rt::StreamDestroy(handle_);
    } catch (...) {
        // The device is gone, and its streams with it.
    }
}

inline void Stream::mark_closed(bool closed, std::shared_ptr<Event> last) {
    std::lock_guard<std::mutex> lock(end_->mutex);
    end_->last = std::move(last);
    end_->is_closed.store(closed, std::memory_order_release);
}

inline void Stream::tell_end(const std::shared_ptr<Event>& last) noexcept {
    detail::LightVector<std::weak_ptr<StreamListener>> listeners;
    {
        std::lock_guard<std::mutex> lock(end_->mutex);
        listeners.swap(listeners_);
    }
    for (const auto& listener : listeners) {
        if (const auto told = listener.lock()) told->stream_ended(identity_, last);
    }
}

// Is called by the destructor, where no caller can be told why the stream cannot be marked. Returns false where a
// Stream of the handle is in a call that holds it.
inline bool Stream::tell_end_unasked(bool is_stood_for) noexcept {
    std::shared_ptr<Event> last;
    bool has_end = true;
    bool is_unused = true;
    try {
        // Captured work has no end that a thread could ask for. The listeners keep what they hold.
        has_end = capture_status() == rt::StreamCaptureStatus::None;
        if (is_stood_for) is_unused = !end_->users.is_used_here(false) && end_->users.refuse_for_a_moment();
        if (has_end) last = tail();
    } catch (...) {
        try {
            Device(device_).synchronize();
        } catch (...) {
            has_end = false;  // captured, or the device is gone
        }
    }
    if (is_stood_for) mark_closed(true, last);
    if (has_end) tell_end(last);
    return is_unused;
}

PORTAMEM_CLOSE
