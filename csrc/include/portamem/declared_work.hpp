// SPDX-License-Identifier: MIT
// portamem/declared_work.hpp: how much of the work that was declared on streams has run.
//
// A forked child cannot ask the runtime, and may read memory that its parent's work has written. So each stream numbers
// the uses of memory that are declared on it, and every call that waits or asks notes up to which number all have run.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/detail/light_vector.hpp"
#include "portamem/process_object.hpp"

PORTAMEM_OPEN

class Stream;

namespace detail {

/// Represents the declared work of one stream. It is thread-safe.
class DeclaredWork {
  public:
    explicit DeclaredWork(int device) noexcept : device_(device) {}

    int device() const noexcept { return device_; }
    /// Counts one more use, and returns its number, which is not 0.
    std::uint64_t declare() noexcept { return declared_.fetch_add(1, std::memory_order_relaxed) + 1; }
    /// Returns the number of the latest use; 0 where there is none.
    std::uint64_t declared() const noexcept { return declared_.load(std::memory_order_relaxed); }
    /// Returns whether all uses up to a number are known to have run. Makes no runtime call.
    bool has_run(std::uint64_t number) const noexcept { return has_run_.load(std::memory_order_acquire) >= number; }
    /// Notes that all uses up to a number have run. Of two threads that waited, the one with the higher number may come
    /// first.
    void note_run(std::uint64_t number) noexcept {
        auto known = has_run_.load(std::memory_order_relaxed);
        while (known < number && !has_run_.compare_exchange_weak(known, number, std::memory_order_acq_rel)) {
        }
    }

    /// Names the stream of the work. It is written before the work is listed.
    std::weak_ptr<Stream> stream;

  private:
    const int device_;
    std::atomic<std::uint64_t> declared_{0};
    std::atomic<std::uint64_t> has_run_{0};
};

/// Represents a moment of a stream: all that was declared on it so far.
struct DeclaredSoFar {
    std::shared_ptr<DeclaredWork> work;
    std::uint64_t number = 0;

    void note_run() const noexcept {
        if (work) work->note_run(number);
    }
};

/// Holds the work that an event's mark stands behind. Another thread may set the mark again while this one asks the
/// runtime.
class MarkedWork {
  public:
    void set(DeclaredSoFar so_far) {
        const std::lock_guard<std::mutex> lock(mutex_);
        so_far_ = std::move(so_far);
        is_set_.store(so_far_.work != nullptr, std::memory_order_release);
    }
    DeclaredSoFar get() const {
        if (!is_set_.load(std::memory_order_acquire)) return {};
        const std::lock_guard<std::mutex> lock(mutex_);
        return so_far_;
    }
    /// Notes that the mark which stood behind `before` has happened, unless it was set again meanwhile.
    void note_run(const DeclaredSoFar& before) const {
        if (!before.work) return;
        const DeclaredSoFar now = get();
        if (now.work == before.work && now.number == before.number) before.note_run();
    }

  private:
    std::atomic<bool> is_set_{false};
    mutable std::mutex mutex_;
    DeclaredSoFar so_far_;
};

/// Lists the declared work of all streams of the process. It is thread-safe.
class DeclaredWorks {
  public:
    static constexpr int kEveryDevice = -1;

    static DeclaredWorks& instance() {
        static auto& one = process_object<DeclaredWorks>("declared work");
        return one;
    }

    /// Lists work. Where the list has no memory, only the stream and its events tell of that work.
    static void add(const std::shared_ptr<DeclaredWork>& work) noexcept {
        try {
            instance().list(work);
        } catch (const std::exception&) {
            return;
        }
    }

    /// Returns the work of a device, or of all, that is not known to have run.
    LightVector<DeclaredSoFar> unfinished(int device) {
        LightVector<DeclaredSoFar> found;
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const auto& each : works_) {
            auto work = each.lock();
            if (!work || (device != kEveryDevice && work->device() != device)) continue;
            const auto number = work->declared();
            if (!work->has_run(number)) found.push_back({std::move(work), number});
        }
        return found;
    }

  private:
    void list(const std::shared_ptr<DeclaredWork>& work) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (works_.size() == works_.capacity()) {
            const auto is_gone = [](const std::weak_ptr<DeclaredWork>& each) { return each.expired(); };
            works_.erase_if(is_gone);
            works_.reserve(std::max<std::size_t>(2 * works_.size(), 16));
        }
        works_.push_back(work);
    }

    std::mutex mutex_;
    LightVector<std::weak_ptr<DeclaredWork>> works_;
};

}  // namespace detail

PORTAMEM_CLOSE
