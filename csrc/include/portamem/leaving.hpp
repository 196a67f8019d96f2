// SPDX-License-Identifier: MIT
// portamem/leaving.hpp: objects that are let go once the work that uses them has run, and nothing else holds them.
//
// These are memory that was dropped while work may use it, references that a copy keeps, and host memory that was
// registered. Each is let go behind the events of its own work, not behind later work of its stream.
// - Calls that wait for the device, and allocations that fail, let go of everything whose work has run.
// - Calls that only ask do so where that waits for nothing.
// - The reaper does the rest. A call that only queues work lets go of nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "portamem/abi/record_api.h"
#include "portamem/detail/hearing.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/reaper.hpp"

PORTAMEM_OPEN

namespace detail {

/// Marks that this thread runs a function of Stream::launch_host_func, for its scope. Such a function may not call the
/// runtime, so memory that it drops goes back later.
class InHostFunction {
  public:
    InHostFunction() noexcept { ++depth(); }
    ~InHostFunction() { --depth(); }
    InHostFunction(const InHostFunction&) = delete;
    InHostFunction& operator=(const InHostFunction&) = delete;

    static bool here() noexcept { return depth() != 0; }

  private:
    static int& depth() noexcept {
        static thread_local int count = 0;
        return count;
    }
};

/// Returns the devices on which a stream that portamem knows has work now; rt::CpuDeviceId stands for any of them. It
/// asks no default stream, because the question would harm other captures. Never throws; a device that cannot be asked
/// has no work.
LightVector<int> busy_devices() noexcept;  // in stream.hpp

/// Represents one object on its way out. Leaving calls every function, on one thread at a time.
class Leaver {
  public:
    Leaver() = default;
    virtual ~Leaver() = default;
    Leaver(const Leaver&) = delete;
    Leaver& operator=(const Leaver&) = delete;

    /// Returns whether its work has run. It asks the runtime, and waits for nothing. Leaving's lock is held.
    virtual bool has_run() noexcept = 0;
    /// Returns whether only a wait for a whole device can tell. Then wait_for_device() is called before has_run(), with
    /// no lock held.
    virtual bool needs_device() const noexcept { return false; }
    virtual void wait_for_device() noexcept {}
    /// Lets go, with no lock held. Returns false where that is not possible now; it is tried again.
    virtual bool go() noexcept = 0;
    /// Returns whether go() may wait for other work of the device. Then only the reaper calls it, and not while it sees
    /// such work, because vendors block calls of other threads meanwhile.
    virtual bool may_wait() const noexcept { return false; }

    /// Describe the memory that comes free: its resource (null: none), its device, and its addresses.
    const void* resource = nullptr;
    int device_id = -2;
    const void* ptr = nullptr;
    std::size_t nbytes = 0;
    /// go() sets this where the resource refused the memory. The reaper tries again; no allocation waits for it.
    std::atomic<bool> was_refused{false};
    /// Notes when the reaper first saw that the work had run. Only Leaving uses it.
    std::chrono::steady_clock::time_point since{};
};

/// Keeps all objects on their way out, of this module. It is thread-safe.
class Leaving {
  public:
    enum class Caller { Asks, Drops, Waits, Reaper };

    static Leaving& instance() {
        static auto* leaked = [] {
            auto* const made = new Leaving;
            portamem_record_leaving(
                [](const void* ptr, std::size_t nbytes) { return instance().has(ptr, nbytes) ? 1 : 0; });
            return made;
        }();
        return *leaked;
    }

    /// Takes an object. Throws std::bad_alloc, and the caller keeps it then.
    void add(const std::shared_ptr<Leaver>& leaver) {
        if (portamem_forked() != 0) return;
        count_.fetch_add(1, std::memory_order_release);  // first: from here on the reaper's chore stays
        try {
            start_reaping();
            const std::lock_guard<std::mutex> lock(mutex_);
            leavers_.push_back(leaver);
        } catch (...) {
            count_.fetch_sub(1, std::memory_order_release);
            throw;
        }
        Reaper::instance().hurry();
    }

    /// Lets go of every object whose work has run. For a caller that waits, objects that other threads are letting go
    /// of are gone on return too, except those that take long.
    bool let_go(Caller caller) noexcept {
        if (count_.load(std::memory_order_acquire) == 0 || portamem_forked() != 0 || !runtime_usable()) return false;
        if (depth_here() != 0 || InHostFunction::here()) return false;  // called by an object that is being let go
        const std::uint64_t before = gone();
        unlocked([&] { let_go_unlocked(caller); });
        return gone() != before;
    }

