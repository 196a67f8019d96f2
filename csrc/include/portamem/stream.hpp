// SPDX-License-Identifier: MIT
// portamem/stream.hpp: in-order queues of work.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "portamem/declared_work.hpp"
#include "portamem/detail/hearing.hpp"
#include "portamem/detail/number_map.hpp"
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
    /// Makes a new stream. flags: rt::StreamFlags.
    static std::shared_ptr<Stream> create(int device, unsigned flags = rt::StreamNonBlocking, int priority = 0) {
        refuse_forked();
        const DeviceGuard guard(device);
        rt::Stream_t handle{};
        check(rt::StreamCreateWithPriority(&handle, flags, priority), "StreamCreateWithPriority");
        detail::watch_exit();
        auto made = make(handle, device, Kind::Owned, nullptr);
        made->is_known_nonblocking_ = (flags & rt::StreamNonBlocking) != 0;
        return known(std::move(made));
    }

    /// Wraps a stream that the caller owns: it is never destroyed here, and `owner` is kept alive instead.
    /// - The values that vendors and exchange protocols reserve (0 and 1 legacy, 2 per-thread) give the device's
    ///   default streams.
    /// - ends_announced: the caller promises to close() the stream before the handle is destroyed. Letting go of the
    ///   Stream is not enough, because other holders may keep it.
    /// - With an owner or that promise, memory of pools is freed on the stream as on a stream made here.
    ///
    /// For a bare handle (neither of the two) pools look for an identity in this order:
    /// - The Stream that tells the handle's end, where the process has one.
    /// - The number of the handle's stream, where the runtime numbers streams and only the device reaches the memory.
    ///   After some uses, memory that a thread freed on the handle serves its next allocation there. A handle may be
    ///   destroyed and given out again: an allocation notices that, and memory freed before it waits for the device.
    /// - Otherwise each free costs an event.
    ///
    /// A thread that names a bare handle again gets the same object, until that is closed or the handle is another
    /// stream's.
    static std::shared_ptr<Stream> from_handle(rt::Stream_t handle, int device, std::shared_ptr<void> owner = nullptr,
                                               bool ends_announced = false) {
        const auto value = reinterpret_cast<std::uintptr_t>(handle);
        if (value <= 1 || handle == rt::StreamLegacy()) return default_stream(device);
        if (value == 2 || handle == rt::StreamPerThread()) return per_thread(device);
        if (owner.use_count() != 0 || ends_announced) {
            auto made = make(handle, device, Kind::Foreign, std::move(owner), ends_announced);
            return made->tells_its_end_ ? known(std::move(made)) : made;
        }
        refuse_forked();
        const auto* found = detail::HandlesOfThread::find(handle, device);
        auto* const use = found == nullptr ? nullptr : (*found)->handle_use();
        // The vendor may have given the handle out again. Then the use ends, and the thread gets another Stream.
        if (use != nullptr && !use->is_same()) found = detail::HandlesOfThread::find(handle, device);
        if (found != nullptr) return *found;
        return make(handle, device, Kind::Foreign, nullptr);
    }
    /// Does the same for a bare handle, but returns an object of its own, which no other holder can close.
    static std::shared_ptr<Stream> from_handle_alone(rt::Stream_t handle, int device) {
        const std::shared_ptr<Stream> shared = from_handle(handle, device);
        if (shared->is_default()) return shared;
        return std::shared_ptr<Stream>(new Stream(*shared, ForItself{}));
    }
    /// Returns the Stream that a call with a bare handle uses at once, without counting a reference. It is null where
    /// the caller has to ask from_handle.
    static const std::shared_ptr<Stream>* of_this_thread(rt::Stream_t handle, int device) {
        const auto value = reinterpret_cast<std::uintptr_t>(handle);
        if (value <= 1 || handle == rt::StreamLegacy()) return &shared_default(device);
        if (value == 2 || handle == rt::StreamPerThread()) return nullptr;
        return detail::HandlesOfThread::find(handle, device);
    }

    /// Returns the legacy default stream of a device: one object per device in the process, which is never closed.
    static std::shared_ptr<Stream> default_stream(int device) {
        refuse_forked();
        return shared_default(device);
    }

    /// Returns the calling thread's own default stream of a device. Only that thread may submit to it.
    static std::shared_ptr<Stream> per_thread(int device) {
        static thread_local detail::NumberMap<int, std::shared_ptr<Stream>> streams;
        std::shared_ptr<Stream>& stream = streams[device];
        if (!stream) stream = make(rt::StreamPerThread(), device, Kind::PerThread, nullptr);
        return stream;
    }

    ~Stream() {
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
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// Returns the native handle of an open stream. It is valid within a Use, or until the stream is closed or
    /// destroyed. A per-thread stream's handle means another stream on every other thread, so other threads get
    /// std::invalid_argument.
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
    bool is_nonblocking() const {
        if (is_default()) return false;
        const Use use = in_use();
        refuse_capture("is_nonblocking");  // the question would invalidate the capture
        unsigned flags = 0;
        check(rt::StreamGetFlags(handle_, &flags), "StreamGetFlags");
        return (flags & rt::StreamNonBlocking) != 0;
    }
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
    bool listen(const std::weak_ptr<StreamListener>& listener) {
        std::lock_guard<std::mutex> lock(end_->mutex);
        if (is_closed()) return false;
        // A legacy stream never ends. A per-thread stream ends unseen, at some moment of its thread's end.
        if (is_default()) return true;
        const auto is_same = [&listener](const std::weak_ptr<StreamListener>& l) {
            return !l.owner_before(listener) && !listener.owner_before(l);
        };
        if (std::any_of(listeners_.begin(), listeners_.end(), is_same)) return true;
        if (listeners_.size() == listeners_.capacity()) {
            const auto is_gone = [](const std::weak_ptr<StreamListener>& l) { return l.expired(); };
            listeners_.erase(std::remove_if(listeners_.begin(), listeners_.end(), is_gone), listeners_.end());
        }
        listeners_.push_back(listener);
        return true;
    }

    /// Notes that work on this stream is about to use memory, and returns the number of that use for has_run().
    std::uint64_t declare() noexcept {
        const std::uint64_t number = work_->declare();
        if (number == 1) list_work();
        return number;
    }
    /// Returns whether a question or a wait has shown that all uses up to a number have run. Makes no runtime call.
    bool has_run(std::uint64_t number) const noexcept { return work_->has_run(number); }
    /// Asks the runtime and notes which uses have run, for a forked child, which cannot ask. It does not ask about a
    /// foreign handle that may be gone.
    void note_what_has_run() const noexcept {
        const detail::DeclaredSoFar so_far = declared_so_far();
        if (!tells_its_end_ || work_->has_run(so_far.number)) return;
        const detail::UntrackedQueries own;
        if (is_idle()) so_far.note_run();
    }

    /// Returns all work that was declared on the stream until now.
    detail::DeclaredSoFar declared_so_far() const noexcept { return {work_, work_->declared()}; }

    /// Returns whether all work has run; does not wait. If it has, portamem drops the references that it held for that
    /// work (owners of host memory, dropped buffers). Throws std::invalid_argument if the stream is closed or captured.
    bool query() {
        refuse_forked();
        const RelaxedCapture beside(device_);
        if (!has_run_now("query")) return false;
        kept_.drain();
        detail::Leaving::instance().let_go(detail::Leaving::Caller::Asks);
        return true;
    }

    /// Blocks until all work submitted so far has run, and drops the references that query() drops. Throws as query()
    /// does.
    void synchronize() {
        refuse_capture("synchronize");
        const RelaxedCapture beside(device_);
        wait_for_work();  // close() of another thread does not wait for this
        kept_.drain_all();
        detail::Leaving::instance().let_go(detail::Leaving::Caller::Waits);
    }

    /// Returns whether all work has run, for portamem's own needs: it lets go of nothing. For a closed stream it says
    /// whether the last work had run. It is false for a captured stream and for another thread's per-thread stream.
    bool is_idle() const noexcept {
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

    /// Does what synchronize does, for callers that mostly find no work to wait for: it asks first, which takes less
    /// time.
    void settle() {
        refuse_forked();
        const RelaxedCapture beside(device_);
        if (!has_run_now("synchronize")) return finish();
        kept_.drain_all();
    }

    /// Does what synchronize does, for callers that hold a RelaxedCapture and have made sure that no capture is open.
    /// The program asked for no synchronization, so the runtime's call is left out where the work is seen to have run.
    void finish() {
        {
            const Waiting waiting(*this);
            const auto declared = work_->declared();
            if (!hear_until_idle()) check(rt::StreamSynchronize(handle_), "StreamSynchronize");
            work_->note_run(declared);
        }
        kept_.drain_all();
    }

    /// Stands before a call that waits for the work as well. It blocks where this thread has signals to hear meanwhile,
    /// and returns what hear_until does.
    bool hear_until_idle() const {
        const Waiting waiting(*this);
        return detail::hear_until([this] { return check_ready(rt::StreamQuery(handle_), "StreamSynchronize"); });
    }

    /// Blocks as synchronize() does, but what the work kept alive is let go later.
    void wait_for_work() const {
        const Waiting waiting(*this);
        const auto declared = work_->declared();
        (void)hear_until_idle();
        check(rt::StreamSynchronize(handle_), "StreamSynchronize");
        work_->note_run(declared);
    }

    /// Marks the stream's present end. Under capture the mark belongs to the graph: streams may wait for it, and asking
    /// it throws. Throws std::invalid_argument for an event of another device, which runtimes refuse.
    void record(const Event& event) const {
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
    /// Does the same for a caller that knows of no capture, or that never asks the event.
    void record_unasked(const Event& event) const {
        const Use use = in_use();
        record_in_use(event);
    }

    /// Returns a new event at the stream's present end, or the last event of a closed stream. It is null where no work
    /// is left to wait for; the call may have waited for the device instead. `blank`: an event of this device to use.
    std::shared_ptr<Event> tail(std::shared_ptr<Event> blank = nullptr) {
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

    /// Makes later work on this stream wait for the event's mark; the host does not wait. Throws std::invalid_argument
    /// if the stream is closed, and if a captured stream would wait for work outside its capture, which stays valid.
    void wait(const Event& event) const {
        const Use use = in_use();
        if (is_default() || event.mark() == Event::Mark::Work) refuse_capture("waiting for work outside of a capture");
        const DeviceGuard guard(device_);
        check(rt::StreamWaitEvent(handle_, event.handle()), "StreamWaitEvent");
    }
    /// Makes later work on this stream wait for all work that is on `other` now; the host does not wait. For another
    /// thread's per-thread stream, the host waits for the device instead. Throws as the wait for an event does.
    void wait(Stream& other) {
        if (&other == this) return;
        const Use use = in_use();
        if (!is_default() && is_in_capture() && !other.is_in_capture()) {
            refuse_capture("waiting for work outside of a capture");
        }
        if (const auto event = other.tail()) wait(*event);
    }

    /// Runs a function on a thread of the runtime, in stream order. The function may call neither the runtime nor
    /// portamem. The caller keeps user_data alive until the function has run; portamem does not.
    void launch_host_func(rt::HostFn_t fn, void* user_data) const {
        const Use use = in_use();
        if (is_default()) refuse_capture("launch_host_func");
        const DeviceGuard guard(device_);
        check(rt::LaunchHostFunc(handle_, fn, user_data), "LaunchHostFunc");
    }

    /// Keeps references until `until`, an event recorded on this stream, has happened.
    void keep(std::shared_ptr<Event> until, Kept::References references) {
        kept_.keep(std::move(until), std::move(references));
        if (reaped_.exchange(true)) return;
        // Leaving holds the stream, because the references outlive the last holder of the stream, as the work does.
        detail::Leaving::instance().add(std::make_shared<Keeping>(shared_from_this()));
    }

    /// Lets go of what finished work kept.
    void drain() noexcept { kept_.drain(); }

    rt::StreamCaptureStatus capture_status() const {
        refuse_forked();
        if (is_elsewhere()) return rt::StreamCaptureStatus::None;  // it would be asked about this thread's own
        const Use use = in_use();
        return status_unasked();
    }

    /// Throws before a call that a capture forbids, so that the capture stays valid.
    void refuse_capture(const char* what) const { refuse(capture_status(), what); }

    /// Does the same for a caller that only waits for the stream: a closed stream has its mark already, and is not
    /// asked.
    void refuse_capture_if_open(const char* what) const {
        std::lock_guard<std::mutex> lock(end_of_handle().mutex);
        if (!is_closed() && !is_elsewhere()) refuse(status_unasked(), what);
    }

    void begin_capture(rt::StreamCaptureMode mode) const {
        if (is_default()) throw std::invalid_argument("a default stream cannot be captured: create a stream");
        const Use use = in_use();
        refuse_capture("begin_capture");
        const DeviceGuard guard(device_);
        check(rt::StreamBeginCapture(handle_, mode), "StreamBeginCapture");
        count_capture(true);
    }

    /// Ends a capture and drops its graph, because portamem launches none.
    void end_capture() const {
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

    /// Closes the stream, and tells its listeners its last event. Work that was queued still runs. A second close does
    /// nothing.
    /// - It waits for calls of other threads that queue work on the stream. A thread that waits for the stream's work
    ///   goes on, and the last of these destroys the handle.
    /// - It does not destroy a handle that portamem did not make, and waits for those threads as well.
    /// - Throws std::invalid_argument for a default stream, under capture, and inside a call of this thread that uses
    ///   the stream. Throws Error if the runtime refuses; the stream stays open then.
    void close() {
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

  private:
    // Lets go of what the stream keeps as the work runs.
    class Keeping : public detail::Leaver {
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

    // Returns the default stream of a device. A thread that names it again takes no lock and makes no call, also in a
    // forked child, where no other thread may hold the lock for ever.
    static const std::shared_ptr<Stream>& shared_default(int device) {
        struct Defaults {
            std::mutex mutex;
            detail::NumberMap<int, std::shared_ptr<Stream>> streams;
        };
        static thread_local const std::shared_ptr<Stream>* latest = nullptr;  // most threads use one device
        if (__builtin_expect(latest != nullptr && (*latest)->device_ == device, 1)) return *latest;
        refuse_forked();
        static auto& all = detail::process_object<Defaults>("default streams");
        const std::lock_guard<std::mutex> lock(all.mutex);
        std::shared_ptr<Stream>& stream = all.streams[device];
        if (!stream) stream = make(rt::StreamLegacy(), device, Kind::Legacy, nullptr);
        latest = &stream;
        return stream;
    }

    friend class detail::HandlesOfThread;
    // These make a thread's Stream for a handle: the first where `told` tells the handle's end, the second where no
    // Stream does.
    static std::shared_ptr<Stream> of_handle(rt::Stream_t handle, int device, const std::shared_ptr<Stream>& told) {
        auto made = make(handle, device, Kind::Foreign, nullptr);
        made->told_ = told;
        made->told_end_ = told->end_;
        made->memory_identity_ = told->identity_;
        return made;
    }
    static std::shared_ptr<Stream> of_handle(rt::Stream_t handle, int device, std::shared_ptr<detail::HandleUse> use) {
        auto made = make(handle, device, Kind::Foreign, nullptr);
        made->use_ = std::move(use);
        return made;
    }

    // Makes the stream findable by its handle until it ends.
    static std::shared_ptr<Stream> known(std::shared_ptr<Stream> stream) {
        stream->is_known_ = true;
        detail::KnownStreams::instance().add(stream->handle_, stream);
        return stream;
    }

    static std::shared_ptr<Stream> make(rt::Stream_t handle, int device, Kind kind, std::shared_ptr<void> owner,
                                        bool ends_announced = false) {
        return std::shared_ptr<Stream>(new Stream(handle, device, kind, std::move(owner), ends_announced));
    }

    // Notes which thread is within close(), for its scope.
    class Closer {
      public:
        explicit Closer(Stream& stream) noexcept : stream_(stream) {
            stream_.closer_.store(detail::this_thread_number());
        }
        ~Closer() { stream_.closer_.store(0); }
        Closer(const Closer&) = delete;
        Closer& operator=(const Closer&) = delete;

      private:
        Stream& stream_;
    };

    // Represents a call that waits for the stream's work. close() does not wait for it, except where the handle is
    // foreign.
    class Waiting {
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

    [[noreturn, gnu::cold, gnu::noinline]] void refuse_use() const {
        if (is_elsewhere()) {
            throw std::invalid_argument("a per-thread default stream belongs to its own thread: use it there");
        }
        throw std::invalid_argument("the stream is closed");
    }

    void destroy_unasked() const noexcept {
        if (!runtime_usable()) return;
        try {
            const DeviceGuard guard(device_);
            (void)rt::StreamDestroy(handle_);
        } catch (...) {
            // The device is gone, and its streams with it.
        }
    }

    // Answers query() with the stream's device current and beside captures, and lets go of nothing.
    bool has_run_now(const char* what) const {
        const Use use = in_use();
        refuse(status_here(), what);
        const auto declared = work_->declared();
        if (!check_ready(rt::StreamQuery(handle_), "StreamQuery")) return false;
        work_->note_run(declared);
        return true;
    }

    void record_in_use(const Event& event) const {
        const DeviceGuard guard(device_);
        check(rt::EventRecord(event.handle(), handle_), "EventRecord");
    }

    bool is_in_capture() const {
        const Use use(*this);
        return use && status_unasked() != rt::StreamCaptureStatus::None;
    }

    // Returns capture_status within a use, or under the lock of an open stream.
    rt::StreamCaptureStatus status_unasked() const {
        if (!is_default()) return status_here();
        const DeviceGuard guard(device_);
        return status_here();
    }

    // Does the same with the stream's device current.
    rt::StreamCaptureStatus status_here() const {
        const bool counted = captured_here_.load();
        auto status = rt::StreamCaptureStatus::None;
        const rt::Error_t answer = rt::StreamIsCapturing(handle_, &status);
        // The legacy stream reports a capture of another stream: work on it is forbidden just the same.
        if (answer == rt::Error_t::StreamCaptureImplicit) return rt::StreamCaptureStatus::Active;
        check(answer, "StreamIsCapturing");
        if (counted && status == rt::StreamCaptureStatus::None) count_capture(false);  // the program has ended it
        return status;
    }

    void refuse(rt::StreamCaptureStatus status, const char* what) const {
        if (status == rt::StreamCaptureStatus::None) return;
        throw std::invalid_argument(std::string(what) + " is forbidden while " +
                                    (is_default() ? "a stream is captured: name a stream"
                                                  : "its stream is captured: do it before or after the capture"));
    }

    void mark_closed(bool closed, std::shared_ptr<Event> last) {
        std::lock_guard<std::mutex> lock(end_->mutex);
        end_->last = std::move(last);
        end_->is_closed.store(closed, std::memory_order_release);
    }

    std::shared_ptr<Event> last() {
        std::lock_guard<std::mutex> lock(end_->mutex);
        return end_->last;
    }

    // Returns the end of the stream that destroys the handle. The handle lives while this is not closed and its lock is
    // held.
    detail::StreamEnd& end_of_handle() const noexcept { return told_end_ ? *told_end_ : *end_; }
    // Returns the last event of a closed stream. The caller holds the lock of end_of_handle().
    std::shared_ptr<Event> last_under_lock() const {
        if (!told_end_ || told_end_->is_closed) return end_of_handle().last;
        std::lock_guard<std::mutex> lock(end_->mutex);
        return end_->last;
    }

    void tell_end(const std::shared_ptr<Event>& last) noexcept {
        std::vector<std::weak_ptr<StreamListener>> listeners;
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
    bool tell_end_unasked(bool is_stood_for) noexcept {
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

    void list_work() noexcept {
        work_->stream = weak_from_this();
        detail::DeclaredWorks::add(work_);
    }

    // Each capture that began here counts once, whichever call or thread ends it.
    void count_capture(bool open) const noexcept {
        if (captured_here_.exchange(open) != open) detail::open_captures().fetch_add(open ? 1 : -1);
    }

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
    const std::shared_ptr<detail::DeclaredWork> work_ = std::make_shared<detail::DeclaredWork>(device_);
    std::atomic<bool> reaped_{false};
    mutable std::atomic<bool> captured_here_{false};
    std::mutex closing_;                    // one thread closes at a time
    std::atomic<std::uint64_t> closer_{0};  // the number of that thread
    const std::shared_ptr<detail::StreamEnd> end_ = std::make_shared<detail::StreamEnd>();
    std::vector<std::weak_ptr<StreamListener>> listeners_;  // under the lock of end_
};

namespace detail {

/// Notes before a fork what has run, for the child. It asks the runtime about each stream with declared work that is
/// not known to have run, and waits for nothing. Never throws.
inline void note_what_has_run() noexcept {
    if (!runtime_usable() || InHostFunction::here()) return;
    try {
        for (const DeclaredSoFar& unfinished : DeclaredWorks::instance().unfinished(DeclaredWorks::kEveryDevice)) {
            if (const auto stream = unfinished.work->stream.lock()) stream->note_what_has_run();
        }
    } catch (const std::exception&) {
        return;  // the child refuses what is not known to have run
    }
}

inline std::vector<int> busy_devices() noexcept {
    std::vector<int> devices;
    if (!runtime_usable() || InHostFunction::here()) return devices;
    try {
        const UntrackedQueries own;
        for (const auto& stream : KnownStreams::instance().all()) {
            const bool is_known = std::find(devices.begin(), devices.end(), stream->device()) != devices.end();
            if (!is_known && !stream->is_closed() && !stream->is_idle()) devices.push_back(stream->device());
        }
        if (!devices.empty()) devices.push_back(rt::CpuDeviceId);
    } catch (const std::exception&) {
        devices.clear();
    }
    return devices;
}

}  // namespace detail

PORTAMEM_CLOSE

#include "portamem/handles_of_thread.hpp"
