// SPDX-License-Identifier: MIT
// portamem/stream.hpp: in-order queues of work.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "portamem/declared_work.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/device.hpp"
#include "portamem/handle_use.hpp"
#include "portamem/kept.hpp"
#include "portamem/stream_users.hpp"

PORTAMEM_OPEN

/// Represents a stream: an in-order queue of work on a device.
/// An identity that is never reused names it, because vendors hand out handles again.
/// - Work that was submitted still runs after close(). Using a closed stream throws std::invalid_argument.
/// - It is thread-safe, close() included: a call of another thread that has begun keeps the handle until it returns,
///   and later calls are refused.
class Stream : public std::enable_shared_from_this<Stream> {
  public:
    /// Makes a new stream, whose handle close() or the end of the last holder destroys. flags: rt::StreamFlags.
    /// priority: a smaller number is a higher priority (Device::stream_priority_range); the runtime clamps it. Throws
    /// Error.
    static std::shared_ptr<Stream> create(int device, unsigned flags = rt::StreamNonBlocking, int priority = 0);

    /// Wraps a stream that the caller owns: it is never destroyed here, and `owner` is kept alive instead.
    /// - The values that vendors and exchange protocols reserve (0 and 1 legacy, 2 per-thread) give the device's
    ///   default streams, which do not keep `owner`.
    /// - ends_announced: the caller promises to close() the stream before the handle is destroyed. Letting go of the
    ///   Stream is not enough, because other holders may keep it.
    /// - With an owner or that promise, memory of pools is freed on the stream as on a stream made here.
    ///
    /// For a bare handle (neither of the two) pools look for an identity in this order:
    /// - The Stream that tells the handle's end, where the process has one.
    /// - The number of the handle's stream, where the runtime numbers streams and only the device reaches the memory.
    ///   After some uses, memory that a thread freed on the handle serves its next allocation there. Where the vendor
    ///   has given the handle to a new stream, an allocation notices it; memory that was freed on the old stream then
    ///   waits for the device.
    /// - Otherwise each free costs an event.
    ///
    /// In the first two cases a thread that names a bare handle again usually gets the same object, until that is
    /// closed or the handle is another stream's. Otherwise each call makes an object.
    static std::shared_ptr<Stream> from_handle(rt::Stream_t handle, int device, std::shared_ptr<void> owner = nullptr,
                                               bool ends_announced = false);
    /// Does the same for a bare handle, but makes an object at each call, so that no other holder closes it. A default
    /// stream is the shared object, which no call closes.
    static std::shared_ptr<Stream> from_handle_alone(rt::Stream_t handle, int device);
    /// Returns the Stream that a call with a bare handle uses at once, without counting a reference. It is null where
    /// the caller has to ask from_handle.
    static const std::shared_ptr<Stream>* of_this_thread(rt::Stream_t handle, int device);

    /// Returns the legacy default stream of a device: one object per device in the process, which is never closed.
    static std::shared_ptr<Stream> default_stream(int device);

    /// Returns the calling thread's own default stream of a device. Only that thread may submit to it.
    static std::shared_ptr<Stream> per_thread(int device);

    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// Returns the native handle. It is valid within a Use, or until the stream is closed or destroyed. Throws
    /// std::invalid_argument if the stream is closed, and for a per-thread stream of another thread, because the same
    /// handle means another stream on each thread.
    rt::Stream_t handle() const {
        if (is_elsewhere() || is_closed() || end_->users.is_refused_here()) refuse_use();
        if (told_end_ && told_end_->users.is_refused_here()) refuse_use();
        return handle_;
    }
    /// Returns whether both streams have the same handle, even if one of them has been closed since.
    bool has_handle_of(const Stream& other) const noexcept {
        return device_ == other.device_ && handle_ == other.handle_;  // default streams have one handle on all devices
    }

    /// Keeps the handle valid for its scope: every call that hands it to the runtime is within one. close() on another
    /// thread waits for the end of the scope. It is false where the stream is closed or being closed, or belongs to
    /// another thread.
    class Use {
      public:
        explicit Use(const Stream& stream) noexcept
            : is_here_(!stream.is_elsewhere()),
              use_(stream.is_default() ? nullptr : &stream.end_->users),
              use_of_told_(stream.told_end_ ? &stream.told_end_->users : nullptr) {}
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

        explicit operator bool() const noexcept { return is_here_ && use_ && use_of_told_; }

      private:
        friend class Stream;
        struct Needed {};
        Use(const Stream& stream, Needed) : Use(stream) {
            if (!*this) stream.refuse_use();
        }

        const bool is_here_;
        const detail::StreamUsers::Use use_;
        const detail::StreamUsers::Use use_of_told_;
    };
    /// Returns a use; throws std::invalid_argument where the use would be false.
    [[nodiscard]] Use in_use() const { return Use(*this, Use::Needed{}); }

