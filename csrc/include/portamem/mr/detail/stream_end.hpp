// SPDX-License-Identifier: MIT
// portamem/mr/detail/stream_end.hpp: where a stream was when memory was freed on it, without an event for each time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "portamem/detail/light_vector.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

/// Represents the end of one stream's work at the latest note(), or later, because a later mark is never wrong. A
/// stream that can be marked at any time is only kept; any other is marked at each note(). It is not thread-safe: its
/// owner has a lock.
class StreamEnd {
  public:
    /// Notes that memory was freed now, behind the work on `stream`. Throws Error. Throws std::invalid_argument where a
    /// mark is needed and the stream is captured. Nothing is noted then.
    void note(const std::shared_ptr<Stream>& stream) {
        if (stream->can_be_marked_later()) {
            stream_ = stream;
            return;
        }
        stream->refuse_capture_if_open("deallocate");
        event_ = stream->tail();  // null for another thread's per-thread stream: its device has been waited for
    }

    /// Returns an event at that end or behind it to wait for, or null where nothing is pending. It marks the stream, so
    /// it throws std::invalid_argument while that is captured.
    std::shared_ptr<Event> mark() const {
        if (!stream_) return event_;
        stream_->refuse_capture_if_open("giving memory on to other streams");
        return stream_->tail();
    }

    /// Returns whether mark() would be refused.
    bool is_captured() const {
        if (!stream_) return false;
        const Stream::Use use(*stream_);  // another thread may close it just now
        return use && stream_->capture_status() != rt::StreamCaptureStatus::None;
    }

    /// Lets go of a stream that has no other holder, and which therefore gets no more work. The stream goes into
    /// `dropped`, which the caller destroys with no lock held, because its end may run the program's code.
    using Dropped = detail::LightVector<std::shared_ptr<Stream>>;
    void retire(Dropped& dropped) {
        if (!stream_ || stream_.use_count() > 1 || is_captured()) return;
        dropped.reserve(dropped.size() + 1);
        event_ = stream_->tail();
        dropped.push_back(std::move(stream_));
    }

    bool is_retired() const noexcept { return !stream_; }

    /// Returns whether its mark() is never before that of `other`, which is of the same stream.
    bool covers(const StreamEnd& other) const noexcept {
        return stream_ ? stream_ == other.stream_ : event_ == other.event_ && !other.stream_;
    }

    /// Returns whether that work has run. The caller asks a retired end only.
    bool has_run() const {
        const detail::UntrackedQueries own;
        return !event_ || event_->has_happened();
    }

  private:
    std::shared_ptr<Stream> stream_;  // null: event_ has the end
    std::shared_ptr<Event> event_;
};

/// Keeps the ends of every stream on which some memory was freed. It is not thread-safe.
class StreamEnds {
  public:
    /// Does what StreamEnd::note does. It may let go of streams that are over.
    void note(const std::shared_ptr<Stream>& stream, StreamEnd::Dropped& dropped) {
        const auto found = ends_.find(stream->identity());
        if (found != ends_.end()) return found->second.note(stream);
        if (ends_.size() >= crowded_) forget_what_is_over(dropped);
        StreamEnd end;
        end.note(stream);
        add(stream->identity(), std::move(end));
    }
    /// Add what was noted elsewhere for the stream of that identity, earlier or later than what was noted here.
    void add(std::uint64_t identity, StreamEnd end) { ends_.emplace(identity, std::move(end)); }
    void add(StreamEnds&& others) noexcept {
        for (auto it = others.ends_.begin(); it != others.ends_.end();) {
            const auto next = std::next(it);
            const auto found = ends_.equal_range(it->first);
            const bool is_known =
                std::any_of(found.first, found.second, [&](const auto& own) { return own.second.covers(it->second); });
            if (!is_known) ends_.insert(others.ends_.extract(it));
            it = next;
        }
        others.ends_.clear();
    }

    /// Turns what was noted into events to ask. Throws as mark() does; what is not turned stays.
    void into(detail::LightVector<std::shared_ptr<Event>>& marks) {
        while (!ends_.empty()) {
            if (auto mark = ends_.begin()->second.mark()) marks.push_back(std::move(mark));
            ends_.erase(ends_.begin());
        }
    }

    /// Blocks until the work of all streams but `behind` has run, which then uses that memory no more. Throws Error,
    /// and std::invalid_argument while one of them is captured.
    void wait_for_all_but(const Stream& behind, const detail::LightVector<portamem_order_range>& memory) const {
        detail::LightVector<std::shared_ptr<Event>> marks;
        for (const auto& [identity, end] : ends_) {
            if (identity != behind.identity()) marks.push_back(end.mark());
        }
        for (const auto& mark : marks) {
            if (mark) detail::wait_for_use_of(*mark, memory);
        }
    }

  private:
    // Forgets ends of streams that are gone, so that they do not pile up. While order is checked their events stay,
    // because the checker has to hear of each.
    void forget_what_is_over(StreamEnd::Dropped& dropped) {
        const bool is_checked = portamem_order_is_on(rt::BackendId) != 0;
        for (auto it = ends_.begin(); it != ends_.end();) {
            it->second.retire(dropped);
            const bool is_over = !is_checked && it->second.is_retired() && it->second.has_run();
            it = is_over ? ends_.erase(it) : std::next(it);
        }
        crowded_ = 2 * ends_.size() + kFew;
    }

    static constexpr std::size_t kFew = 16;

    // The key is the stream's identity. A stream that is marked at each note may have several ends here, where they
    // come together from several places and nothing tells which is the later one.
    std::multimap<std::uint64_t, StreamEnd> ends_;
    std::size_t crowded_ = kFew;
};

PORTAMEM_CLOSE
