// SPDX-License-Identifier: MIT
// portamem/stream.hpp: in-order queues of work.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "portamem/device.hpp"
#include "portamem/kept.hpp"

PORTAMEM_OPEN

namespace detail {

// A thread's own number. std::thread::id would not do: the system gives it to another once the thread has ended.
inline std::uint64_t this_thread_number() {
    static thread_local const std::uint64_t number = portamem_new_identity();
    return number;
}

}  // namespace detail

class Stream;

/// Told when a stream ends: those who keep something by its identity, such as pools.
class StreamListener {
  public:
    virtual ~StreamListener() = default;
    /// The stream is being closed or destroyed, once and for all, behind `last` (null: nothing to wait for). Its handle
    /// still lives. No lock is held that others take.
    virtual void stream_ended(std::uint64_t identity, std::shared_ptr<Event> last) noexcept = 0;
};

/// A stream of a device. Known by an identity that is never reused, unlike handles, which vendors hand out again.
/// Everything that was submitted still runs after close(); using a closed stream is std::invalid_argument.
/// Thread-safe, but for close() while another thread still submits: as with a file, the handle may be gone by then.
class Stream : public std::enable_shared_from_this<Stream> {
  public:
    /// A new stream. flags: rt::StreamFlags.
    static std::shared_ptr<Stream> create(int device, unsigned flags = rt::StreamNonBlocking, int priority = 0) {
        refuse_forked();
        const DeviceGuard guard(device);
        rt::Stream_t handle{};
        check(rt::StreamCreateWithPriority(&handle, flags, priority), "StreamCreateWithPriority");
        detail::watch_exit();
        return make(handle, device, Kind::Owned, nullptr);
    }

    /// Somebody else's stream: never destroyed here, `owner` kept alive instead. The values that vendors and exchange
    /// protocols reserve (0 and 1 legacy, 2 per-thread) are the device's default streams. ends_announced: the caller's
    /// promise to close() it before the handle is destroyed; to let go of it is not enough, since others may hold it. With
    /// an owner or that promise memory of pools is freed on it as on a stream made here; without both each free there
    /// costs an event.
    static std::shared_ptr<Stream> from_handle(rt::Stream_t handle, int device, std::shared_ptr<void> owner = nullptr,
                                               bool ends_announced = false) {
        const auto value = reinterpret_cast<std::uintptr_t>(handle);
        if (value <= 1 || handle == rt::StreamLegacy()) return default_stream(device);
        if (value == 2 || handle == rt::StreamPerThread()) return per_thread(device);
        return make(handle, device, Kind::Foreign, std::move(owner), ends_announced);
    }

    /// The legacy default stream of a device: one object per device, never closed.
    static std::shared_ptr<Stream> default_stream(int device) {
        struct Defaults {
            std::mutex mutex;
            std::map<int, std::shared_ptr<Stream>> streams;
        };
        static auto* leaked = new Defaults;
        static thread_local const std::shared_ptr<Stream>* latest = nullptr;  // most threads use one device
        refuse_forked();
        if (latest != nullptr && (*latest)->device() == device) return *latest;
        std::lock_guard<std::mutex> lock(leaked->mutex);
        std::shared_ptr<Stream>& stream = leaked->streams[device];
        if (!stream) stream = make(rt::StreamLegacy(), device, Kind::Legacy, nullptr);
        latest = &stream;
        return stream;
    }

    /// The calling thread's own default stream of a device. Only that thread may submit to it.
    static std::shared_ptr<Stream> per_thread(int device) {
        static thread_local std::map<int, std::shared_ptr<Stream>> streams;
        std::shared_ptr<Stream>& stream = streams[device];
        if (!stream) stream = make(rt::StreamPerThread(), device, Kind::PerThread, nullptr);
        return stream;
    }