    int device() const noexcept { return device_; }
    std::uint64_t identity() const noexcept { return identity_; }
    /// Returns the identity by which pools know memory that is freed on this stream: for a bare handle, the identity of
    /// its stream's use.
    std::uint64_t memory_identity() const noexcept {
        if (__builtin_expect(use_ == nullptr, 1)) return memory_identity_;
        return use_->is_of_this_thread() && use_->is_followed() ? use_->identity() : identity_;
    }
    /// Returns the use of a bare handle whose end no Stream tells; null for every other stream.
    detail::HandleUse* handle_use() const noexcept { return use_.get(); }
    /// Returns whether this is the Stream of a bare handle, and pools know its memory as memory of `told`.
    bool stands_for(const Stream& told) const noexcept {
        return use_ == nullptr && memory_identity_ == told.identity_ && &told != this;
    }
    /// Returns the stream that tells the end of this handle, mostly this one. It is null once that stream has ended.
    std::shared_ptr<Stream> teller() {
        if (memory_identity_ == identity_) return tells_its_end_ ? shared_from_this() : nullptr;
        auto told = told_.lock();
        return told && !told->is_closed() ? told : nullptr;
    }
    bool is_default() const noexcept { return kind_ == Kind::Legacy || kind_ == Kind::PerThread; }
    bool is_per_thread() const noexcept { return kind_ == Kind::PerThread; }
    /// Returns whether this is a per-thread stream of another thread. tail() can wait for it, and no other call can use
    /// it.
    bool is_elsewhere() const noexcept { return kind_ == Kind::PerThread && thread_ != detail::this_thread_number(); }
    /// Returns whether the stream is closed. A stream of a bare handle is also closed once the stream that tells the
    /// handle's end is closed or destroyed.
    bool is_closed() const noexcept {
        return end_->is_closed.load(std::memory_order_acquire) || (told_end_ && told_end_->is_closed.load());
    }
    /// Returns whether any thread may take its tail() at any later time, closed or not. It is false for two kinds of
    /// stream:
    /// - a per-thread stream, because only its own thread can mark it;
    /// - a foreign stream with neither an owner nor the promise to announce its end, because its handle may be gone
    ///   unnoticed.
    bool can_be_marked_later() const noexcept { return tells_its_end_ && !is_per_thread(); }
    /// Returns whether portamem made it non-blocking, so that no default stream's work is ordered with its work. It is
    /// false for a foreign stream.
    bool is_known_nonblocking() const noexcept { return is_known_nonblocking_; }
    /// Returns what the runtime says: whether its work runs unordered with the work of the legacy default stream. It is
    /// false for a default stream. Throws std::invalid_argument if the stream is closed or captured.
    bool is_nonblocking() const {
        if (is_default()) return false;
        const Use use = in_use();
        refuse_capture("is_nonblocking");  // the question would invalidate the capture
        unsigned flags = 0;
        check(rt::StreamGetFlags(handle_, &flags), "StreamGetFlags");
        return (flags & rt::StreamNonBlocking) != 0;
    }
    /// Returns the priority; a smaller number is a higher priority. Throws std::invalid_argument if the stream is
    /// closed.
    int priority() const {
        const Use use = in_use();
        const DeviceGuard guard(device_);
        int priority = 0;
        check(rt::StreamGetPriority(handle_, &priority), "StreamGetPriority");
        return priority;
    }

    /// Returns whether portamem learns of its end. It does not for a foreign stream with neither an owner nor the
    /// promise.
    bool tells_its_end() const noexcept { return tells_its_end_; }
    /// Tells the listener when the stream ends, as long as the listener lives. Returns false, and tells nothing, once
    /// the stream has ended.
    bool listen(const std::weak_ptr<StreamListener>& listener);

    /// Notes that work on this stream is about to use memory, and returns the number of that use for has_run().
    std::uint64_t declare() noexcept {
        const std::uint64_t number = work_->declare();
        if (number == 1) list_work();
        return number;
    }
    /// Returns whether a question or a wait has shown that all uses up to a number have run. Makes no runtime call.
    bool has_run(std::uint64_t number) const noexcept { return work_->has_run(number); }
    /// Asks the runtime whether all work has run, and notes it for has_run(). It is called before a fork, because the
    /// child cannot ask. It does not ask about a foreign handle that may be gone.
    void note_what_has_run() const noexcept;

    /// Returns all work that was declared on the stream until now.
    detail::DeclaredSoFar declared_so_far() const noexcept { return {work_, work_->declared()}; }

