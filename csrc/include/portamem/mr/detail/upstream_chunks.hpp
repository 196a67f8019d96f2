// SPDX-License-Identifier: MIT
// portamem/mr/detail/upstream_chunks.hpp: large pieces of an upstream's memory on their way back to it.
#pragma once

#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "portamem/detail/hearing.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/mr/detail/stream_end.hpp"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN

/// Represents a piece of memory that an upstream gave on a stream. It does not keep the stream alive.
struct UpstreamChunk {
    void* ptr = nullptr;
    std::size_t nbytes = 0;
    std::weak_ptr<Stream> origin;
};

/// Holds chunks that have no user any more, except for work that may still be queued.
class ReturningChunks {
  public:
    explicit ReturningChunks(std::shared_ptr<MemoryResource> upstream) : upstream_(std::move(upstream)) {}

    detail::LightVector<UpstreamChunk> chunks;
    StreamEnds ends;                                    ///< the streams on which parts of them were freed
    detail::LightVector<std::shared_ptr<Event>> marks;  ///< to be waited for as well

    /// Hands the chunks to the upstream, each behind all that work, so that no resource has to wait for another stream
    /// than the one it is given. Throws what the upstream throws; chunks that have not gone back are still here.
    void give_back() {
        detail::LightVector<portamem_order_range> memory;
        memory.reserve(chunks.size());
        for (const UpstreamChunk& chunk : chunks) memory.push_back({chunk.ptr, chunk.nbytes});
        for (const auto& mark : marks) detail::wait_for_use_of(*mark, memory);
        marks.clear();
        std::uint64_t waited_behind = 0;
        while (!chunks.empty()) {
            const UpstreamChunk& chunk = chunks.back();
            const auto by_default = Stream::default_stream(upstream_->device());
            auto origin = chunk.origin.lock();
            if (!origin) origin = by_default;
            const Stream::Use use(*origin);  // another thread may close it meanwhile
            const auto& stream = use && is_fit(*origin) ? origin : by_default;
            if (stream->identity() != waited_behind) ends.wait_for_all_but(*stream, memory);
            waited_behind = stream->identity();
            upstream_->deallocate(chunk.ptr, chunk.nbytes, stream);
            chunks.pop_back();
        }
    }

    /// Returns whether all that work has run. It asks, and waits for nothing. Throws as give_back() does.
    bool has_run() {
        ends.into(marks);
        const detail::UntrackedQueries own;
        return !marks.any_of([](const std::shared_ptr<Event>& mark) { return !mark->has_happened(); });
    }

    std::size_t nbytes() const noexcept {
        std::size_t sum = 0;
        for (const UpstreamChunk& chunk : chunks) sum += chunk.nbytes;
        return sum;
    }

    /// Takes chunks that were left behind, earlier or later. Throws std::bad_alloc, and the other object keeps its
    /// chunks: the streams and marks to wait for come over first, since waiting for more does no harm. It needs no host
    /// memory where nothing is here yet.
    void add(ReturningChunks&& later) {
        if (chunks.empty() && marks.empty()) {
            ends.add(std::move(later.ends));
            chunks.swap(later.chunks);
            marks.swap(later.marks);
            return;
        }
        chunks.reserve(chunks.size() + later.chunks.size());
        marks.append(later.marks);
        ends.add(std::move(later.ends));
        chunks.append(later.chunks);
        later.chunks.clear();
        later.marks.clear();
    }

    /// Calls leave() on what a function takes out. The function may throw before it has; host memory may be back in a
    /// moment.
    static void leave_all(const std::function<ReturningChunks()>& take) noexcept {
        for (int i = 0; i < 3; ++i) {
            try {
                return leave(take());
            } catch (const std::bad_alloc&) {
                continue;
            } catch (...) {
                return;  // the runtime fails, so nothing can be recovered
            }
        }
    }

    /// Does give_back() for destructors, which wait for nothing. Chunks that cannot go back now are tried again, and
    /// never lost.
    static void leave(ReturningChunks&& chunks) noexcept {
        if (!runtime_usable()) return;
        detail::unlocked([&chunks] {
            try {
                if (!chunks.has_run()) return leave_later(std::move(chunks));
                chunks.give_back_settled();
            } catch (...) {
                leave_later(std::move(chunks));
            }
        });
    }

  private:
    // Gives back once all that work has run.
    void give_back_settled() {
        for (const auto& mark : marks) {
            for (const UpstreamChunk& chunk : chunks) detail::tell_order_checker_done(*mark, chunk.ptr, chunk.nbytes);
        }
        const auto stream = Stream::default_stream(upstream_->device());
        while (!chunks.empty()) {
            const detail::Settled settled(chunks.back().ptr);
            upstream_->deallocate(chunks.back().ptr, chunks.back().nbytes, stream);
            chunks.pop_back();
        }
    }

    class Left;
    static void leave_later(ReturningChunks&& chunks) noexcept;

    // Returns whether a chunk goes back on the stream that it came from, where it can be reused at once. It does not on
    // a stream that may be gone unnoticed, or that takes no work.
    static bool is_fit(const Stream& origin) {
        return origin.can_be_marked_later() && origin.capture_status() == rt::StreamCaptureStatus::None;
    }

    std::shared_ptr<MemoryResource> upstream_;
};

/// Keeps chunks until their work has run.
class ReturningChunks::Left : public detail::Leaver {
  public:
    explicit Left(std::shared_ptr<MemoryResource> upstream) : chunks(upstream) {
        resource = upstream.get();
        device_id = upstream->device_id();
    }
    bool has_run() noexcept override {
        try {
            return chunks.has_run();
        } catch (...) {
            return false;  // a capture is in the way, or the runtime is out of resources
        }
    }
    bool go() noexcept override {
        try {
            chunks.give_back_settled();
            return true;
        } catch (...) {
            was_refused.store(true);
            return false;
        }
    }
    bool may_wait() const noexcept override { return rt::FreeMayWait; }

    ReturningChunks chunks;
};

inline void ReturningChunks::leave_later(ReturningChunks&& chunks) noexcept {
    Left* left = nullptr;
    std::shared_ptr<detail::Leaver> leaver;
    try {
        left = new Left(chunks.upstream_);
        leaver.reset(left);
        left->chunks.add(std::move(chunks));
        left->nbytes = left->chunks.nbytes();
        return detail::Leaving::instance().add(leaver);
    } catch (...) {
        // There is no host memory to keep them for later, so this call waits for their work.
    }
    const detail::HearingScope deaf(detail::Hearing::Nothing);
    try {
        (leaver && !left->chunks.chunks.empty() ? left->chunks : chunks).give_back();
    } catch (...) {
        // The memory is lost to this process, which the upstream's counters keep showing.
    }
}

PORTAMEM_CLOSE
