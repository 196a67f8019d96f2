// SPDX-License-Identifier: MIT
// portamem/detail/spare_events.hpp: events that are out of use, for the next that is needed.
//
// Each copy on a stream has an event behind it. Runtimes take about as long to make an event and to destroy it as to
// queue a small copy.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "portamem/process_object.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps handles of events that measure no time. A kept event may have a mark, even of work that still runs: a
/// caller that takes the event records it before anyone asks it. It is thread-safe.
class SpareEvents {
  public:
    static constexpr std::size_t kMost = 64;

    static SpareEvents& instance() {
        static auto& one = process_object<SpareEvents>("spare events");
        return one;
    }

    /// Returns an event of the device, which the caller owns now; null where none is kept.
    rt::Event_t take(int device) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (std::size_t i = size_; i-- > 0;) {
            if (kept_[i].device != device) continue;
            const rt::Event_t event = kept_[i].event;
            kept_[i] = kept_[--size_];
            return event;
        }
        return rt::Event_t{};
    }

    /// Takes an event from its owner. Returns false where there is no room; the owner destroys the event then.
    bool keep(int device, rt::Event_t event) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (size_ == kMost) return false;
        kept_[size_++] = {device, event};
        return true;
    }

  private:
    struct Kept {
        int device;
        rt::Event_t event;
    };

    std::mutex mutex_;
    std::size_t size_ = 0;
    std::array<Kept, kMost> kept_{};
};

}  // namespace detail

PORTAMEM_CLOSE
