// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_runtime.hpp: what a pool's machinery asks of the runtime and of the upstream.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "portamem/abi/pool_api.h"
#include "portamem/detail/hearing.hpp"
#include "portamem/kept.hpp"
#include "portamem/mr/detail/chunk_request.hpp"
#include "portamem/mr/detail/pool_annotations.hpp"
#include "portamem/mr/detail/pool_limit.hpp"
#include "portamem/mr/memory_resource.hpp"
#include "portamem/mr/pool_figures.hpp"

PORTAMEM_OPEN

namespace detail {

/// The owner of a portamem_pool: its callbacks. An exception inside of one is kept for the thread, and thrown again once
/// the machinery has answered. Kept alive by whoever is inside of it: the resource, and streams that tell of their end.
class PoolRuntime : public StreamListener {
  public:
    static std::shared_ptr<PoolRuntime> create(std::shared_ptr<MemoryResource> upstream, PoolOptions options) {
        auto runtime = std::make_shared<PoolRuntime>(Key{}, std::move(upstream), std::move(options));
        runtime->self_ = runtime;
        portamem_pool_options settings{};
        settings.size = sizeof settings;
        settings.limit = runtime->options_.limit;
        const bool host_reaches = runtime->upstream_->is_host_accessible() && runtime->options_.host_access;
        settings.host_accessible = host_reaches ? 1 : 0;
        runtime->defers_ = host_reaches;
        settings.stream_ordered = runtime->upstream_->is_stream_ordered() ? 1 : 0;
        settings.is_of_device = runtime->upstream_->traits().is_host_memory ? 0 : 1;
        settings.backend = rt::BackendId;
        settings.device = runtime->upstream_->traits().device_id();
        settings.shares_idle = runtime->options_.shares_idle ? 1 : 0;
        const bool gives_back =
            runtime->options_.release != nullptr || (runtime->default_limit_ && runtime->default_limit_->is_share());
        runtime->pool_ = portamem_pool_create(ops(gives_back), runtime.get(), &settings);
        if (runtime->pool_ == nullptr) throw std::bad_alloc();
        watch_exit();
        return runtime;
    }

    ~PoolRuntime() override {
        if (pool_ == nullptr || !runtime_usable()) {
            // The machinery and all that it holds are leaked, its events with it.
            if (pool_ != nullptr) portamem_pool_abandon(pool_);
            (void)new std::vector<std::shared_ptr<Event>>(std::move(idle_));
            (void)new std::vector<std::shared_ptr<Event>>(std::move(surplus_));
            return;
        }
        const Failure of_others;
        unlocked([this] { portamem_pool_destroy(pool_); });
    }

    portamem_pool* pool() const noexcept { return pool_; }

    /// The resource ends: a chore that gives back for it is waited for a moment, so that the pool ends here.
    void call_off_due() noexcept {
        if (!runtime_usable() || portamem_forked() != 0) return;
        portamem_pool_call_off_due(pool_);
        for (int i = 0; i < 1000 && is_giving_back(); ++i) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    /// Whether a chore, or a call of another pool, is giving back for the pool just now, on another thread.
    bool is_giving_back() const noexcept {
        if (portamem_pool_is_lending(pool_) != 0) return true;
        const std::uint64_t thread = is_at_it_->load();
        return thread != 0 && thread != this_thread_number();
    }
    /// Waits for all work that used the pool's memory, and gives back every chunk of which nothing is out. False where the
    /// pool cannot wait for some of that work now, as under a capture, and still has chunks.
    bool give_all_back() noexcept {
        const Failure of_others;
        was_wait_refused_.store(false);
        (void)portamem_pool_trim(pool_, 0);
        std::uint64_t reserved = 0;
        std::uint64_t peak = 0;
        portamem_pool_reserved(pool_, &reserved, &peak);
        return reserved == 0 || !was_wait_refused_.load();
    }
    const std::shared_ptr<MemoryResource>& upstream() const noexcept { return upstream_; }
    const PoolOptions& options() const noexcept { return options_; }
    /// Most bytes to reserve; 0: none. Where PORTAMEM_POOL_LIMIT counts, as it is now. Throws std::invalid_argument.
    std::size_t limit() const { return default_limit_ ? default_limit_->bytes() : options_.limit; }
    /// PORTAMEM_POOL_LIMIT, which all pools of the device share; null where it does not count.
    const PoolLimit* shared_limit() const noexcept { return default_limit_ ? &*default_limit_ : nullptr; }
    /// Events that are kept for marks to come, kMostIdle at most.
    std::size_t idle_events() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return idle_.size();
    }
    static constexpr std::size_t kMostIdle = 64;
    /// Null where no memory checker follows such memory.
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
        const Failure of_others;  // of a call that this is inside of; nobody is told of one here
        portamem_pool_stream_ended(pool_, identity, handle);
    }

