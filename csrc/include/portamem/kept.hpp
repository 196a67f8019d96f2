// SPDX-License-Identifier: MIT
// portamem/kept.hpp: what queued work uses is kept alive until the work has run.
//
// A host callback could not do this: callbacks may not call the runtime, and letting go of a last reference may free.
// So references sit in a list per stream, each behind an event; the list is drained by later calls on the stream, by
// its synchronize, and by a reaper for streams that nobody touches any more.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "portamem/capture.hpp"
#include "portamem/event.hpp"
#include "portamem/order_api.h"

PORTAMEM_OPEN

namespace detail {

/// For its scope, what this thread is told of events and streams is not the program's knowledge: portamem asks for
/// itself, and what it is told depends on how fast the work runs. The order checker takes no notice.
class OwnQueries {
  public:
    OwnQueries() noexcept { portamem_order_own_queries_begin(); }
    /// But for this: what has happened before an event that is asked uses this memory no more.
    OwnQueries(const portamem_order_range* ranges, std::size_t count) noexcept : OwnQueries() {
        portamem_order_own_queries_about(ranges, count);
    }
    ~OwnQueries() { portamem_order_own_queries_end(); }
    OwnQueries(const OwnQueries&) = delete;
    OwnQueries& operator=(const OwnQueries&) = delete;
};

/// The order checker learns that the work before an event, which has happened, uses this memory no more.
inline void note_settled(const Event& happened, const portamem_order_range* ranges, std::size_t count) noexcept {
    if (portamem_order_is_on(rt::BackendId) == 0) return;
    try {
        const OwnQueries about(ranges, count);
        (void)happened.query();
    } catch (const std::exception&) {
        return;  // of a runtime that fails here nothing can be learned
    }
}
inline void note_settled(const Event& happened, const void* ptr, std::size_t nbytes) noexcept {
    const portamem_order_range range{ptr, nbytes};
    note_settled(happened, &range, 1);
}

/// Waits on portamem's own behalf: the order checker learns that this memory is used no more, and nothing else.
inline void wait_for_use_of(const Event& event, const std::vector<portamem_order_range>& memory) {
    {
        const OwnQueries own;
        event.synchronize();
    }
    note_settled(event, memory.data(), memory.size());
}

}  // namespace detail

class Kept {
  public:
    using References = std::array<std::shared_ptr<void>, 2>;

    /// Keeps both references until the event has happened.
    void keep(std::shared_ptr<Event> until, References references) {
        std::lock_guard<std::mutex> lock(mutex_);
        entries_.push_back({std::move(until), std::move(references)});
    }

    /// Lets go of what has happened; what is let go is destroyed with no lock held. Never throws: an event that cannot
    /// be asked keeps its references.
    void drain() noexcept {
        std::vector<Entry> finished;
        try {
            std::lock_guard<std::mutex> lock(mutex_);
            if (entries_.empty()) return;
            const detail::OwnQueries own;
            const RelaxedCapture beside(entries_.front().until->device());  // a stream's events are of one device
            std::size_t done = 0;                                           // and happen in order
            while (done < entries_.size() && rt::EventQuery(entries_[done].until->handle()) == rt::Error_t::Success) {
                ++done;
            }
            if (done == 0) return;
            finished.reserve(done);
            const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(done);
            finished.assign(std::make_move_iterator(entries_.begin()), std::make_move_iterator(end));
            entries_.erase(entries_.begin(), end);
            ++letting_go_;
        } catch (const std::exception&) {
            return;  // a later call tries again
        }
        ++letting_go_here();
        finished.clear();
        --letting_go_here();
        std::lock_guard<std::mutex> lock(mutex_);
        if (--letting_go_ == 0) let_go_.notify_all();
    }