    /// Lets go of every object whose work has run. If there is none, it waits until a Leaver has gone for which
    /// `counts` is true. Returns false where no such Leaver is left (a refused one does not count), and after
    /// kPatience, because the work may wait for the calling thread.
    template <class Counts>
    bool wait_for_one(std::uint64_t seen, Counts&& counts) noexcept {
        if (count_.load(std::memory_order_acquire) == 0) return gone() != seen;
        if (portamem_forked() != 0 || !runtime_usable() || depth_here() != 0) return false;
        bool went = false;
        unlocked([&] {
            const auto give_up = std::chrono::steady_clock::now() + kPatience;
            auto pause = std::chrono::microseconds(20);
            for (;;) {
                let_go_unlocked(Caller::Waits);
                went = gone() != seen;
                std::unique_lock<std::mutex> lock(mutex_);
                const auto is_worth_it = [&](const std::shared_ptr<Leaver>& l) {
                    return !l->was_refused.load() && counts(std::as_const(*l));
                };
                const bool is_coming = !going_.empty() || leavers_.any_of(is_worth_it);
                if (went || !is_coming || std::chrono::steady_clock::now() > give_up) return;
                (void)changed_.wait_for(lock, pause);
                pause = std::min(2 * pause, std::chrono::microseconds(1000));
            }
        });
        return went;
    }

    /// Returns whether this memory, or the block between its redzones, was dropped and only waits for its work. The
    /// report at the exit of the process asks when other threads may have stopped anywhere, so it is false where the
    /// lock cannot be had.
    bool has(const void* ptr, std::size_t nbytes) noexcept {
        if (count_.load(std::memory_order_acquire) == 0) return false;
        std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        for (int i = 0; !lock.owns_lock() && i < 100; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            (void)lock.try_lock();
        }
        if (!lock.owns_lock()) return false;
        const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
        const auto is_within = [begin, nbytes](const void* leaving, std::size_t size) {
            const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(leaving) - begin;
            return leaving != nullptr && before <= nbytes && size <= nbytes - before && nbytes - size <= kMostRedzones;
        };
        const auto leaves = [&](const std::shared_ptr<Leaver>& l) {
            return !l->was_refused.load() && is_within(l->ptr, l->nbytes);
        };
        return leavers_.any_of(leaves) || going_.any_of([&](const Going& g) { return is_within(g.ptr, g.nbytes); });
    }

    /// Returns how many objects have gone so far.
    static std::uint64_t gone() noexcept { return gone_count().load(std::memory_order_acquire); }
    std::size_t size() const noexcept { return count_.load(std::memory_order_acquire); }

  private:
    using List = LightVector<std::shared_ptr<Leaver>>;

    static std::atomic<std::uint64_t>& gone_count() noexcept {
        static std::atomic<std::uint64_t> count{0};
        return count;
    }
    static int& depth_here() noexcept {
        static thread_local int depth = 0;
        return depth;
    }

    void start_reaping() {
        if (is_reaped_.exchange(true)) return;
        try {
            Reaper::instance().add([this] {
                (void)let_go(Caller::Reaper);
                if (count_.load() != 0) return false;
                is_reaped_.store(false);
                return count_.load() == 0 || is_reaped_.exchange(true);
            });
        } catch (...) {
            is_reaped_.store(false);
            throw;
        }
    }

    void let_go_unlocked(Caller caller) noexcept {
        List ready;
        LightVector<int> busy;  // asked without the lock: the question may end a stream
        if (caller == Caller::Reaper) busy = busy_devices();
        std::size_t left = 0;
        {
            std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
            if (caller == Caller::Asks) {
                if (!lock.try_lock()) return Reaper::instance().hurry();
            } else {
                lock.lock();
            }
            take_ready(caller, busy, ready, left);
        }
        part_with(ready);
        if (caller == Caller::Reaper) return wait_for_devices();
        if (caller == Caller::Asks) return;
        std::unique_lock<std::mutex> lock(mutex_);
        if (caller == Caller::Waits) {
            (void)changed_.wait_for(lock, kMoment, [this] { return going_.size() == going_and_waiting_; });
        }
        // The reaper does the rest, and mostly waits for nothing. Once it does, no caller waits for the reaper.
        if (left == 0 || is_stuck_) return;
        const std::uint64_t enough = gone_by_reaper_ + left;
        is_stuck_ = !changed_.wait_for(lock, kReapersMoment, [&] { return gone_by_reaper_ >= enough; });
    }

    // The caller holds the lock.
    void take_ready(Caller caller, const LightVector<int>& busy, List& ready, std::size_t& left) noexcept {
        try {
            ready.reserve(leavers_.size());
            going_.reserve(going_.size() + leavers_.size());
        } catch (const std::bad_alloc&) {
            return;  // a later call tries again
        }
        auto stays = leavers_.begin();
        for (auto it = leavers_.begin(); it != leavers_.end(); ++it) {
            bool goes = !(*it)->needs_device() && (*it)->has_run();
            if (goes && (*it)->may_wait()) {
                if (caller != Caller::Reaper) ++left;
                goes = caller == Caller::Reaper && is_time(**it, busy);
            }
            if (goes) {
                note_going(**it);
                ready.push_back(std::move(*it));
            } else {
                if (stays != it) *stays = std::move(*it);
                ++stays;
            }
        }
        leavers_.erase(stays, leavers_.end());
        if (left != 0) Reaper::instance().hurry();
    }

