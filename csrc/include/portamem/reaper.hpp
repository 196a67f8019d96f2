// SPDX-License-Identifier: MIT
// portamem/reaper.hpp: a thread that finishes chores once the work they wait for has run.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "portamem/detail/chore.hpp"
#include "portamem/detail/thread.hpp"
#include "portamem/error.hpp"

PORTAMEM_OPEN

/// Runs small chores again and again until each says that it is done. Each module has one thread, which the first chore
/// starts. It is detached and leaked, because a process may exit while it sleeps. A fork waits a moment for a chore
/// that is being run: chores ask the runtime, and a lock of the runtime's that a chore held would stay shut in the
/// child. The child's exit may take that lock.
class Reaper {
  public:
    using Chore = detail::Chore;

    static Reaper& instance() {
        static auto* leaked = new Reaper;
        return *leaked;
    }

    void add(Chore chore) {
        if (portamem_forked() != 0) return;  // a thread that the child does not have may hold the lock for ever
        std::lock_guard<std::mutex> lock(mutex_);
        if (stopped_) {
            (void)new Chore(std::move(chore));  // leaked, as everything is from here on
            return;
        }
        chores_.add(std::move(chore));
        is_hurried_ = true;
        start();
        wake_.notify_one();
    }

    /// Runs every chore once, now and on this thread, for callers that need to know what is left.
    void run_once() {
        if (portamem_forked() != 0) return;
        std::unique_lock<std::mutex> lock(mutex_);
        if (busy_ && runner_ == std::this_thread::get_id()) return;  // called by an object that a chore has let go
        // A chore may run the program's code, which may wait for this thread, so the wait has an end.
        if (!idle_.wait_for(lock, kPatience, [this] { return !busy_; })) return;
        if (!stopped_ && runtime_usable() && !chores_.empty()) (void)run_round(lock);
    }

    /// Makes the chores run soon, however long they had nothing to do.
    void hurry() {
        if (portamem_forked() != 0) return;
        std::lock_guard<std::mutex> lock(mutex_);
        is_hurried_ = true;
        wake_.notify_one();
    }

    /// Ends the reaper for good, and waits a moment for a chore that is being run. A host program calls it before its
    /// exit, which no work that never ends may hold up.
    void stop() {
        if (portamem_forked() != 0) return;
        std::unique_lock<std::mutex> lock(mutex_);
        stopped_ = true;
        (void)idle_.wait_for(lock, kPatience, [this] { return !busy_; });
    }

  private:
    Reaper() {
        (void)pthread_atfork([] { instance().begin_fork(); }, [] { instance().end_fork(); }, nullptr);
    }

    // Keeps the lock until the fork is over, so that no round begins. A chore may need what the forking thread holds,
    // such as Python's GIL, so the wait has an end.
    void begin_fork() {
        std::unique_lock<std::mutex> lock(mutex_);
        if (!busy_ || runner_ != std::this_thread::get_id()) {
            (void)idle_.wait_for(lock, kPatienceOfFork, [this] { return !busy_; });
        }
        (void)lock.release();
    }
    // Only the parent calls it: a child asks nothing of its reaper.
    void end_fork() { mutex_.unlock(); }

    // Starts the thread. Where the system has none to give, the next chore tries again; run_once needs none.
    void start() {
        if (started_) return;
        try {
            detail::start_thread(
                [](void* self) -> void* {
                    static_cast<Reaper*>(self)->run();
                    return nullptr;
                },
                this);
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
            wake_.wait_for(lock, pause, [this] { return is_hurried_ || stopped_; });
            if (std::exchange(is_hurried_, false)) pause = kShortest;
            idle_.wait(lock, [this] { return !busy_; });  // another thread runs a round
            if (stopped_ || !runtime_usable()) break;
            if (chores_.empty()) continue;
            pause = run_round(lock) ? kShortest : std::min(2 * pause, kLongest);
        }
    }

    // Runs every chore once, without the lock: a chore may hold the last reference to something. Returns true if one of
    // them is done. It needs no memory, so no chore is lost where memory is short.
    bool run_round(std::unique_lock<std::mutex>& lock) {
        detail::Chores round(std::move(chores_));
        busy_ = true;
        runner_ = std::this_thread::get_id();
        lock.unlock();
        const bool progress = round.run();
        lock.lock();
        busy_ = false;
        chores_.join(std::move(round));
        idle_.notify_all();
        return progress;
    }

    static constexpr std::chrono::milliseconds kShortest{2};
    static constexpr std::chrono::milliseconds kLongest{100};
    static constexpr std::chrono::milliseconds kPatience{1000};
    static constexpr std::chrono::milliseconds kPatienceOfFork{100};

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable idle_;
    detail::Chores chores_;
    bool started_ = false;
    bool stopped_ = false;
    bool is_hurried_ = false;
    bool busy_ = false;
    std::thread::id runner_;  // of the round, while busy_
};

PORTAMEM_CLOSE