    /// What a callback has thrown on this thread since the latest call.
    static std::exception_ptr& failure() noexcept {
        static thread_local std::exception_ptr kept;
        return kept;
    }

  private:
    struct Key {
        explicit Key() = default;
    };

  public:
    PoolRuntime(Key, std::shared_ptr<MemoryResource> upstream, PoolOptions options)
        : upstream_(std::move(upstream)),
          options_(std::move(options)),
          device_(upstream_->device()),
          annotations_(PoolAnnotations::of(upstream_->traits())) {
        if (options_.limit == 0) default_limit_ = PoolLimit::of(upstream_->traits());
    }

  private:
    using Held = std::list<std::shared_ptr<Stream>>;
    struct StreamRef {
        std::weak_ptr<Stream> stream;
    };

    static PoolRuntime& of(void* self) noexcept { return *static_cast<PoolRuntime*>(self); }
    static const std::shared_ptr<Stream>& stream_of(void* stream) noexcept {
        return *static_cast<const std::shared_ptr<Stream>*>(stream);
    }
    static Event& event_of(void* event) noexcept { return **static_cast<std::shared_ptr<Event>*>(event); }

    // An event as the machinery holds it.
    static void* handle_of(std::shared_ptr<Event> event) noexcept {
        try {
            return new std::shared_ptr<Event>(std::move(event));
        } catch (...) {
            return nullptr;
        }
    }

    // Keeps for its scope's end what was in failure() at its beginning.
    class Failure {
      public:
        Failure() noexcept : kept_(std::exchange(failure(), nullptr)) {}
        ~Failure() {
            if (restores_) failure() = std::move(kept_);
        }
        Failure(const Failure&) = delete;
        Failure& operator=(const Failure&) = delete;
        void replace() noexcept { restores_ = false; }

      private:
        std::exception_ptr kept_;
        bool restores_ = true;
    };

    /// What another pool's call keeps while it takes idle memory of this one: that call's failure is told to its caller.
    struct Lending {
        std::shared_ptr<PoolRuntime> owner;
        Failure of_others;
    };

    // What the upstream and the user's functions call may be pools too: only what fails here is kept.
    template <class Function>
    static int guarded(Function&& function, int failed = PORTAMEM_POOL_THROWN) noexcept {
        Failure before;
        const HearingUnderLock locked;
        try {
            return function();
        } catch (const OutOfMemory&) {
            before.replace();
            failure() = std::current_exception();
            return failed == PORTAMEM_POOL_THROWN ? static_cast<int>(PORTAMEM_POOL_OUT_OF_MEMORY) : failed;
        } catch (...) {
            before.replace();
            failure() = std::current_exception();
            return failed;
        }
    }
    static const portamem_pool_ops* ops(bool has_policy) {
        static const portamem_pool_ops all = make_ops(true);
        static const portamem_pool_ops without = make_ops(false);
        return has_policy ? &all : &without;
    }