    // Returns whether the reaper may call a free that may wait: not while a known stream has work on the device, for
    // two seconds.
    static bool is_time(Leaver& leaver, const LightVector<int>& busy) noexcept {
        const auto now = std::chrono::steady_clock::now();
        if (leaver.since == std::chrono::steady_clock::time_point()) leaver.since = now;
        if (std::find(busy.begin(), busy.end(), leaver.device_id) == busy.end()) return true;
        return now - leaver.since > kPatience;
    }

    // The caller holds the lock for this function and the next. There is room for the entry.
    void note_going(const Leaver& leaver) noexcept {
        going_.push_back({&leaver, leaver.ptr, leaver.nbytes});
        if (leaver.may_wait()) ++going_and_waiting_;
    }
    void note_gone(const Leaver* leaver) noexcept {
        const auto is_it = [leaver](const Going& going) { return going.leaver == leaver; };
        going_.erase(std::find_if(going_.begin(), going_.end(), is_it));
    }

    void part_with(List& ready) noexcept {
        for (auto& leaver : ready) {
            const bool may_wait = leaver->may_wait();
            const Leaver* const which = leaver.get();
            ++depth_here();
            const bool went = leaver->go();
            if (went) leaver.reset();
            --depth_here();
            const std::lock_guard<std::mutex> lock(mutex_);
            note_gone(which);
            if (may_wait) {
                --going_and_waiting_;
                ++gone_by_reaper_;
                is_stuck_ = false;
            }
            if (went) {
                gone_count().fetch_add(1, std::memory_order_release);
                count_.fetch_sub(1, std::memory_order_release);
            } else {
                put_back(std::move(leaver));
            }
            changed_.notify_all();
        }
    }

    // The caller holds the lock.
    void put_back(std::shared_ptr<Leaver>&& leaver) noexcept {
        try {
            leavers_.push_back(std::move(leaver));
        } catch (const std::bad_alloc&) {
            count_.fetch_sub(1, std::memory_order_release);
            (void)new (std::nothrow) std::shared_ptr<Leaver>(std::move(leaver));  // kept for ever then
        }
    }

    // Waits for one device after the other, and last, so that other objects may go meanwhile.
    void wait_for_devices() noexcept {
        for (;;) {
            List one;
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                const auto found = std::find_if(leavers_.begin(), leavers_.end(),
                                                [](const auto& leaver) { return leaver->needs_device(); });
                if (found == leavers_.end()) return;
                try {
                    one.reserve(1);
                    going_.reserve(going_.size() + 1);
                } catch (const std::bad_alloc&) {
                    return;
                }
                note_going(**found);
                one.push_back(std::move(*found));
                leavers_.erase(found);
            }
            one.front()->wait_for_device();
            const bool is_stuck = one.front()->needs_device();
            part_with(one);
            if (is_stuck) return;
        }
    }

    // These times are longer than a runtime's call takes, and shorter than the program would wait.
    static constexpr std::chrono::milliseconds kMoment{200};
    static constexpr std::chrono::milliseconds kReapersMoment{20};
    static constexpr std::chrono::milliseconds kPatience{2000};
    static constexpr std::size_t kMostRedzones = std::size_t{64} << 10;  // around a block, and its alignment

    std::atomic<std::size_t> count_{0};  // in leavers_ or going
    std::atomic<bool> is_reaped_{false};
    std::mutex mutex_;  // held while the runtime is asked, never while something goes
    std::condition_variable changed_;
    List leavers_;
    struct Going {
        const Leaver* leaver;  // only a name: the object may be gone
        const void* ptr;
        std::size_t nbytes;
    };
    LightVector<Going> going_;           // taken out by a thread that is letting go of them
    std::size_t going_and_waiting_ = 0;  // how many of those may wait
    std::uint64_t gone_by_reaper_ = 0;
    bool is_stuck_ = false;  // a caller has waited for the reaper in vain
};

/// Says, for its scope, that no work uses this memory any more: the caller has asked the events of that work. Resources
/// need not wait for the stream that they are given.
class Settled {
  public:
    /// Says whether there may be work that portamem was not told of, because the program knows the address. Vendors
    /// wait for such work in Free, and programs rely on that.
    enum class Uses { AllAsked, MaybeMore };

    explicit Settled(const void* ptr, Uses uses = Uses::MaybeMore) noexcept
        : before_(std::exchange(here(), State{ptr, uses})) {}
    /// Names the same memory by another address, as within redzones, where `ptr` is settled.
    Settled(const void* ptr, const void* whole) noexcept : before_(here()) {
        if (covers(ptr)) here().ptr = whole;
    }
    ~Settled() { here() = before_; }
    Settled(const Settled&) = delete;
    Settled& operator=(const Settled&) = delete;

    static bool covers(const void* ptr) noexcept { return ptr != nullptr && here().ptr == ptr; }
    /// Returns the same, where every use was asked too.
    static bool covers_all_uses(const void* ptr) noexcept { return covers(ptr) && here().uses == Uses::AllAsked; }

  private:
    struct State {
        const void* ptr = nullptr;
        Uses uses = Uses::MaybeMore;
    };
    static State& here() noexcept {
        static thread_local State state;
        return state;
    }

    const State before_;
};

}  // namespace detail

PORTAMEM_CLOSE
