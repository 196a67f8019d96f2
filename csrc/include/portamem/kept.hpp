// SPDX-License-Identifier: MIT
// portamem/kept.hpp: keeps references alive until the queued work that uses them has run.
//
// A host callback could not let go of references: callbacks may not call the runtime, and the end of a last reference
// may free memory. So references sit in a list per stream, each behind an event. Calls that ask or wait for events,
// streams and devices drain the list, and a reaper does where there are none (leaving.hpp). Memory of portamem's own is
// not kept so: it remembers the events of its work itself (Allocation).
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "portamem/abi/order_api.h"
#include "portamem/capture.hpp"
#include "portamem/detail/embedder.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/event.hpp"
#include "portamem/reaper.hpp"

PORTAMEM_OPEN

namespace detail {

/// Says, for its scope, that this thread's questions about events and streams are portamem's own. The program does not
/// learn the answers, which depend on how fast the work runs, so the order checker takes no notice.
class UntrackedQueries {
  public:
    UntrackedQueries() noexcept { portamem_order_own_queries_begin(); }
    /// Does the same, except for this: work before an event that is asked, and that has happened, uses this memory no
    /// more.
    UntrackedQueries(const portamem_order_range* ranges, std::size_t count) noexcept : UntrackedQueries() {
        portamem_order_own_queries_about(ranges, count);
    }
    ~UntrackedQueries() { portamem_order_own_queries_end(); }
    UntrackedQueries(const UntrackedQueries&) = delete;
    UntrackedQueries& operator=(const UntrackedQueries&) = delete;
};

/// Tells the order checker that the work before an event, which has happened, uses this memory no more.
inline void tell_order_checker_done(const Event& happened, const portamem_order_range* ranges,
                                    std::size_t count) noexcept {
    if (portamem_order_is_on(rt::BackendId) == 0) return;
    try {
        const UntrackedQueries about(ranges, count);
        (void)happened.has_happened();
    } catch (const std::exception&) {
        return;  // the runtime fails, so nothing can be learned
    }
}
inline void tell_order_checker_done(const Event& happened, const void* ptr, std::size_t nbytes) noexcept {
    const portamem_order_range range{ptr, nbytes};
    tell_order_checker_done(happened, &range, 1);
}

/// Waits on portamem's own behalf. The order checker learns only that this memory is used no more.
inline void wait_for_use_of(const Event& event, const LightVector<portamem_order_range>& memory) {
    {
        const UntrackedQueries own;
        event.wait();
    }
    tell_order_checker_done(event, memory.data(), memory.size());
}

}  // namespace detail

/// Keeps references for a stream, each behind an event, and lets go of each when its event has happened.
class Kept {
  public:
    using References = std::array<std::shared_ptr<void>, 2>;

    /// Keeps both references until the event has happened.
    void keep(std::shared_ptr<Event> until, References references) {
        until->rely();
        std::lock_guard<std::mutex> lock(mutex_);
        entries_.push_back({std::move(until), std::move(references)});
    }

    /// Lets go of references whose event has happened, with no lock held. Never throws; an event that cannot be asked
    /// keeps its references.
    void drain() noexcept {
        detail::LightVector<Entry> finished;
        try {
            std::lock_guard<std::mutex> lock(mutex_);
            if (entries_.empty()) return;
            const detail::UntrackedQueries own;
            const RelaxedCapture beside(entries_.front().until->device());  // a stream's events are of one device
            std::size_t done = 0;                                           // and happen in order
            const auto has_happened = [](const Event& e) {
                return rt::EventQuery(e.relied_handle()) == rt::Error_t::Success;
            };
            while (done < entries_.size() && has_happened(*entries_[done].until)) {
                ++done;
            }
            if (done == 0) return;
            finished.reserve(done);
            const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(done);
            for (auto each = entries_.begin(); each != end; ++each) finished.push_back(std::move(*each));
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

    /// Returns whether drain() would let go of something, or has nothing left to do.
    bool can_drain() const noexcept {
        try {
            std::lock_guard<std::mutex> lock(mutex_);
            if (entries_.empty()) return true;
            const detail::UntrackedQueries own;
            const RelaxedCapture beside(entries_.front().until->device());
            return rt::EventQuery(entries_.front().until->relied_handle()) == rt::Error_t::Success;
        } catch (const std::exception&) {
            return false;
        }
    }

    /// Does drain(), and waits until other threads' drains have let go of what they took, for callers that promise that
    /// nothing finished is kept. Letting go may run the program's code, so a call from inside of that does not wait.
    void drain_all() noexcept {
        if (is_settled()) return;  // the usual case
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

    // Returns whether the list is empty, and no thread is letting go of references that it took from the list.
    bool is_settled() const noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        return entries_.empty() && letting_go_ == 0;
    }

    // Counts the drains that this thread is inside of, of any list.
    static int& letting_go_here() noexcept {
        static thread_local int depth = 0;
        return depth;
    }

    mutable std::mutex mutex_;
    std::condition_variable let_go_;
    detail::LightVector<Entry> entries_;
    int letting_go_ = 0;  // drains that have taken entries and not destroyed them yet
};

PORTAMEM_CLOSE
