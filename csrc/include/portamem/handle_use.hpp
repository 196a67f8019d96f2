// SPDX-License-Identifier: MIT
// portamem/handle_use.hpp: how pools know a stream that the program names by its handle.
//
// A handle says little. Vendors give it out again as soon as its stream is destroyed, while work of that stream may
// still run, and no call may touch a destroyed handle. So pools know streams by numbers that never come again
// (identities). There are three ways from a bare handle to one:
// 1. A portamem Stream tells the handle's end: one made here, one with an owner, or one whose end was promised. Its
//   identity serves (KnownStreams), in each module of the process.
// 2. The runtime numbers its streams (rt::StreamGetId). One thread's use of the handle has an identity (HandleUse) as
//   long as the number stays the same, which is asked before memory is handed out again. Only that thread marks the
//   stream, in calls that name it. Where the number has changed, the memory waits for all work of the device.
// 3. Otherwise each free records an event, and the memory waits for that.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "portamem/detail/chore.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/number_map.hpp"
#include "portamem/detail/owned.hpp"
#include "portamem/detail/thread.hpp"
#include "portamem/kept.hpp"
#include "portamem/process_object.hpp"

PORTAMEM_OPEN

class Stream;

/// Is told when a stream ends. Pools and other objects that keep something by its identity listen.
class StreamListener {
  public:
    virtual ~StreamListener() = default;
    /// Is called once, when the stream is being closed or destroyed, behind `last` (null: nothing to wait for). The
    /// handle still lives. No lock is held that another thread takes.
    virtual void stream_ended(std::uint64_t identity, std::shared_ptr<Event> last) noexcept = 0;
};

namespace detail {

// Returns a thread's own number. The system reuses a std::thread::id once its thread has ended, so that would not do.
inline std::uint64_t this_thread_number() {
    static thread_local const std::uint64_t number = portamem_new_identity();
    return number;
}

void end_handles_of_thread(void* handles) noexcept;

// Returns where the thread keeps its handles, in libportamem. Its address tells live threads apart, in every module.
inline void** place_of_handles() noexcept {
    static thread_local void** place = nullptr;
    if (__builtin_expect(place == nullptr, 0)) {
        try {
            place = portamem_thread_place(key_of("handles").c_str(), end_handles_of_thread);
        } catch (...) {
            return nullptr;
        }
    }
    return place;
}

/// Represents one thread's use of a handle whose end no Stream tells, while the handle belongs to one stream. Only its
/// thread calls it, except for its constructor and is_of_this_thread().
class HandleUse {
  public:
    HandleUse(rt::Stream_t handle, int device, std::uint64_t id) : handle_(handle), device_(device), id_(id) {}

    /// Returns whether the calling thread owns the use. It is false in a forked child, and for a thread that has ended.
    bool is_of_this_thread() const noexcept {
        return place_ != nullptr && place_ == place_of_handles() && *place_ != PORTAMEM_THREAD_ENDED;
    }
    std::uint64_t identity() const noexcept { return identity_; }
    bool has_ended() const noexcept { return has_ended_; }

    /// Returns whether the handle is still the same stream; false too where the runtime does not say. It is asked
    /// before memory is handed out again. Where the handle is another stream, the use ends.
    bool is_same() noexcept {
        if (has_ended_) return false;
        std::uint64_t id = 0;
        if (rt::StreamGetId(handle_, &id) != rt::Error_t::Success) return false;
        if (id == id_) return true;
        end();
        return false;
    }
    /// Answers the same within a call that frees, and does not end the use in the middle of that call.
    bool is_same_now() const noexcept {
        std::uint64_t id = 0;
        return rt::StreamGetId(handle_, &id) == rt::Error_t::Success && id == id_;
    }

    /// Returns whether pools may keep memory freed here for the stream's next allocations. It is false in a call that
    /// could not tell whether the stream is the same.
    bool is_followed() const noexcept { return !has_ended_ && !is_unsure_; }

    /// Counts the uses that reached a pool, and returns whether the handle is new. The first uses cost an event at each
    /// free, so that a stream that comes and goes leaves nothing behind for which the device would have to be waited
    /// for.
    bool is_new() noexcept { return uses_ < kUsesOfNew && ++uses_ < kUsesOfNew; }

    void listen(const std::weak_ptr<StreamListener>& listener) {
        for (const auto& known : listeners_) {
            if (!known.owner_before(listener) && !listener.owner_before(known)) return;
        }
        listeners_.push_back(listener);
    }

    /// Ends the use: nothing is freed by this identity any more. Any stream may have what was freed once all work of
    /// the device has run. A thread of its own waits for that, because the calling thread may hold up that work.
    void end() noexcept {
        if (std::exchange(has_ended_, true) || !runtime_usable()) return;
        const auto is_there = [](const std::weak_ptr<StreamListener>& listener) { return !listener.expired(); };
        if (!listeners_.any_of(is_there)) return;
        try {
            Owned wait(new Chore([device = device_, identity = identity_, listeners = std::move(listeners_)] {
                return wait_and_tell(device, identity, listeners);
            }));
            try {
                start_thread(try_for_a_while, wait.get());
                (void)wait.release();
            } catch (const std::system_error&) {
                Reaper::instance().add(std::move(*wait));
            }
        } catch (...) {
            return;  // no host memory: the pools keep it until they wait for the device themselves
        }
    }

