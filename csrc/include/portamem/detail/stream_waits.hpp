// SPDX-License-Identifier: MIT
// portamem/detail/stream_waits.hpp: asking and waiting for the work of a stream, and what the work kept.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/detail/hearing.hpp"
#include "portamem/leaving.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

// Lets go of what the stream keeps as the work runs.
class Stream::Keeping : public detail::Leaver {
  public:
    explicit Keeping(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
    bool has_run() noexcept override { return stream_->kept_.can_drain(); }
    bool go() noexcept override {
        stream_->kept_.drain();
        if (!stream_->kept_.empty()) return false;
        stream_->reaped_.store(false);
        return stream_->kept_.empty() || stream_->reaped_.exchange(true);
    }

  private:
    const std::shared_ptr<Stream> stream_;
};

// Represents a call that waits for the stream's work. close() does not wait for it, except where the handle is
// foreign.
class Stream::Waiting {
  public:
    explicit Waiting(const Stream& stream)
        : stream_(stream),
          wait_(stream.is_default() ? nullptr : &stream.end_->users),
          wait_for_told_(stream.told_end_ ? &stream.told_end_->users : nullptr) {
        if (!wait_ || !wait_for_told_ || stream.is_elsewhere()) stream.refuse_use();
    }
    ~Waiting() {
        const bool is_last = wait_for_told_.end();  // the latter first, as scopes end
        if (wait_.end() || is_last) detail::unlocked([this] { stream_.destroy_unasked(); });
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

  private:
    const Stream& stream_;
    detail::StreamUsers::Wait wait_;
    detail::StreamUsers::Wait wait_for_told_;
};

inline void Stream::note_what_has_run() const noexcept {
    const detail::DeclaredSoFar so_far = declared_so_far();
    if (!tells_its_end_ || work_->has_run(so_far.number)) return;
    const detail::UntrackedQueries own;
    if (is_idle()) so_far.note_run();
}

inline bool Stream::query() {
    refuse_forked();
    const RelaxedCapture beside(device_);
    if (!has_run_now("query")) return false;
    kept_.drain();
    detail::Leaving::instance().let_go(detail::Leaving::Caller::Asks);
    return true;
}

inline void Stream::synchronize() {
    refuse_capture("synchronize");
    const RelaxedCapture beside(device_);
    wait_for_work();  // close() of another thread does not wait for this
    kept_.drain_all();
    detail::Leaving::instance().let_go(detail::Leaving::Caller::Waits);
}

inline bool Stream::is_idle() const noexcept {
    try {
        const std::lock_guard<std::mutex> lock(end_of_handle().mutex);  // close() cannot run meanwhile
        if (is_closed()) {
            const auto last = last_under_lock();
            return !last || last->has_happened();
        }
        if (is_elsewhere() || status_unasked() != rt::StreamCaptureStatus::None) return false;
        const RelaxedCapture beside(device_);
        return rt::StreamQuery(handle_) == rt::Error_t::Success;
    } catch (const std::exception&) {
        return false;
    }
}

inline void Stream::settle() {
    refuse_forked();
    const RelaxedCapture beside(device_);
    if (!has_run_now("synchronize")) return finish();
    kept_.drain_all();
}

inline void Stream::finish() {
    {
        const Waiting waiting(*this);
        const auto declared = work_->declared();
        if (!hear_until_idle()) check(rt::StreamSynchronize(handle_), "StreamSynchronize");
        work_->note_run(declared);
    }
    kept_.drain_all();
}

inline bool Stream::hear_until_idle() const {
    const Waiting waiting(*this);
    return detail::hear_until([this] { return check_ready(rt::StreamQuery(handle_), "StreamSynchronize"); });
}

inline void Stream::wait_for_work() const {
    const Waiting waiting(*this);
    const auto declared = work_->declared();
    (void)hear_until_idle();
    check(rt::StreamSynchronize(handle_), "StreamSynchronize");
    work_->note_run(declared);
}

inline void Stream::keep(std::shared_ptr<Event> until, Kept::References references) {
    kept_.keep(std::move(until), std::move(references));
    if (reaped_.exchange(true)) return;
    // Leaving holds the stream, because the references outlive the last holder of the stream, as the work does.
    detail::Leaving::instance().add(std::shared_ptr<detail::Leaver>(new Keeping(shared_from_this())));
}

// Answers query() with the stream's device current and beside captures, and lets go of nothing.
inline bool Stream::has_run_now(const char* what) const {
    const Use use = in_use();
    refuse(status_here(), what);
    const auto declared = work_->declared();
    if (!check_ready(rt::StreamQuery(handle_), "StreamQuery")) return false;
    work_->note_run(declared);
    return true;
}

inline void Stream::list_work() noexcept {
    work_->stream = weak_from_this();
    detail::DeclaredWorks::add(work_);
}

PORTAMEM_CLOSE
