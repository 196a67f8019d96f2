// SPDX-License-Identifier: MIT
// portamem/mr/detail/stream_end.hpp: where a stream was when memory was freed on it, without an event for each time.
#pragma once

#include <algorithm>
#include <cstdint>
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
        const std::uint64_t identity = stream->identity();
        Noted* const found = first_of(identity);
        if (found != ends_.end() && found->identity == identity) return found->end.note(stream);
        if (ends_.size() >= crowded_) forget_what_is_over(dropped);
        StreamEnd end;
        end.note(stream);
        add(identity, std::move(end));
    }
    /// Add what was noted elsewhere for the stream of that identity, earlier or later than what was noted here. They
    /// throw std::bad_alloc, and nothing has changed; nothing is thrown after reserve() for the same others, or where
    /// nothing is here yet.
    void add(std::uint64_t identity, StreamEnd end) {
        ends_.push_back({identity, std::move(end)});
        // The streams that are noted last are mostly the youngest, whose identities are the largest.
        for (Noted* at = ends_.end() - 1; at != ends_.begin() && at->identity < at[-1].identity; --at) {
            std::swap(at[0], at[-1]);
        }
    }
    void add(StreamEnds&& others) {
        if (ends_.empty()) {
            ends_.swap(others.ends_);
            return;
        }
        reserve(others);
        for (Noted& other : others.ends_) {
            if (!covers(other)) add(other.identity, std::move(other.end));
        }
        others.ends_.clear();
    }
    void reserve(const StreamEnds& others) { ends_.reserve(ends_.size() + others.ends_.size()); }

    /// Turns what was noted into events to ask. Throws as mark() does; what is not turned stays.
    void into(detail::LightVector<std::shared_ptr<Event>>& marks) {
        Noted* next = ends_.begin();
        try {
            for (; next != ends_.end(); ++next) {
                if (auto mark = next->end.mark()) marks.push_back(std::move(mark));
            }
        } catch (...) {
            ends_.erase(ends_.begin(), next);
            throw;
        }
        ends_.clear();
    }

    /// Blocks until the work of all streams but `behind` has run, which then uses that memory no more. Throws Error,
    /// and std::invalid_argument while one of them is captured.
    void wait_for_all_but(const Stream& behind, const detail::LightVector<portamem_order_range>& memory) const {
        detail::LightVector<std::shared_ptr<Event>> marks;
        for (const Noted& noted : ends_) {
            if (noted.identity != behind.identity()) marks.push_back(noted.end.mark());
        }
        for (const auto& mark : marks) {
            if (mark) detail::wait_for_use_of(*mark, memory);
        }
    }

  private:
    struct Noted {
        std::uint64_t identity;  // of the stream
        StreamEnd end;
    };

    // Returns the first end of a stream, or the place where it would be.
    Noted* first_of(std::uint64_t identity) noexcept {
        return std::lower_bound(ends_.begin(), ends_.end(), identity,
                                [](const Noted& noted, std::uint64_t wanted) { return noted.identity < wanted; });
    }
    bool covers(const Noted& other) noexcept {
        Noted* own = first_of(other.identity);
        while (own != ends_.end() && own->identity == other.identity && !own->end.covers(other.end)) ++own;
        return own != ends_.end() && own->identity == other.identity;
    }

    // Forgets ends of streams that are gone, so that they do not pile up. While order is checked their events stay,
    // because the checker has to hear of each.
    void forget_what_is_over(StreamEnd::Dropped& dropped) {
        const bool is_checked = portamem_order_is_on(rt::BackendId) != 0;
        for (Noted* at = ends_.begin(); at != ends_.end();) {
            at->end.retire(dropped);
            const bool is_over = !is_checked && at->end.is_retired() && at->end.has_run();
            at = is_over ? ends_.erase(at) : at + 1;
        }
        crowded_ = 2 * ends_.size() + kFew;
    }

    static constexpr std::size_t kFew = 16;

    // Is ordered by identity. A stream that is marked at each note may have several ends here, where they come together
    // from several places and nothing tells which is the later one.
    detail::LightVector<Noted> ends_;
    std::size_t crowded_ = kFew;
};

PORTAMEM_CLOSE
