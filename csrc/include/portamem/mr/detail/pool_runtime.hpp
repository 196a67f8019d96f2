// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_runtime.hpp: the owner of a pool's machinery: its upstream, events and streams.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "portamem/abi/pool_api.h"
#include "portamem/detail/hearing.hpp"
#include "portamem/detail/owned.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/kept.hpp"
#include "portamem/mr/detail/pool_annotations.hpp"
#include "portamem/mr/detail/pool_events.hpp"
#include "portamem/mr/detail/pool_failure.hpp"
#include "portamem/mr/detail/pool_release.hpp"
#include "portamem/mr/memory_resource.hpp"
#include "portamem/mr/pool_figures.hpp"

PORTAMEM_OPEN

namespace detail {

/// Owns a portamem_pool, and has the upstream, the events and the streams of its callbacks. The
/// resource keeps it alive, and so do streams that tell their end.
class PoolRuntime : public StreamListener {
  public:
    ~PoolRuntime() override {
        if (pool_ == nullptr || !runtime_usable()) {
            // The machinery and all that it holds are leaked, its events with it.
            if (pool_ != nullptr) portamem_pool_abandon(pool_);
            events_.leak();
            return;
        }
        const PoolFailureKept of_others;
        unlocked([this] { portamem_pool_destroy(pool_); });
    }

    portamem_pool* pool() const noexcept { return pool_; }