    static portamem_pool_ops make_ops(bool has_policy) {
        portamem_pool_ops ops{};
        ops.size = sizeof ops;
        ops.allocate = [](void* self, std::size_t nbytes, void* stream, void** ptr) {
            return guarded([&] {
                *ptr = detail::allocate_chunk(of(self).upstream_, nbytes, stream_of(stream));
                if (auto* annotations = of(self).annotations()) annotations->chunk(*ptr, nbytes);
                return static_cast<int>(PORTAMEM_POOL_OK);
            });
        };
        ops.deallocate = [](void* self, void* ptr, std::size_t nbytes) {
            return guarded([&] { return of(self).deallocate(ptr, nbytes); });
        };
        ops.describe = [](void* self, void* stream, portamem_pool_stream* about) {
            return guarded([&] { return of(self).describe(stream_of(stream), *about); });
        };
        ops.forget = [](void*, void* ref) { delete static_cast<StreamRef*>(ref); };
        ops.is_captured = [](void*, void* stream) {
            return guarded([&] { return stream_of(stream)->capture_status() == rt::StreamCaptureStatus::None ? 0 : 1; },
                           -1);
        };
        ops.mark = [](void* self, void* ref, void* stream, void** event) {
            const int status = guarded([&] {
                if (ref == nullptr) return of(self).mark(stream_of(stream), event);
                Held target(1);  // let go once no lock is held: its end may run anybody's code
                target.front() = static_cast<const StreamRef*>(ref)->stream.lock();
                if (target.front() == nullptr) return static_cast<int>(PORTAMEM_POOL_GONE);
                const auto keep = [&] {
                    const std::lock_guard<std::mutex> lock(of(self).mutex_);
                    of(self).held_.splice(of(self).held_.end(), target);
                    of(self).is_holding_.store(true, std::memory_order_relaxed);
                };
                try {
                    const int status = of(self).mark(target.front(), event);
                    keep();
                    return status;
                } catch (...) {
                    keep();
                    throw;
                }
            });
            if (status == PORTAMEM_POOL_BUSY || status == PORTAMEM_POOL_THROWN) of(self).was_wait_refused_.store(true);
            return status;
        };
        ops.rest = [](void* self, int status, int may_block) {
            if (status == PORTAMEM_POOL_OK) failure() = nullptr;  // it was dealt with
            const Failure of_this_call;  // what is let go may run anybody's code, and other calls
            of(self).let_go(may_block != 0);
        };
        ops.wait = [](void*, void* stream, void* event) {
            return guarded([&] {
                stream_of(stream)->wait(event_of(event));
                return static_cast<int>(PORTAMEM_POOL_OK);
            });
        };
        ops.query = [](void*, void* event) {
            return guarded(
                [&] {
                    const UntrackedQueries own;
                    return event_of(event).has_happened() ? 1 : 0;
                },
                -1);
        };
        ops.has_run = [](void* self, void* stream) {
            try {
                return of(self).has_run(stream_of(stream)) ? 1 : 0;
            } catch (const std::exception&) {
                return 0;  // whatever is wrong with the stream is told by what marks it
            }
        };
        ops.synchronize = [](void* self, void* event) {
            const int status = guarded([&] {
                if (event == nullptr) {
                    refuse_in_capture("waiting for a device");
                    const RelaxedCapture beside(of(self).device_);
                    hear_until_idle(of(self).device_);
                    check(rt::DeviceSynchronize(), "DeviceSynchronize");
                } else {
                    const UntrackedQueries own;
                    event_of(event).wait();
                }
                return static_cast<int>(PORTAMEM_POOL_OK);
            });
            if (status != PORTAMEM_POOL_OK) of(self).was_wait_refused_.store(true);
            return status;
        };
        ops.happened = [](void*, void* event, const portamem_order_range* ranges, std::size_t count) {
            tell_order_checker_done(event_of(event), ranges, count);
        };
        ops.drop = [](void* self, void* event) {
            std::unique_ptr<std::shared_ptr<Event>> dropped(static_cast<std::shared_ptr<Event>*>(event));
            if (self == nullptr) return;
            of(self).recycle(std::move(*dropped));
        };
        ops.hold = [](void* self) -> void* {
            try {
                auto owner = of(self).self_.lock();
                return owner && runtime_usable() ? new Lending{std::move(owner), {}} : nullptr;
            } catch (...) {
                return nullptr;
            }
        };
        ops.let_go = [](void* held) { delete static_cast<Lending*>(held); };
        ops.claim = [](void* self, std::size_t least, std::size_t* nbytes) {
            return guarded([&] {
                const PoolLimit* limit = of(self).shared_limit();
                const bool has_room = limit == nullptr || limit->claim(least, *nbytes);
                return static_cast<int>(has_room ? PORTAMEM_POOL_OK : PORTAMEM_POOL_LIMIT);
            });
        };
        ops.unclaim = [](void* self, std::size_t nbytes) {
            if (const PoolLimit* limit = of(self).shared_limit()) limit->unclaim(nbytes);
        };
        if (has_policy) {
            ops.keep = [](void* self, std::size_t reserved) noexcept {
                const std::size_t by_policy = of(self).kept_by_policy();
                const std::size_t by_share = of(self).kept_by_share(reserved);
                if (by_share == PORTAMEM_POOL_ASK_LATER && by_policy >= reserved) return by_share;
                return std::min(by_policy, by_share);
            };
            ops.later = [](void* self) {
                return guarded([&] {
                    Reaper::instance().add([pool = of(self).self_, is_at_it = of(self).is_at_it_] {
                        return release_due(pool, *is_at_it);
                    });
                    return static_cast<int>(PORTAMEM_POOL_OK);
                });
            };
        }
        return ops;
    }