    /// drain(), and on return what other threads' drains had taken is let go as well: for those who promise that
    /// nothing finished is kept. What is let go may run anybody's code, so nobody waits from inside of that.
    void drain_all() noexcept {
        drain();
        if (letting_go_here() != 0) return;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (letting_go_ == 0) return;
        }
        detail::unlocked([this] {
            std::unique_lock<std::mutex> lock(mutex_);
            let_go_.wait(lock, [this] { return letting_go_ == 0; });
        });
    }

    bool empty() const {
        std::lock_guard<std::mutex> lock(mutex_);
        return entries_.empty();
    }

  private:
    struct Entry {
        std::shared_ptr<Event> until;
        References references;
    };

    // Drains that this thread is inside of, of whatever list.
    static int& letting_go_here() noexcept {
        static thread_local int depth = 0;
        return depth;
    }

    mutable std::mutex mutex_;
    std::condition_variable let_go_;
    std::vector<Entry> entries_;
    int letting_go_ = 0;  // drains that have taken entries and not destroyed them yet
};

/// Runs small chores again and again until each says that it is done. One thread per module, started with the first
/// chore, detached and leaked: a process may exit while it sleeps.
class Reaper {
  public:
    /// Answers true when there is nothing left for it to do. Must not throw.
    using Chore = std::function<bool()>;

    static Reaper& instance() {
        static auto* leaked = new Reaper;
        return *leaked;
    }

    void add(Chore chore) {
        if (portamem_forked() != 0) return;  // the lock may be held for ever, by a thread that the child does not have
        std::lock_guard<std::mutex> lock(mutex_);
        if (stopped_) {
            (void)new Chore(std::move(chore));  // leaked, as everything is from here on
            return;
        }
        chores_.push_back(std::move(chore));
        start();
        wake_.notify_one();
    }

    /// Runs every chore once, now and on this thread: for those who need to know what is left.
    void run_once() {
        if (portamem_forked() != 0) return;
        std::unique_lock<std::mutex> lock(mutex_);
        if (busy_ && runner_ == std::this_thread::get_id()) return;  // asked by what a chore has let go
        idle_.wait(lock, [this] { return !busy_; });
        if (!stopped_ && runtime_usable() && !chores_.empty()) (void)run_round(lock);
    }

    /// Ends the reaper for good and waits for a chore that is being run: for hosts that are about to exit.
    void stop() {
        if (portamem_forked() != 0) return;
        std::unique_lock<std::mutex> lock(mutex_);
        stopped_ = true;
        idle_.wait(lock, [this] { return !busy_; });
    }

  private:
    // Where the system has no thread to give, the next chore tries again; run_once does without one.
    void start() {
        if (started_) return;
        try {
            std::thread([this] { run(); }).detach();
            started_ = true;
        } catch (const std::system_error&) {
            return;
        }
    }

    void run() {
        auto pause = kShortest;
        std::unique_lock<std::mutex> lock(mutex_);
        while (!stopped_) {
            if (chores_.empty()) {
                pause = kShortest;
                wake_.wait(lock);
                continue;
            }
            wake_.wait_for(lock, pause);
            idle_.wait(lock, [this] { return !busy_; });  // somebody runs a round of his own
            if (stopped_ || !runtime_usable()) break;
            if (chores_.empty()) continue;
            pause = run_round(lock) ? kShortest : std::min(2 * pause, kLongest);
        }
    }

    // Runs every chore once, without the lock. True if one of them is done with.
    bool run_round(std::unique_lock<std::mutex>& lock) {
        std::vector<Chore> round = std::move(chores_);
        chores_.clear();
        busy_ = true;
        runner_ = std::this_thread::get_id();
        lock.unlock();
        std::vector<Chore> left;
        for (Chore& chore : round) {
            if (!chore()) left.push_back(std::move(chore));
        }
        const bool progress = left.size() < round.size();
        round.clear();  // without the lock: a chore may hold the last reference to something
        lock.lock();
        busy_ = false;
        for (Chore& chore : left) chores_.push_back(std::move(chore));
        idle_.notify_all();
        return progress;
    }

    static constexpr std::chrono::milliseconds kShortest{2};
    static constexpr std::chrono::milliseconds kLongest{100};

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable idle_;
    std::vector<Chore> chores_;
    bool started_ = false;
    bool stopped_ = false;
    bool busy_ = false;
    std::thread::id runner_;  // of the round, while busy_
};

PORTAMEM_CLOSE
