// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_callbacks.hpp: the functions by which a pool's machinery asks its owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "portamem/abi/pool_api.h"
#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/pool_runtime.hpp"

PORTAMEM_OPEN

namespace detail {

/// Has one function for each function of portamem_pool_ops, where its contract stands. An exception inside of one is
/// kept for the thread, and thrown again once the machinery has answered.
struct PoolCallbacks {
    static PoolRuntime& of(void* self) noexcept { return *static_cast<PoolRuntime*>(self); }
    static const std::shared_ptr<Stream>& stream_of(void* stream) noexcept {
        return *static_cast<const std::shared_ptr<Stream>*>(stream);
    }
    static Event& event_of(void* event) noexcept { return **static_cast<std::shared_ptr<Event>*>(event); }

    // ---- the upstream ----

    static int allocate(void* self, std::size_t nbytes, void* stream, void** ptr) noexcept {
        return guarded([&] {
            *ptr = open_upstream(of(self).upstream_)->allocate_chunk(nbytes, stream_of(stream));
            if (auto* annotations = of(self).annotations()) annotations->chunk(*ptr, nbytes);
            return static_cast<int>(PORTAMEM_POOL_OK);
        });
    }
    static int deallocate(void* self, void* ptr, std::size_t nbytes) noexcept {
        return guarded([&] { return of(self).deallocate(ptr, nbytes); });
    }
    static int claim(void* self, std::size_t least, std::size_t* nbytes) noexcept {
        return guarded([&] {
            const PoolLimit* limit = of(self).release_.shared_limit();
            const bool has_room = limit == nullptr || limit->claim(least, *nbytes);
            return static_cast<int>(has_room ? PORTAMEM_POOL_OK : PORTAMEM_POOL_LIMIT);
        });
    }
    static void unclaim(void* self, std::size_t nbytes) {
        if (const PoolLimit* limit = of(self).release_.shared_limit()) limit->unclaim(nbytes);
    }

    // ---- streams ----

    static int describe(void* self, void* stream, portamem_pool_stream* about) noexcept {
        return guarded([&] { return of(self).describe(stream_of(stream), *about); });
    }
    static void forget(void*, void* ref) { delete static_cast<PoolRuntime::StreamRef*>(ref); }
    static int is_captured(void*, void* stream) noexcept {
        return guarded([&] { return stream_of(stream)->capture_status() == rt::StreamCaptureStatus::None ? 0 : 1; },
                       -1);
    }
    static int has_run(void* self, void* stream) noexcept {
        try {
            return of(self).has_run(stream_of(stream)) ? 1 : 0;
        } catch (const std::exception&) {
            return 0;  // the call that marks the stream reports what is wrong with it
        }
    }

    // ---- events ----

    static int mark(void* self, void* ref, void* stream, void** event) noexcept {
        const int status = guarded([&] {
            return ref == nullptr ? of(self).mark(stream_of(stream), event)
                                  : mark_named(of(self), *static_cast<const PoolRuntime::StreamRef*>(ref), event);
        });
        if (status == PORTAMEM_POOL_BUSY || status == PORTAMEM_POOL_THROWN) of(self).was_wait_refused_.store(true);
        return status;
    }
    static int mark_named(PoolRuntime& pool, const PoolRuntime::StreamRef& ref, void** event) {
        PoolEvents::Streams target(1);
        target.front() = ref.stream.lock();
        if (target.front() == nullptr) return PORTAMEM_POOL_GONE;
        try {
            const int status = pool.mark(target.front(), event);
            pool.events_.hold(target);
            return status;
        } catch (...) {
            pool.events_.hold(target);
            throw;
        }
    }
    static int wait(void*, void* stream, void* event) noexcept {
        return guarded([&] {
            stream_of(stream)->wait(event_of(event));
            return static_cast<int>(PORTAMEM_POOL_OK);
        });
    }
    static int query(void*, void* event) noexcept {
        return guarded(
            [&] {
                const UntrackedQueries own;
                return event_of(event).has_happened() ? 1 : 0;
            },
            -1);
    }
    static int synchronize(void* self, void* event) noexcept {
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
    }
    static void happened(void*, void* event, const portamem_order_range* ranges, std::size_t count) {
        tell_order_checker_done(event_of(event), ranges, count);
    }
    static void drop(void* self, void* event) {
        auto* const held = static_cast<std::shared_ptr<Event>*>(event);
        std::shared_ptr<Event> dropped = std::move(*held);
        delete held;
        if (self != nullptr) of(self).events_.recycle(std::move(dropped));
    }

