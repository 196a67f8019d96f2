// SPDX-License-Identifier: MIT
// portamem/detail/latest_events.hpp: the events that stand behind all operations on some memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "portamem/detail/light_vector.hpp"
#include "portamem/event.hpp"
#include "portamem/kept.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps events, so that every operation that was added has run once all of them have happened. Of the operations that
/// one thread queues on one stream the latest has run last, so its event stands for the others. It is not thread-safe.
class LatestEvents {
  public:
    /// Adds an operation on a stream, of which this thread has recorded `done` behind it. The program may record the
    /// event again. Returns an event that is kept no more, which the caller lets go of without a lock, or null. Throws
    /// std::bad_alloc.
    [[nodiscard]] std::shared_ptr<Event> add(const Stream& stream, std::shared_ptr<Event> done) {
        done->rely();
        const std::uint64_t thread = this_thread_number();
        // The handle of another stream may have been given to a new one, behind which the earlier work need not be.
        const bool is_one_stream = stream.tells_its_end() || stream.is_default();
        for (Entry& entry : entries_) {
            if (!is_one_stream || entry.stream != stream.identity() || entry.thread != thread) continue;
            entry.done.swap(done);
            return done;
        }
        if (entries_.size() >= kFew && entries_.size() == entries_.capacity()) {
            drop_happened();
            entries_.reserve(std::max(2 * entries_.size(), kFew));
        }
        entries_.push_back({stream.identity(), thread, std::move(done)});
        return nullptr;
    }

    /// Returns whether every operation has run. Asks the runtime until one has not, and drops those that have. Throws
    /// nothing; an event that cannot be asked has not happened.
    bool have_happened() noexcept {
        const UntrackedQueries own;
        while (!entries_.empty()) {
            if (!has_happened(entries_.back())) return false;
            entries_.pop_back();
        }
        return true;
    }

    bool empty() const noexcept { return entries_.empty(); }
    void clear() noexcept { entries_.clear(); }

    /// Calls `each(event)` for all that are kept.
    template <class Each>
    void for_each(Each&& each) const {
        for (const Entry& entry : entries_) each(entry.done);
    }

  private:
    static constexpr std::size_t kFew = 8;

    struct Entry {
        std::uint64_t stream;
        std::uint64_t thread;
        std::shared_ptr<Event> done;
    };

    static bool has_happened(const Entry& entry) noexcept {
        try {
            return entry.done->has_happened();
        } catch (const std::exception&) {
            return false;
        }
    }

    void drop_happened() noexcept {
        const UntrackedQueries own;
        entries_.erase_if(has_happened);
    }

    LightVector<Entry> entries_;
};

}  // namespace detail

PORTAMEM_CLOSE