    static constexpr std::size_t kKeepsAll = std::numeric_limits<std::size_t>::max();

    std::size_t kept_by_policy() const noexcept {
        if (options_.release == nullptr) return kKeepsAll;
        if (const auto* const share = options_.release.target<KeepShareOfPeak>()) {
            std::uint64_t reserved = 0;
            std::uint64_t peak = 0;
            portamem_pool_reserved(pool_, &reserved, &peak);
            return share->of(peak);
        }
        try {
            return options_.release(stats()).value_or(kKeepsAll);
        } catch (...) {
            return kKeepsAll;  // a policy that fails keeps what there is
        }
    }

    // Where the process has more of the device than its share, as others came: the share less what its other pools have.
    // The others are counted again after a while only, as that takes system calls.
    std::size_t kept_by_share(std::size_t reserved) noexcept {
        if (!default_limit_ || !default_limit_->is_share()) return kKeepsAll;
        try {
            const auto now = std::chrono::steady_clock::now().time_since_epoch();
            auto counted = counted_.load(std::memory_order_relaxed);
            const bool is_old = now - std::chrono::steady_clock::duration(counted) >= kShareHolds;
            if (is_old && counted_.compare_exchange_strong(counted, now.count())) share_.store(default_limit_->bytes());
            auto told = told_.load(std::memory_order_relaxed);
            if (now - std::chrono::steady_clock::duration(told) < kBetweenTelling) return PORTAMEM_POOL_ASK_LATER;
            if (!told_.compare_exchange_strong(told, now.count())) return PORTAMEM_POOL_ASK_LATER;
            const std::size_t share = share_.load(std::memory_order_relaxed);
            const std::size_t claimed = default_limit_->claimed();
            return claimed <= share ? kKeepsAll : reserved - std::min(reserved, claimed - share);
        } catch (...) {
            return kKeepsAll;  // what cannot be counted is told to who allocates
        }
    }

    static bool release_due(const std::weak_ptr<PoolRuntime>& pool, std::atomic<std::uint64_t>& is_at_it) noexcept {
        is_at_it.store(this_thread_number());
        bool is_done = true;
        if (const auto runtime = pool.lock()) {
            const Failure of_others;
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
            if (annotations_) annotations_->chunk(ptr, nbytes);  // it stays
            throw;
        }
        return PORTAMEM_POOL_OK;
    }

    int describe(const std::shared_ptr<Stream>& stream, portamem_pool_stream& about) {
        if (stream->device() != device_) {
            throw std::invalid_argument("the stream belongs to device " + std::to_string(stream->device()) +
                                        ", the resource to device " + std::to_string(device_));
        }
        (void)stream->handle();  // refuses a closed one, and another thread's own
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

    // A bare handle: the calling thread marks it, and in its calls alone. Memory that the host reaches is marked at each
    // free, where a mark later on would be of a handle that may be gone.
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

    // What callbacks have held, or had too much of, while the machinery had locks.
    void let_go(bool may_block) noexcept {
        if (!is_holding_.load(std::memory_order_relaxed)) return;  // as it is for most calls: they share no lock
        Held gone;
        std::vector<std::shared_ptr<Event>> surplus;  // to destroy an event waits for nothing
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            is_holding_.store(false, std::memory_order_relaxed);
            gone.swap(held_);
            surplus.swap(surplus_);
        }
        if (may_block || (gone.empty() && surplus.empty())) return;
        try {  // a thread that ends: others may wait for it, with whatever lock the streams' owners need
            const auto left = std::make_shared<std::pair<Held, std::vector<std::shared_ptr<Event>>>>();
            left->first.swap(gone);
            left->second.swap(surplus);
            Reaper::instance().add([left] {
                left->first.clear();
                left->second.clear();
                return true;
            });
        } catch (...) {
            return;
        }
    }