    // ---- calls, and what is given back ----

    static void rest(void* self, int status, int may_block) {
        if (status == PORTAMEM_POOL_OK) pool_failure() = nullptr;  // the failure was dealt with
        const PoolFailureKept of_this_call;  // letting go may run the program's code, and other calls
        of(self).events_.let_go(may_block != 0);
    }
    static std::size_t keep(void* self, std::size_t reserved) noexcept {
        PoolRuntime& pool = of(self);
        const auto peak = [&pool] {
            std::uint64_t now = 0;
            std::uint64_t most = 0;
            portamem_pool_reserved(pool.pool_, &now, &most);
            return most;
        };
        return pool.release_.kept(
            reserved, [&pool] { return pool.stats(); }, peak);
    }
    static int later(void* self) noexcept {
        return guarded([&] {
            Reaper::instance().add([pool = of(self).self_, is_at_it = of(self).is_at_it_] {
                return PoolRuntime::release_due(pool, *is_at_it);
            });
            return static_cast<int>(PORTAMEM_POOL_OK);
        });
    }

    /// Is kept by another pool's call while that takes idle memory of this pool. That call's failure goes to its own
    /// caller.
    struct Lending {
        std::shared_ptr<PoolRuntime> owner;
        PoolFailureKept of_others;
    };
    static void* hold(void* self) noexcept {
        try {
            auto owner = of(self).self_.lock();
            return owner && runtime_usable() ? new Lending{std::move(owner), {}} : nullptr;
        } catch (...) {
            return nullptr;
        }
    }
    static void let_go(void* held) { delete static_cast<Lending*>(held); }

    static portamem_pool_ops table(bool gives_back) noexcept {
        portamem_pool_ops ops{};
        ops.size = sizeof ops;
        ops.allocate = allocate;
        ops.deallocate = deallocate;
        ops.describe = describe;
        ops.forget = forget;
        ops.is_captured = is_captured;
        ops.mark = mark;
        ops.wait = wait;
        ops.query = query;
        ops.synchronize = synchronize;
        ops.drop = drop;
        ops.keep = gives_back ? keep : nullptr;
        ops.claim = claim;
        ops.unclaim = unclaim;
        ops.rest = rest;
        ops.happened = happened;
        ops.later = gives_back ? later : nullptr;
        ops.has_run = has_run;
        ops.hold = hold;
        ops.let_go = let_go;
        return ops;
    }

    static std::shared_ptr<PoolRuntime> make(std::shared_ptr<MemoryResource> upstream, PoolOptions options) {
        auto runtime = shared<PoolRuntime>(std::move(upstream), std::move(options));
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
        settings.granularity = runtime->upstream_->traits().granularity;
        const portamem_pool_ops ops = table(runtime->release_.gives_back());
        runtime->pool_ = portamem_pool_create(&ops, runtime.get(), &settings);
        if (runtime->pool_ == nullptr) throw std::bad_alloc();
        watch_exit();
        return runtime;
    }
};

/// Makes a pool over a resource, and its owner. Throws std::bad_alloc, and std::invalid_argument for a limit that is
/// not one.
inline std::shared_ptr<PoolRuntime> make_pool(std::shared_ptr<MemoryResource> upstream, PoolOptions options) {
    return PoolCallbacks::make(std::move(upstream), std::move(options));
}

}  // namespace detail

PORTAMEM_CLOSE