    /// Marks, for its scope, that the identity must not be used.
    class Unsure {
      public:
        explicit Unsure(HandleUse& use) noexcept : use_(use), was_(std::exchange(use.is_unsure_, true)) {}
        ~Unsure() { use_.is_unsure_ = was_; }
        Unsure(const Unsure&) = delete;
        Unsure& operator=(const Unsure&) = delete;

      private:
        HandleUse& use_;
        const bool was_;
    };

  private:
    using Listeners = LightVector<std::weak_ptr<StreamListener>>;

    // Returns false where the device cannot be waited for now, as under a capture.
    static bool wait_and_tell(int device, std::uint64_t identity, const Listeners& listeners) noexcept {
        try {
            if (!runtime_usable()) return true;
            {
                const RelaxedCapture beside(device);
                if (rt::DeviceSynchronize() != rt::Error_t::Success) return false;
            }
            for (const auto& listener : listeners) {
                if (const auto told = listener.lock()) told->stream_ended(identity, nullptr);
            }
        } catch (...) {
            return false;
        }
        return true;
    }

    // Runs on a thread of its own.
    static void* try_for_a_while(void* chore) {
        const Owned wait(static_cast<Chore*>(chore));
        for (int i = 0; !(*wait)() && i < 1000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return nullptr;
    }

    static constexpr unsigned kUsesOfNew = 64;

    const rt::Stream_t handle_;
    const int device_;
    const std::uint64_t id_;
    void** const place_ = place_of_handles();
    const std::uint64_t identity_ = portamem_new_identity();
    bool has_ended_ = false;
    bool is_unsure_ = false;
    unsigned uses_ = 0;
    Listeners listeners_;
};

/// Keeps the process's streams that tell their end, by handle. It is thread-safe.
class KnownStreams {
  public:
    static KnownStreams& instance() {
        static auto& one = process_object<KnownStreams>("streams by handle");
        return one;
    }

    /// Adds a stream. Where several have one handle, the first that lives counts.
    void add(rt::Stream_t handle, const std::shared_ptr<Stream>& stream) {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::weak_ptr<Stream>& known = streams_[handle];
        if (known.expired()) known = stream;
        changes_.fetch_add(1, std::memory_order_release);
    }
    /// Removes a stream before the handle may be another stream's: this one, or one that has no holder any more.
    void remove(rt::Stream_t handle, const std::weak_ptr<Stream>& stream) noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = streams_.find(handle);
        if (found == streams_.end()) return;
        const bool is_it = !found->second.owner_before(stream) && !stream.owner_before(found->second);
        if (!is_it && !found->second.expired()) return;
        streams_.erase(found);
        changes_.fetch_add(1, std::memory_order_release);
    }
    std::shared_ptr<Stream> find(rt::Stream_t handle) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = streams_.find(handle);
        return found == streams_.end() ? nullptr : found->second.lock();
    }
    /// Returns all that live. The caller lets go of them under no lock that a stream's end needs, because that may end
    /// one.
    LightVector<std::shared_ptr<Stream>> all() {
        LightVector<std::shared_ptr<Stream>> found;
        const std::lock_guard<std::mutex> lock(mutex_);
        found.reserve(streams_.size());
        for (const auto& known : streams_) {
            if (auto stream = known.second.lock()) found.push_back(std::move(stream));
        }
        return found;
    }
    /// Returns a number that changes whenever find() may have a new answer.
    std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }

  private:
    std::mutex mutex_;
    NumberMap<rt::Stream_t, std::weak_ptr<Stream>> streams_;
    std::atomic<std::uint64_t> changes_{1};
};

/// Keeps the handles that a thread has named, each with a Stream for it.
class HandlesOfThread {
  public:
    /// Returns the calling thread's Stream of a handle that is no default stream's. The caller uses it at once, because
    /// the next call may replace it. Null where the handle has nothing to be known by, or the thread is about to end.
    static const std::shared_ptr<Stream>* find(rt::Stream_t handle, int device);

    HandlesOfThread() = default;
    ~HandlesOfThread() { clear(); }
    HandlesOfThread(const HandlesOfThread&) = delete;
    HandlesOfThread& operator=(const HandlesOfThread&) = delete;

  private:
    struct Entry {
        int device = 0;
        std::uint64_t changes = 0;
        std::shared_ptr<Stream> stream;
    };

    const std::shared_ptr<Stream>* look(rt::Stream_t handle, int device);
    bool is_good(Entry& entry, rt::Stream_t handle, int device);
    void clear() noexcept;

    static constexpr std::size_t kMost = 256;

    rt::Stream_t latest_handle_{};
    Entry* latest_ = nullptr;
    NumberMap<rt::Stream_t, Entry> entries_;
};

inline void end_handles_of_thread(void* handles) noexcept { delete static_cast<HandlesOfThread*>(handles); }

}  // namespace detail

PORTAMEM_CLOSE