    /// Returns whether all work has run; does not wait. If it has, portamem drops the references that it held for that
    /// work (owners of host memory, dropped buffers). Throws std::invalid_argument if the stream is closed or captured.
    bool query();

    /// Blocks until all work submitted so far has run, and drops the references that query() drops. Throws as query()
    /// does.
    void synchronize();

    /// Returns whether all work has run, for portamem's own needs: it drops no references. For a closed stream it tells
    /// of the work that was queued before the close. It is false for a captured stream, for another thread's per-thread
    /// stream, and where the runtime cannot be asked.
    bool is_idle() const noexcept;

    /// Blocks as synchronize() does, but drops only the references that this stream keeps (keep). It asks first whether
    /// the work has run, which takes less time where it mostly has.
    void settle();

    /// Does what settle() does, for callers that hold a RelaxedCapture and have made sure that the stream is not
    /// captured. Where this thread hears signals, it asks until the work has run, and the runtime's blocking call is
    /// left out.
    void finish();

    /// Stands before a call that waits for the work as well. It blocks where this thread has signals to hear meanwhile,
    /// and returns what hear_until does.
    bool hear_until_idle() const;

    /// Blocks as synchronize() does, but what the work kept alive is let go later.
    void wait_for_work() const;

    /// Marks the stream's present end. Under capture the mark belongs to the graph: streams may wait for it, and asking
    /// it throws. Throws std::invalid_argument if the stream is closed, and for an event of another device, which
    /// runtimes refuse.
    void record(const Event& event) const;
    /// Does the same for a caller that knows of no capture, or that never asks the event.
    void record_unasked(const Event& event) const;

    /// Returns a new event at the stream's present end, or the last event of a closed stream. It is null where no work
    /// is left to wait for. For another thread's per-thread stream the call waits for the device, and returns null.
    /// `blank`: an event of this device to use in place of a new one. Throws std::invalid_argument while a capture
    /// forbids it.
    std::shared_ptr<Event> tail(std::shared_ptr<Event> blank = nullptr);

    /// Makes later work on this stream wait for the event's mark; the host does not wait. Throws std::invalid_argument
    /// if the stream is closed, and if a captured stream would wait for work outside its capture, which stays valid.
    void wait(const Event& event) const;
    /// Makes later work on this stream wait for all work that is on `other` now; the host does not wait. For another
    /// thread's per-thread stream, the host waits for the device instead. Throws as the wait for an event does.
    void wait(Stream& other);

    /// Runs a function on a thread of the runtime, in stream order. The function may call neither the runtime nor
    /// portamem. The caller keeps user_data alive until the function has run; portamem does not.
    void launch_host_func(rt::HostFn_t fn, void* user_data) const;

    /// Keeps references until `until`, an event recorded on this stream, has happened.
    void keep(std::shared_ptr<Event> until, Kept::References references);

    /// Lets go of what finished work kept. drain_all also waits for other threads that are letting go of it.
    void drain() noexcept { kept_.drain(); }
    void drain_all() noexcept { kept_.drain_all(); }

    /// Returns how a capture of the stream stands. The legacy default stream counts as captured while a capture of
    /// another stream forbids its use. Throws std::invalid_argument if the stream is closed.
    rt::StreamCaptureStatus capture_status() const;

    /// Throws std::invalid_argument if the stream is captured or closed. It stands before a call that a capture
    /// forbids, so that the capture stays valid. what: the call, for the message.
    void refuse_capture(const char* what) const { refuse(capture_status(), what); }

    /// Does the same for a caller that only waits for the stream: a closed stream has its mark already, and is not
    /// asked.
    void refuse_capture_if_open(const char* what) const;

    /// Begins to capture work that is submitted to the stream; the work does not run meanwhile. Throws
    /// std::invalid_argument for a default stream, and if the stream is closed or captured; Error if the runtime
    /// refuses.
    void begin_capture(rt::StreamCaptureMode mode) const;

    /// Ends the capture and drops its graph, because portamem launches none: the captured work never runs. Unless the
    /// mode was Relaxed, the thread that began the capture ends it. Throws std::invalid_argument if the stream is
    /// closed, and Error if the capture has become invalid or the runtime refuses.
    void end_capture() const;

    /// Closes the stream, and tells its listeners its last event. Work that was queued still runs. A second close does
    /// nothing.
    /// - It waits for calls of other threads that queue work on the stream. A thread that waits for the stream's work
    ///   goes on, and the last of these destroys the handle.
    /// - It does not destroy a handle that portamem did not make, and waits for those threads as well.
    /// - Throws std::invalid_argument for a default stream, under capture, and inside a call of this thread that uses
    ///   the stream. Throws Error if the runtime refuses; the stream stays open then.
    void close();

  private:
    enum class Kind { Owned, Foreign, Legacy, PerThread };

