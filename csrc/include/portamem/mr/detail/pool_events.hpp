// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_events.hpp: events and streams that a pool's callbacks hold while the machinery has locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/owned.hpp"
#include "portamem/event.hpp"
#include "portamem/reaper.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps events for marks to come. A callback may run under the pool's locks, where nothing may be destroyed. Surplus
/// events are held, and go once the call is over. The lock is a leaf.
class PoolEvents {
  public:
    using Streams = std::list<std::shared_ptr<Stream>>;
    static constexpr std::size_t kMostIdle = 64;

    /// Leaves everything to a process that ends.
    void leak() noexcept {
        (void)new LightVector<std::shared_ptr<Event>>(std::move(idle_));
        (void)new LightVector<std::shared_ptr<Event>>(std::move(surplus_));
    }

    /// Returns an event to record anew; null where there is none.
    std::shared_ptr<Event> take() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (idle_.empty()) return nullptr;
        auto event = std::move(idle_.back());
        idle_.pop_back();
        return event;
    }

    /// Takes an event back, and makes no runtime call. Streams that come and go bring one each, and take none.
    void recycle(std::shared_ptr<Event> event) noexcept {
        if (event.use_count() != 1) return;  // a closed stream's last event, which other holders ask
        try {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (idle_.size() < kMostIdle) return idle_.push_back(std::move(event));
            surplus_.push_back(std::move(event));
            holds_.store(true, std::memory_order_relaxed);
        } catch (...) {
            (void)new std::shared_ptr<Event>(std::move(event));
        }
    }

    /// Holds streams until no lock is held, because the end of one may run the program's code.
    void hold(Streams& streams) {
        const std::lock_guard<std::mutex> lock(mutex_);
        held_.splice(held_.end(), streams);
        holds_.store(true, std::memory_order_relaxed);
    }

    /// Lets go of what callbacks have held, once a call is over. Where the thread may not block, the reaper does it:
    /// the thread is ending, and another thread may wait for it with a lock that the streams' owners need.
    void let_go(bool may_block) noexcept {
        if (!holds_.load(std::memory_order_relaxed)) return;  // the usual case, which shares no lock
        Streams streams;
        LightVector<std::shared_ptr<Event>> surplus;  // destroying an event waits for nothing
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            holds_.store(false, std::memory_order_relaxed);
            streams.swap(held_);
            surplus.swap(surplus_);
        }
        if (may_block || (streams.empty() && surplus.empty())) return;
        try {
            Owned left(new Held);
            left->streams.swap(streams);
            left->events.swap(surplus);
            Reaper::instance().add([left = std::move(left)] {
                left->streams.clear();
                left->events.clear();
                return true;
            });
        } catch (...) {
            return;
        }
    }

    std::size_t idle() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return idle_.size();
    }

  private:
    struct Held {
        Streams streams;
        LightVector<std::shared_ptr<Event>> events;
    };

    std::mutex mutex_;
    LightVector<std::shared_ptr<Event>> idle_;
    LightVector<std::shared_ptr<Event>> surplus_;
    Streams held_;
    std::atomic<bool> holds_{false};  // held_ or surplus_ has an entry
};

}  // namespace detail

PORTAMEM_CLOSE