    ~Stream() {
        count_capture(false);
        if (!closed_ && !listeners_.empty() && runtime_usable()) detail::unlocked([this] { tell_end_unasked(); });
        if (kind_ != Kind::Owned || closed_ || !runtime_usable()) return;
        detail::unlocked([this] {
            try {
                const DeviceGuard guard(device_);
                (void)rt::StreamDestroy(handle_);
            } catch (...) {
                // The device is gone, and its streams with it.
            }
        });
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// The native handle of an open stream. A per-thread stream's means another stream on every other thread, so it is
    /// given on its own thread only (std::invalid_argument elsewhere).
    rt::Stream_t handle() const {
        if (is_elsewhere()) {
            throw std::invalid_argument("a per-thread default stream belongs to its own thread: use it there");
        }
        if (is_closed()) throw std::invalid_argument("the stream is closed");
        return handle_;
    }
    int device() const noexcept { return device_; }
    std::uint64_t identity() const noexcept { return identity_; }
    bool is_default() const noexcept { return kind_ == Kind::Legacy || kind_ == Kind::PerThread; }
    bool is_per_thread() const noexcept { return kind_ == Kind::PerThread; }
    /// A per-thread stream of another thread: it can be waited for, by tail(), and nothing else.
    bool is_elsewhere() const noexcept { return kind_ == Kind::PerThread && thread_ != detail::this_thread_number(); }
    bool is_closed() const noexcept { return closed_.load(std::memory_order_acquire); }
    /// Whether anybody may take its tail() at any later time, closed or not. Not of a per-thread stream, which its own
    /// thread marks, and not of a foreign one with neither an owner nor the promise that its end is announced: its handle
    /// may be gone before anybody is told.
    bool can_be_marked_later() const noexcept { return tells_its_end_ && !is_per_thread(); }
    bool is_nonblocking() const {
        if (is_default()) return false;
        refuse_capture("is_nonblocking");  // asking would invalidate the capture
        unsigned flags = 0;
        check(rt::StreamGetFlags(handle(), &flags), "StreamGetFlags");
        return (flags & rt::StreamNonBlocking) != 0;
    }
    int priority() const {
        const DeviceGuard guard(device_);
        int priority = 0;
        check(rt::StreamGetPriority(handle(), &priority), "StreamGetPriority");
        return priority;
    }

    /// Whether portamem learns of its end: not of a foreign stream's whose owner it does not hold.
    bool tells_its_end() const noexcept { return tells_its_end_; }
    /// Tells the listener when the stream ends, as long as it lives. False, and nothing is told, once it has ended.
    bool listen(const std::weak_ptr<StreamListener>& listener) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (is_closed()) return false;
        // A legacy stream never ends. A per-thread one ends unseen, at some moment of its thread's end.
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

    /// True when all work has run.
    bool query() {
        refuse_capture("query");
        const RelaxedCapture beside(device_);
        const bool done = check_ready(rt::StreamQuery(handle()), "StreamQuery");
        kept_.drain();
        return done;
    }

    /// Blocks until all work submitted so far has run, and what that work kept alive was let go.
    void synchronize() {
        refuse_capture("synchronize");
        const RelaxedCapture beside(device_);
        check(rt::StreamSynchronize(handle()), "StreamSynchronize");
        kept_.drain_all();
    }

    /// Marks the stream's present end. Under capture the mark belongs to the graph: streams may wait for it, nobody asks.
    void record(const Event& event) const {
        const bool captured = capture_status() != rt::StreamCaptureStatus::None;
        if (captured && is_default()) refuse_capture("record");
        record_unasked(event);
        event.set_mark(captured ? Event::Mark::Captured : Event::Mark::Work);
    }
    /// The same for those who know of no capture, or ask the event nothing.
    void record_unasked(const Event& event) const {
        const DeviceGuard guard(device_);
        check(rt::EventRecord(event.handle(), handle()), "EventRecord");
    }

    /// A new event at the stream's present end, or, of a closed stream, at its last one. Null if nothing was ever
    /// submitted through a stream that could not be marked any more. `blank`: an event of this device to use, if given.
    std::shared_ptr<Event> tail(std::shared_ptr<Event> blank = nullptr) {
        refuse_forked();
        // Only its own thread can mark a per-thread stream. Others wait for the whole device: rare, and never wrong.
        if (is_elsewhere()) {
            detail::refuse_in_capture("synchronizing the device");
            const RelaxedCapture beside(device_);
            check(rt::DeviceSynchronize(), "DeviceSynchronize");  // and no chore is run: the caller may hold a lock
            return nullptr;
        }
        auto event = is_closed() || blank ? std::move(blank) : Event::create(device_);
        // Waiting for a stream is no use of it, so it may be closed meanwhile: not between the question and the mark.
        std::lock_guard<std::mutex> lock(mutex_);
        if (is_closed()) return last_;
        if (is_default()) refuse_capture("record");
        record_unasked(*event);
        return event;
    }

    /// Work submitted later waits for the event's mark, or for what `other` holds now. Under capture that must belong to
    /// the capture: std::invalid_argument, and the capture stays valid.
    void wait(const Event& event) const {
        if (is_default() || event.mark() == Event::Mark::Work) refuse_capture("waiting for work outside of a capture");
        const DeviceGuard guard(device_);
        check(rt::StreamWaitEvent(handle(), event.handle()), "StreamWaitEvent");
    }
    void wait(Stream& other) {
        if (&other == this) return;
        if (!is_default() && is_in_capture() && !other.is_in_capture()) {
            refuse_capture("waiting for work outside of a capture");
        }
        if (const auto event = other.tail()) wait(*event);
    }

    /// Runs a function on a thread of the runtime, in stream order. It may call neither the runtime nor portamem.
    void launch_host_func(rt::HostFn_t fn, void* user_data) const {
        if (is_default()) refuse_capture("launch_host_func");
        const DeviceGuard guard(device_);
        check(rt::LaunchHostFunc(handle(), fn, user_data), "LaunchHostFunc");
    }

    /// Keeps references until `until`, an event recorded on this stream, has happened.
    void keep(std::shared_ptr<Event> until, Kept::References references) {
        kept_.drain();
        kept_.keep(std::move(until), std::move(references));
        bool expected = false;
        if (!reaped_.compare_exchange_strong(expected, true)) return;
        // The chore holds the stream: references outlive the last user of the stream, as the work does.
        Reaper::instance().add([self = shared_from_this()] {
            self->kept_.drain();
            if (!self->kept_.empty()) return false;
            self->reaped_.store(false);
            return self->kept_.empty();
        });
    }

    /// Lets go of what finished work kept.
    void drain() noexcept { kept_.drain(); }

    rt::StreamCaptureStatus capture_status() const {
        refuse_forked();
        if (is_elsewhere()) return rt::StreamCaptureStatus::None;  // asking would ask this thread's stream
        const bool counted = captured_here_.load();
        auto status = rt::StreamCaptureStatus::None;
        const rt::Error_t answer = ask_capture(&status);
        // The legacy stream under somebody's capture: work on it is forbidden just the same.
        if (answer == rt::Error_t::StreamCaptureImplicit) return rt::StreamCaptureStatus::Active;
        check(answer, "StreamIsCapturing");
        if (counted && status == rt::StreamCaptureStatus::None) count_capture(false);  // others have ended it
        return status;
    }

    /// Throws before a call that a capture forbids, so that the capture stays valid.
    void refuse_capture(const char* what) const {
        if (capture_status() == rt::StreamCaptureStatus::None) return;
        throw std::invalid_argument(std::string(what) + " is forbidden while " +
                                    (is_default() ? "a stream is captured: name a stream"
                                                  : "its stream is captured: do it before or after the capture"));
    }

    /// The same for those who only wait for it: a closed stream has its mark already, and is not asked.
    void refuse_capture_if_open(const char* what) const {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!is_closed()) refuse_capture(what);
    }