    Stream(rt::Stream_t handle, int device, Kind kind, std::shared_ptr<void> owner, bool ends_announced)
        : handle_(handle),
          device_(device),
          kind_(kind),
          tells_its_end_(kind != Kind::Foreign || owner || ends_announced),
          owner_(std::move(owner)) {}

    struct ForItself {};
    Stream(const Stream& other, ForItself)
        : handle_(other.handle_),
          device_(other.device_),
          kind_(Kind::Foreign),
          tells_its_end_(false),
          use_(other.use_),
          told_(other.told_),
          told_end_(other.told_end_) {
        if (other.memory_identity_ != other.identity_) memory_identity_ = other.memory_identity_;
    }

    // detail/stream_lookup.hpp has these: which Stream stands for a handle.
    friend class detail::HandlesOfThread;
    static const std::shared_ptr<Stream>& shared_default(int device);
    static std::shared_ptr<Stream> of_handle(rt::Stream_t handle, int device, const std::shared_ptr<Stream>& told);
    static std::shared_ptr<Stream> of_handle(rt::Stream_t handle, int device, std::shared_ptr<detail::HandleUse> use);
    static std::shared_ptr<Stream> known(std::shared_ptr<Stream> stream);
    static std::shared_ptr<Stream> make(rt::Stream_t handle, int device, Kind kind, std::shared_ptr<void> owner,
                                        bool ends_announced = false);

    // detail/stream_waits.hpp has these: asking and waiting for the work.
    class Waiting;
    class Keeping;
    bool has_run_now(const char* what) const;
    void list_work() noexcept;

    // detail/stream_marks.hpp has these: events at the end of the work.
    void record_in_use(const Event& event) const;
    std::shared_ptr<Event> last();
    std::shared_ptr<Event> last_under_lock() const;

    // detail/stream_capture.hpp has these: captures, and what they forbid.
    bool is_in_capture() const;
    rt::StreamCaptureStatus status_unasked() const;
    rt::StreamCaptureStatus status_here() const;
    void refuse(rt::StreamCaptureStatus status, const char* what) const;
    void count_capture(bool open) const noexcept;

    // detail/stream_close.hpp has these: the end of the stream.
    class Closer;
    void destroy_unasked() const noexcept;
    void mark_closed(bool closed, std::shared_ptr<Event> last);
    void tell_end(const std::shared_ptr<Event>& last) noexcept;
    bool tell_end_unasked(bool is_stood_for) noexcept;

    [[noreturn, gnu::cold, gnu::noinline]] void refuse_use() const {
        if (is_elsewhere()) {
            throw std::invalid_argument("a per-thread default stream belongs to its own thread: use it there");
        }
        throw std::invalid_argument("the stream is closed");
    }

    // Returns the end of the stream that destroys the handle. The handle lives while this is not closed and its lock is
    // held.
    detail::StreamEnd& end_of_handle() const noexcept { return told_end_ ? *told_end_ : *end_; }

    const rt::Stream_t handle_;
    const int device_;
    const Kind kind_;
    bool is_known_nonblocking_ = false;  // written before other threads know the stream
    const bool tells_its_end_;
    const std::uint64_t identity_ = portamem_new_identity();
    std::uint64_t memory_identity_ = identity_;  // another's where that tells the end of this handle
    std::shared_ptr<detail::HandleUse> use_;     // of a bare handle, where the runtime numbers streams
    // Name the stream that tells the end of this handle, and its end. They are null where this stream tells its own.
    std::weak_ptr<Stream> told_;
    std::shared_ptr<detail::StreamEnd> told_end_;
    bool is_known_ = false;
    const std::uint64_t thread_ = detail::this_thread_number();
    std::shared_ptr<void> owner_;
    Kept kept_;
    const std::shared_ptr<detail::DeclaredWork> work_ = detail::shared<detail::DeclaredWork>(device_);
    std::atomic<bool> reaped_{false};
    mutable std::atomic<bool> captured_here_{false};
    std::mutex closing_;                    // one thread closes at a time
    std::atomic<std::uint64_t> closer_{0};  // the number of that thread
    const std::shared_ptr<detail::StreamEnd> end_ = detail::shared<detail::StreamEnd>();
    detail::LightVector<std::weak_ptr<StreamListener>> listeners_;  // under the lock of end_
};

PORTAMEM_CLOSE

#include "portamem/detail/stream_capture.hpp"
#include "portamem/detail/stream_close.hpp"
#include "portamem/detail/stream_lookup.hpp"
#include "portamem/detail/stream_marks.hpp"
#include "portamem/detail/stream_waits.hpp"
#include "portamem/detail/unfinished_work.hpp"
#include "portamem/handles_of_thread.hpp"
