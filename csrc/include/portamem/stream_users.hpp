// SPDX-License-Identifier: MIT
// portamem/stream_users.hpp: the calls that hold a stream's handle, and its close, which may come on another thread.
//
// A destroyed handle must reach no runtime, and vendors give its value out again. So each call that hands a stream's
// handle to the runtime is counted while it runs. close() refuses later calls, and waits for those that have begun:
// they queue work, which takes the time of a call as a rule. A call that waits for the stream's work takes as long as
// that work, which may itself wait for the closing thread. Such calls are counted apart, and the last of them destroys
// the handle in place of close().
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "portamem/abi/process_api.h"
#include "portamem/detail/hearing.hpp"
#include "portamem/error.hpp"

PORTAMEM_OPEN

class Event;

namespace detail {

/// Counts the calls that hold one stream's handle. It is thread-safe.
class StreamUsers {
    // Represents one use or wait in its thread's list.
    struct Scope {
        explicit Scope(StreamUsers* of, bool waits = false) noexcept : users(of), is_wait(waits) {}

        void enter(Scope** first) noexcept {
            outer = *first;
            *first = this;
            place = first;
        }
        // Returns false where it is in no list.
        bool leave() noexcept {
            if (place == nullptr) return false;
            *std::exchange(place, nullptr) = outer;
            return true;
        }

        StreamUsers* const users;
        const bool is_wait;
        Scope* outer = nullptr;
        Scope** place = nullptr;
    };

    static Scope** first_of_thread() noexcept { return reinterpret_cast<Scope**>(portamem_stream_uses_of_thread()); }
    static bool is_in_use(const Scope* first, const StreamUsers* users) noexcept {
        for (; first != nullptr; first = first->outer) {
            if (first->users == users && !first->is_wait) return true;
        }
        return false;
    }
    static bool is_in_any(const Scope* first, const StreamUsers* users) noexcept {
        for (; first != nullptr; first = first->outer) {
            if (first->users == users) return true;
        }
        return false;
    }

  public:
    StreamUsers() = default;
    StreamUsers(const StreamUsers&) = delete;
    StreamUsers& operator=(const StreamUsers&) = delete;

    /// Represents one use, for its scope. Within another use by the same thread it costs nothing and is never refused,
    /// because that one holds the handle. Null users: a stream that has no end.
    class Use {
      public:
        explicit Use(StreamUsers* users) noexcept : scope_(users), holds_(users == nullptr) {
            if (holds_) return;
            Scope** const first = first_of_thread();
            if (is_in_use(*first, users)) {
                holds_ = true;
            } else if (users->begin()) {
                holds_ = true;
                scope_.enter(first);
            }
        }
        ~Use() {
            if (scope_.leave()) scope_.users->uses_.fetch_sub(1, std::memory_order_release);
        }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

        /// Returns false where the close has begun.
        explicit operator bool() const noexcept { return holds_; }

      private:
        Scope scope_;
        bool holds_;
    };

    /// Represents a call that waits for the stream's work, in the same way. Within a use it is a part of that use.
    class Wait {
      public:
        explicit Wait(StreamUsers* users) : scope_(users, true), holds_(users == nullptr) {
            if (holds_) return;
            Scope** const first = first_of_thread();
            if (is_in_any(*first, users)) {
                holds_ = true;
            } else if (users->begin_wait()) {
                holds_ = true;
                scope_.enter(first);
            }
        }
        ~Wait() { (void)end(); }
        Wait(const Wait&) = delete;
        Wait& operator=(const Wait&) = delete;

        explicit operator bool() const noexcept { return holds_; }
        /// Ends it before its scope does. Returns true where the caller has to destroy the handle.
        bool end() noexcept { return scope_.leave() && scope_.users->end_wait(); }

      private:
        Scope scope_;
        bool holds_;
    };

    /// Returns whether the calling thread is within a use of any module, or with `or_wait` within a wait.
    bool is_used_here(bool or_wait) const noexcept {
        return or_wait ? is_in_any(*first_of_thread(), this) : is_in_use(*first_of_thread(), this);
    }

    /// Returns whether a use that the calling thread began now would be refused.
    bool is_refused_here() const noexcept { return is_closing_.load() && !is_used_here(false); }

    /// Closes the stream to new uses. Returns once those that have begun are over, and with `waits_too` the waits as
    /// well. Throws what this thread hears meanwhile, and the stream is open again then.
    void refuse(bool waits_too) {
        is_closing_.store(true);
        auto is_over = [this, waits_too] { return uses_.load() == 0 && (!waits_too || waits_.load() == 0); };
        if (is_over()) return;
        try {
            if (hear_until(is_over)) return;
        } catch (...) {
            allow();
            throw;
        }
        while (!is_over()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    /// Does the same for a stream that has no holder any more, and waits for a moment at most, because a call may wait
    /// for the thread that let go of the stream. Returns false where a call still holds the handle then; it must not be
    /// destroyed.
    bool refuse_for_a_moment() noexcept {
        is_closing_.store(true);
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        while (uses_.load() != 0 && std::chrono::steady_clock::now() < give_up) {
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        return uses_.load() == 0;
    }
    /// Allows uses again: the close has failed.
    void allow() noexcept { is_closing_.store(false); }

    /// Returns whether waits are under way; the last of them destroys the handle then.
    bool leave_to_waits() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return is_left_ = waits_.load() != 0;
    }

  private:
    // Both sides write before they read, so either the close sees the use or the use sees the close.
    bool begin() noexcept {
        uses_.fetch_add(1);
        if (!is_closing_.load()) return true;
        uses_.fetch_sub(1);
        return false;
    }

    // Takes the lock: a wait begins before the close, which counts it, or not at all.
    bool begin_wait() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_closing_.load()) return false;
        waits_.fetch_add(1);
        return true;
    }
    // Returns whether the caller has to destroy the handle.
    bool end_wait() noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        return waits_.fetch_sub(1) == 1 && is_left_;
    }

    std::atomic<int> uses_{0};
    std::atomic<int> waits_{0};
    std::atomic<bool> is_closing_{false};
    bool is_left_ = false;
    std::mutex mutex_;  // guards is_left_, and waits_ against the close
};

/// Says whether a stream has ended, and by which event its last work is done. The stream shares it with every other
/// Stream that was made of the same handle, and each of them refuses calls once the stream has ended.
struct StreamEnd {
    StreamUsers users;
    std::atomic<bool> is_closed{false};
    std::mutex mutex;             ///< guards `last`, and is_closed against calls that are no use
    std::shared_ptr<Event> last;  ///< of a closed stream; null: nothing to wait for
};

}  // namespace detail

PORTAMEM_CLOSE