    void begin_capture(rt::StreamCaptureMode mode) const {
        if (is_default()) throw std::invalid_argument("a default stream cannot be captured: create a stream");
        refuse_capture("begin_capture");
        const DeviceGuard guard(device_);
        check(rt::StreamBeginCapture(handle(), mode), "StreamBeginCapture");
        count_capture(true);
    }

    /// Ends a capture and drops its graph: portamem launches nothing.
    void end_capture() const {
        refuse_forked();
        const DeviceGuard guard(device_);
        rt::Graph_t graph{};
        const rt::Error_t answer = rt::StreamEndCapture(handle(), &graph);
        // A capture of another thread stays open.
        if (answer == rt::Error_t::Success || answer == rt::Error_t::StreamCaptureInvalidated) count_capture(false);
        if (graph != rt::Graph_t{}) (void)rt::GraphDestroy(graph);
        check(answer, "StreamEndCapture");
    }

    /// Keeps the handle valid for its scope, where the stream is not closed yet: for those who do not choose when it is,
    /// such as memory that goes back on the stream it came from. close() waits for the scope's end.
    class Use {
      public:
        explicit Use(Stream& stream) noexcept : stream_(stream), holds_(stream.begin_use()) {}
        ~Use() {
            if (holds_) stream_.uses_.fetch_sub(1, std::memory_order_release);
        }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

        explicit operator bool() const noexcept { return holds_; }

      private:
        Stream& stream_;
        const bool holds_;
    };