    // Busy: it cannot be marked now, or not by this thread, and nothing is wrong.
    int mark(const std::shared_ptr<Stream>& stream, void** event) {
        if (stream->is_elsewhere() || !runtime_usable()) return PORTAMEM_POOL_BUSY;
        auto* const use = stream->handle_use();
        if (use != nullptr && use->is_of_this_thread() && use->is_followed() && !use->is_same_now()) {
            return PORTAMEM_POOL_BUSY;  // a mark of another stream would be none of what was freed before
        }
        const RelaxedCapture beside(device_);
        {
            const Stream::Use use(*stream);  // it may be closed by another thread just now
            if (use && stream->capture_status() != rt::StreamCaptureStatus::None) return PORTAMEM_POOL_BUSY;
        }
        auto tail = stream->tail(blank());
        if (!tail) return PORTAMEM_POOL_OK;
        *event = handle_of(std::move(tail));
        if (*event == nullptr) throw std::bad_alloc();
        return PORTAMEM_POOL_OK;
    }

    // A stream that is ordered with no other is asked itself. Of others an event tells, as work on them may wait for the
    // legacy stream's, which they do not know of when they are asked.
    bool has_run(const std::shared_ptr<Stream>& stream) {
        if (stream->is_elsewhere() || !runtime_usable()) return false;
        const Stream::Use use(*stream);  // it may be closed by another thread just now
        if (!use || stream->capture_status() != rt::StreamCaptureStatus::None) return false;
        const UntrackedQueries own;
        if (stream->is_known_nonblocking()) {
            const RelaxedCaptureMode beside;
            return rt::StreamQuery(stream->handle()) == rt::Error_t::Success;
        }
        const RelaxedCapture beside(device_);
        auto event = blank();
        if (event == nullptr) event = Event::create(device_);
        stream->record_unasked(*event);
        const bool has_run = rt::EventQuery(event->handle()) == rt::Error_t::Success;
        recycle(std::move(event));
        return has_run;
    }

    std::shared_ptr<Event> blank() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (idle_.empty()) return nullptr;
        auto event = std::move(idle_.back());
        idle_.pop_back();
        return event;
    }

    // No runtime call, as the machinery may hold locks: what is too many is destroyed when the call is over. Streams that
    // come and go bring one each, and take none.
    void recycle(std::shared_ptr<Event> event) noexcept {
        if (event.use_count() != 1) return;  // a closed stream's last one, which others ask
        try {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (idle_.size() < kMostIdle) return idle_.push_back(std::move(event));
            surplus_.push_back(std::move(event));
            is_holding_.store(true, std::memory_order_relaxed);
        } catch (...) {
            (void)new std::shared_ptr<Event>(std::move(event));
        }
    }

    // What goes back upstream is used by nobody: a stream without work is the right one to free on.
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
    const std::unique_ptr<PoolAnnotations> annotations_;
    std::optional<PoolLimit> default_limit_;  // where the options set none
    static constexpr std::chrono::milliseconds kShareHolds{20};
    static constexpr std::chrono::milliseconds kBetweenTelling{1};  // as all caches are emptied for it
    std::atomic<std::chrono::steady_clock::rep> told_{0};
    std::atomic<std::chrono::steady_clock::rep> counted_{0};  // when others were,
    std::atomic<std::size_t> share_{kKeepsAll};               // and what came of it
    std::weak_ptr<PoolRuntime> self_;
    /// The thread whose chore gives back what is due, and holds the pool; 0: none.
    const std::shared_ptr<std::atomic<std::uint64_t>> is_at_it_ = std::make_shared<std::atomic<std::uint64_t>>(0);
    portamem_pool* pool_ = nullptr;
    bool defers_ = false;  // what is freed waits for an event
    std::mutex mutex_;     // a leaf
    std::vector<std::shared_ptr<Event>> idle_;
    std::vector<std::shared_ptr<Event>> surplus_;
    Held held_;
    std::atomic<bool> is_holding_{false};  // something is in held_, or in surplus_
    std::shared_ptr<Stream> idle_stream_;
    std::atomic<bool> was_wait_refused_{false};  // some work could not be marked, or not waited for; of give_all_back
};

}  // namespace detail

PORTAMEM_CLOSE