    /// Calls off what is due, because the resource ends. It waits a moment for a chore that gives back for the pool, so
    /// that the pool ends here.
    void call_off_due() noexcept {
        if (!runtime_usable() || portamem_forked() != 0) return;
        portamem_pool_call_off_due(pool_);
        for (int i = 0; i < 1000 && is_giving_back(); ++i) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    /// Returns whether a chore, or a call of another pool, is giving back for the pool just now, on another thread.
    bool is_giving_back() const noexcept {
        if (portamem_pool_is_lending(pool_) != 0) return true;
        const std::uint64_t thread = is_at_it_->load();
        return thread != 0 && thread != this_thread_number();
    }
    /// Waits for all work that used the pool's memory, and gives back every chunk of which nothing is out. Returns
    /// false where the pool cannot wait for some of that work now, as under a capture, and still has chunks.
    bool give_all_back() noexcept {
        const PoolFailureKept of_others;
        was_wait_refused_.store(false);
        (void)portamem_pool_trim(pool_, 0);
        std::uint64_t reserved = 0;
        std::uint64_t peak = 0;
        portamem_pool_reserved(pool_, &reserved, &peak);
        return reserved == 0 || !was_wait_refused_.load();
    }
    const std::shared_ptr<MemoryResource>& upstream() const noexcept { return upstream_; }
    const PoolOptions& options() const noexcept { return options_; }
    /// Returns its limit and release policy.
    const PoolRelease& release() const noexcept { return release_; }
    PoolEvents& events() noexcept { return events_; }
    /// Returns null where no memory checker follows such memory.
    PoolAnnotations* annotations() const noexcept { return annotations_.get(); }

    PoolStats stats() const {
        portamem_pool_figures figures{};
        figures.size = sizeof figures;
        portamem_pool_stats(pool_, &figures);
        PoolStats stats;
        stats.used = figures.used;
        stats.reserved = figures.reserved;
        stats.peak = figures.peak;
        stats.largest_free = figures.largest_free;
        stats.free_blocks = figures.free_blocks;
        if (figures.free_bytes != 0) {
            stats.fragmentation =
                1 - static_cast<double>(figures.largest_free) / static_cast<double>(figures.free_bytes);
        }
        stats.hits = figures.hits;
        stats.misses = figures.misses;
        stats.steals = figures.steals;
        stats.releases = figures.releases;
        return stats;
    }

    void stream_ended(std::uint64_t identity, std::shared_ptr<Event> last) noexcept override {
        void* handle = nullptr;
        if (last) {
            handle = handle_of(last);
            if (handle == nullptr) {  // no host memory to keep the event: waited for here
                const HearingScope deaf(Hearing::Nothing);
                try {
                    last->wait();
                } catch (...) {
                    return;
                }
            }
        }
        const PoolFailureKept of_others;  // of a call that this is inside of: no caller is told of one here
        portamem_pool_stream_ended(pool_, identity, handle);
    }

    /// Serves make_pool.
    PoolRuntime(std::shared_ptr<MemoryResource> upstream, PoolOptions options)
        : upstream_(std::move(upstream)),
          options_(std::move(options)),
          device_(upstream_->device()),
          annotations_(PoolAnnotations::of(upstream_->traits())),
          release_(options_, upstream_->traits()) {}

  private:
    friend struct PoolCallbacks;

    struct StreamRef {
        std::weak_ptr<Stream> stream;
    };

    // Returns an event as the machinery holds it.
    static void* handle_of(std::shared_ptr<Event> event) noexcept {
        try {
            return new std::shared_ptr<Event>(std::move(event));
        } catch (...) {
            return nullptr;
        }
    }

    static bool release_due(const std::weak_ptr<PoolRuntime>& pool, std::atomic<std::uint64_t>& is_at_it) noexcept {
        is_at_it.store(this_thread_number());
        bool is_done = true;
        if (const auto runtime = pool.lock()) {
            const PoolFailureKept of_others;
            is_done = portamem_pool_release_due(runtime->pool_) != 0;
        }
        is_at_it.store(0);
        return is_done;
    }

    int deallocate(void* ptr, std::size_t nbytes) {
        if (annotations_) annotations_->chunk_gone(ptr, nbytes);
        try {
            upstream_->deallocate(ptr, nbytes, idle_stream());
        } catch (...) {
            if (annotations_) annotations_->chunk(ptr, nbytes);  // the chunk stays
            throw;
        }
        return PORTAMEM_POOL_OK;
    }

    int describe(const std::shared_ptr<Stream>& stream, portamem_pool_stream& about) {
        if (stream->device() != device_) {
            throw std::invalid_argument("the stream belongs to device " + std::to_string(stream->device()) +
                                        ", the resource to device " + std::to_string(device_) +
                                        ": name a stream of the resource's device");
        }
        (void)stream->handle();  // refuses a closed stream, and another thread's per-thread one
        if (auto* const use = stream->handle_use()) return describe(*use, about);
        about.is_per_thread = stream->is_per_thread() ? 1 : 0;
        const std::shared_ptr<Stream> teller = stream->teller();
        about.ends_unseen = teller ? 0 : 1;
        if (about.ends_unseen != 0) return PORTAMEM_POOL_OK;
        about.ref = new StreamRef{teller};
        if (!teller->listen(self_)) {
            delete static_cast<StreamRef*>(std::exchange(about.ref, nullptr));
            throw std::invalid_argument("the stream is closed");
        }
        return PORTAMEM_POOL_OK;
    }

    // Describes a bare handle: only the calling thread marks it, and only in calls on it. Memory that the host reaches
    // is marked at each free, because the handle may be gone at a later mark.
    int describe(HandleUse& use, portamem_pool_stream& about) {
        const bool is_followed =
            !defers_ && use.is_of_this_thread() && use.is_followed() && !use.is_new() && runtime_usable();
        about.ends_unseen = is_followed ? 0 : 1;
        if (!is_followed) return PORTAMEM_POOL_OK;
        about.is_per_thread = 1;
        about.is_marked_in_calls = 1;
        use.listen(self_);
        return PORTAMEM_POOL_OK;
    }

    // Returns BUSY where the stream cannot be marked now, or not by this thread, and nothing is wrong.
    int mark(const std::shared_ptr<Stream>& stream, void** event) {
        if (stream->is_elsewhere() || !runtime_usable()) return PORTAMEM_POOL_BUSY;
        auto* const use = stream->handle_use();
        if (use != nullptr && use->is_of_this_thread() && use->is_followed() && !use->is_same_now()) {
            return PORTAMEM_POOL_BUSY;  // a mark of another stream would not cover what was freed before
        }
        const RelaxedCapture beside(device_);
        {
            const Stream::Use use(*stream);  // another thread may close it just now
            if (use && stream->capture_status() != rt::StreamCaptureStatus::None) return PORTAMEM_POOL_BUSY;
        }
        auto tail = stream->tail(events_.take());
        if (!tail) return PORTAMEM_POOL_OK;
        *event = handle_of(std::move(tail));
        if (*event == nullptr) throw std::bad_alloc();
        return PORTAMEM_POOL_OK;
    }

    // Asks a stream itself where it is ordered with no other. For other streams it asks an event: their work may wait
    // for the legacy stream's work, which a query of the stream does not see.
    bool has_run(const std::shared_ptr<Stream>& stream) {
        if (stream->is_elsewhere() || !runtime_usable()) return false;
        const Stream::Use use(*stream);  // another thread may close it just now
        if (!use || stream->capture_status() != rt::StreamCaptureStatus::None) return false;
        const UntrackedQueries own;
        if (stream->is_known_nonblocking()) {
            const RelaxedCaptureMode beside;
            return rt::StreamQuery(stream->handle()) == rt::Error_t::Success;
        }
        const RelaxedCapture beside(device_);
        auto event = events_.take();
        if (event == nullptr) event = Event::create(device_);
        stream->record_unasked(*event);
        const bool has_run = rt::EventQuery(event->handle()) == rt::Error_t::Success;
        events_.recycle(std::move(event));
        return has_run;
    }

    // No work uses memory that goes back to the upstream, so a stream without work is the right one to free on.
    std::shared_ptr<Stream> idle_stream() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (idle_stream_) return idle_stream_;
        }
        const RelaxedCapture beside(device_);
        auto made = Stream::create(device_);
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!idle_stream_) idle_stream_ = std::move(made);
        return idle_stream_;
    }

    const std::shared_ptr<MemoryResource> upstream_;
    const PoolOptions options_;
    const int device_;
    const Owned<PoolAnnotations> annotations_;
    PoolRelease release_;
    PoolEvents events_;
    std::weak_ptr<PoolRuntime> self_;
    /// Is the number of the thread whose chore gives back what is due, and holds the pool; 0: none.
    const std::shared_ptr<std::atomic<std::uint64_t>> is_at_it_ = shared<std::atomic<std::uint64_t>>(std::uint64_t{0});
    portamem_pool* pool_ = nullptr;
    bool defers_ = false;  // freed memory waits for an event
    std::mutex mutex_;     // of idle_stream_; a leaf
    std::shared_ptr<Stream> idle_stream_;
    std::atomic<bool> was_wait_refused_{false};  // give_all_back: some work could not be marked or waited for
};

}  // namespace detail

PORTAMEM_CLOSE