    /// Hands over what is pending and destroys the handle if it is owned. Closing twice is fine; default streams of a
    /// device cannot be closed.
    void close() {
        refuse_forked();
        if (is_default()) throw std::invalid_argument("a default stream belongs to its device and cannot be closed");
        std::shared_ptr<void> owner;  // let go with no lock held: that may run anybody's code
        std::lock_guard<std::mutex> one(closing_);
        if (is_closed()) return;
        refuse_capture("close");
        const RelaxedCapture beside(device_);
        refuse_uses();
        try {
            mark_closed(true, tail());
        } catch (...) {
            closing_now_.store(false);
            throw;
        }
        tell_end(last());
        // Without the lock: destroying may wait for the stream's work (HIP's does).
        const rt::Error_t answer = kind_ == Kind::Owned ? rt::StreamDestroy(handle_) : rt::Error_t::Success;
        if (answer != rt::Error_t::Success) {
            mark_closed(false, nullptr);
            closing_now_.store(false);
        }
        check(answer, "StreamDestroy");
        owner = std::move(owner_);
    }

  private:
    enum class Kind { Owned, Foreign, Legacy, PerThread };

    Stream(rt::Stream_t handle, int device, Kind kind, std::shared_ptr<void> owner, bool ends_announced)
        : handle_(handle),
          device_(device),
          kind_(kind),
          tells_its_end_(kind != Kind::Foreign || owner || ends_announced),
          owner_(std::move(owner)) {}

    static std::shared_ptr<Stream> make(rt::Stream_t handle, int device, Kind kind, std::shared_ptr<void> owner,
                                        bool ends_announced = false) {
        return std::shared_ptr<Stream>(new Stream(handle, device, kind, std::move(owner), ends_announced));
    }

    bool is_in_capture() const { return !is_closed() && capture_status() != rt::StreamCaptureStatus::None; }

    rt::Error_t ask_capture(rt::StreamCaptureStatus* status) const {
        if (!is_default()) return rt::StreamIsCapturing(handle(), status);
        const DeviceGuard guard(device_);
        return rt::StreamIsCapturing(handle(), status);
    }

    // Both sides write before they read: either the use is seen here, or the closing there.
    bool begin_use() noexcept {
        if (is_elsewhere()) return false;
        uses_.fetch_add(1);
        if (!closing_now_.load()) return true;
        uses_.fetch_sub(1);
        return false;
    }
    void refuse_uses() {
        closing_now_.store(true);
        // Seldom, and mostly for a call's time; giving plain memory back may wait for the stream's work.
        while (uses_.load() != 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }

    void mark_closed(bool closed, std::shared_ptr<Event> last) {
        std::lock_guard<std::mutex> lock(mutex_);
        last_ = std::move(last);
        closed_.store(closed, std::memory_order_release);
    }

    std::shared_ptr<Event> last() {
        std::lock_guard<std::mutex> lock(mutex_);
        return last_;
    }

    void tell_end(const std::shared_ptr<Event>& last) noexcept {
        std::vector<std::weak_ptr<StreamListener>> listeners;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            listeners.swap(listeners_);
        }
        for (const auto& listener : listeners) {
            if (const auto told = listener.lock()) told->stream_ended(identity_, last);
        }
    }

    // From the destructor: nobody asked, and nobody is told why the stream cannot be marked.
    void tell_end_unasked() noexcept {
        try {
            // What is captured has no end that anybody could ask for. What listeners keep stays with them.
            if (capture_status() != rt::StreamCaptureStatus::None) return;
            tell_end(tail());
        } catch (...) {
            try {
                Device(device_).synchronize();
                tell_end(nullptr);
            } catch (...) {
                // Captured, or the device is gone. What listeners keep stays with them.
            }
        }
    }

    // Each capture begun here counts once, however and by whomever it is ended.
    void count_capture(bool open) const noexcept {
        if (captured_here_.exchange(open) != open) detail::open_captures().fetch_add(open ? 1 : -1);
    }

    const rt::Stream_t handle_;
    const int device_;
    const Kind kind_;
    const bool tells_its_end_;
    const std::uint64_t identity_ = portamem_new_identity();
    const std::uint64_t thread_ = detail::this_thread_number();
    std::shared_ptr<void> owner_;
    Kept kept_;
    std::atomic<bool> reaped_{false};
    mutable std::atomic<bool> captured_here_{false};
    std::mutex closing_;  // one closes at a time
    std::atomic<int> uses_{0};
    std::atomic<bool> closing_now_{false};  // since close() began; refuses further uses
    std::atomic<bool> closed_{false};
    mutable std::mutex mutex_;  // guards last_ and listeners_, and closed_ against those who only wait
    std::vector<std::weak_ptr<StreamListener>> listeners_;
    std::shared_ptr<Event> last_;
};

PORTAMEM_CLOSE
