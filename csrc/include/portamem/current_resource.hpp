// SPDX-License-Identifier: MIT
// portamem/current_resource.hpp: the resource that allocations take from where none is named.
//
// The state lives in libportamem, so that every module of the process shares it. Only an allocation reads it: live
// buffers never look it up.
#pragma once

#include <memory>

#include "portamem/c_api.h"
#include "portamem/mr/device_memory_resource.hpp"
#include "portamem/mr/pool_memory_resource.hpp"

PORTAMEM_OPEN

namespace detail {

// Puts a resource of this module behind the C table. `self` is a counted handle to the shared pointer.
struct Shared {
    std::shared_ptr<MemoryResource> resource;
    std::atomic<int> references{1};
};

template <class Function>
int native_answer(Function&& function) noexcept {
    try {
        function();
        return 0;
    } catch (const Error& e) {
        return static_cast<int>(e.code());
    } catch (const std::bad_alloc&) {
        return static_cast<int>(rt::Error_t::OutOfMemory);
    } catch (...) {
        return static_cast<int>(rt::Error_t::InvalidValue);
    }
}

inline PoolMemoryResource* pool_of(void* self) noexcept { return static_cast<Shared*>(self)->resource->as_pool(); }

inline const portamem_resource_ops* shared_ops() {
    static const portamem_resource_ops ops = {
        sizeof(portamem_resource_ops),
        [](void* self, std::size_t nbytes, void* stream, void** ptr) {
            auto& resource = *static_cast<Shared*>(self)->resource;
            return native_answer([&] { *ptr = resource.allocate(nbytes, static_cast<rt::Stream_t>(stream)); });
        },
        [](void* self, void* ptr, std::size_t nbytes, void* stream) {
            auto& resource = *static_cast<Shared*>(self)->resource;
            return native_answer([&] { resource.deallocate(ptr, nbytes, static_cast<rt::Stream_t>(stream)); });
        },
        [](void* self) { return static_cast<Shared*>(self)->resource->is_host_accessible() ? 1 : 0; },
        [](void* self) { return static_cast<Shared*>(self)->resource->is_device_accessible() ? 1 : 0; },
        [](void* self) { return static_cast<Shared*>(self)->resource->device_id(); },
        [](void* self) { static_cast<Shared*>(self)->references.fetch_add(1, std::memory_order_relaxed); },
        [](void* self) {
            auto* shared = static_cast<Shared*>(self);
            if (shared->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
        },
        [](void* self) -> std::size_t {
            const auto* const pool = pool_of(self);
            if (pool == nullptr) return 0;
            std::size_t cached = 0;
            (void)native_answer([&] { cached = pool->cached().value_or(0); });
            return cached;
        },
        [](void* self, std::size_t keep) {
            auto* const pool = pool_of(self);
            return pool == nullptr ? 0 : native_answer([&] { pool->trim(keep); });
        },
    };
    return &ops;
}

// Wraps a resource of another module, and holds it while it is in use.
class ForeignMemoryResource : public CountedMemoryResource {
  public:
    ForeignMemoryResource(portamem_resource resource, int device)
        : CountedMemoryResource(traits(resource, device)), resource_(resource) {}
    ~ForeignMemoryResource() override { resource_.ops->release(resource_.self); }

  protected:
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        if (options.alignment > kAlignment) {
            throw std::invalid_argument("a resource of another module aligns to " + std::to_string(kAlignment) +
                                        " bytes: take a PoolMemoryResource over it");
        }
        void* ptr = nullptr;
        if (nbytes == 0) return ptr;  // a null pointer is not given back to the other module
        const Stream::Use use = stream->in_use();
        stream->refuse_capture("allocate");
        check(rt::Error_t{resource_.ops->allocate(resource_.self, nbytes, stream->handle(), &ptr)}, "allocate");
        return ptr;
    }
    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        const Stream::Use use = stream->in_use();
        stream->refuse_capture("deallocate");
        if (ptr == nullptr) return;
        check(rt::Error_t{resource_.ops->deallocate(resource_.self, ptr, nbytes, stream->handle())}, "deallocate");
    }

  private:
    static MemoryTraits traits(portamem_resource resource, int device) {
        MemoryTraits t;
        t.kind = ResourceKind::Foreign;
        t.device = device;
        t.is_host_memory = resource.ops->device_id(resource.self) < 0;
        t.stream_ordered = true;  // the other module orders it by the stream that it is given
        t.host_accessible = resource.ops->is_host_accessible(resource.self) != 0;
        t.device_accessible = resource.ops->is_device_accessible(resource.self) != 0;
        return t;
    }

    const portamem_resource resource_;
};

// Takes over the reference that the registry retained.
inline std::shared_ptr<MemoryResource> from_registry(portamem_resource resource, int device) {
    if (resource.ops != shared_ops()) return std::make_shared<ForeignMemoryResource>(resource, device);
    auto found = static_cast<Shared*>(resource.self)->resource;
    resource.ops->release(resource.self);
    return found;
}

/// Makes a pool over plain device memory. A driver's pool is not used below it, for four reasons:
/// - Every device has plain memory, so the default is the same everywhere.
/// - Other processes and network adapters can open plain memory, which MPI does with whatever it is given. They refuse
///   memory of a driver's pool.
/// - Memory that is given back is free at once for every process and library on the device; a driver's pool may keep
///   it.
/// - A pool over a pool would hold memory twice.
///
/// Malloc is slow, and is called for chunks only. Free may wait for the device, and is called by trim() and where
/// memory is short.
///
/// The pool releases no chunk by itself, or a program that repeats its work would pay for Malloc each time. trim()
/// gives back what it has cached, and so does another resource of portamem that finds no memory on the device.
/// PORTAMEM_POOL_LIMIT shares a device among processes. The host does not reach the memory, even where it reaches
/// device memory, so freed memory is reused at once in stream order on every machine.
inline std::shared_ptr<MemoryResource> make_default_resource(int device) {
    const auto upstream = std::make_shared<DeviceMemoryResource>(device);
    upstream->make_permanent();
    PoolOptions options;
    options.host_access = false;
    auto pool = PoolMemoryResource::create(upstream, std::move(options));
    pool->make_permanent();
    return pool;
}

}  // namespace detail

/// Returns the resource that is current on this thread for a device: the innermost ResourceScope's, else the process's
/// default, a PoolMemoryResource over plain device memory that is made at first use. Throws Error, and
/// std::invalid_argument where a setting of pools cannot be parsed.
inline std::shared_ptr<MemoryResource> current_resource(int device) {
    refuse_forked();
    portamem_resource found{};
    if (portamem_scope_current(rt::BackendId, device, &found) == 0) return detail::from_registry(found, device);
    if (portamem_default_resource(rt::BackendId, device, &found) == 0) return detail::from_registry(found, device);
    auto* shared = new detail::Shared{detail::make_default_resource(device)};
    portamem_offer_default_resource(rt::BackendId, device, {detail::shared_ops(), shared});
    detail::shared_ops()->release(shared);
    return current_resource(device);  // another thread may have been first
}

/// Returns whether a scope says which resource is current on this thread for a device, rather than the process's
/// default.
inline bool has_resource_scope(int device) noexcept {
    portamem_resource found{};
    if (portamem_scope_current(rt::BackendId, device, &found) != 0) return false;
    found.ops->release(found.self);
    return true;
}

/// Makes a resource the current one of its device, on this thread. Returns a value that is unique among the open
/// scopes; pop_resource takes it to end the scope.
inline const void* push_resource(const std::shared_ptr<MemoryResource>& resource) {
    refuse_forked();
    if (resource->is_closed()) throw std::invalid_argument("the memory resource is closed");
    auto* shared = new detail::Shared{resource};
    portamem_scope_push(rt::BackendId, resource->device(), {detail::shared_ops(), shared});
    detail::shared_ops()->release(shared);
    return shared;  // the registry holds it
}
/// Ends that scope, innermost or not. Throws std::logic_error where scopes that began within it are open (they stay
/// open), and where this thread has no such scope.
inline void pop_resource(int device, const void* scope) {
    const int answer = portamem_scope_end(rt::BackendId, device, scope);
    if (answer < 0) {
        throw std::logic_error(
            "the scope of a resource is not open on this thread: scopes end on the thread that they began on");
    }
    if (answer > 0) {
        throw std::logic_error(
            "the scope of a resource has ended before one that began within it, which stays: the last one ends first; "
            "where tasks or generators take turns on a thread, name the resource in each call instead");
    }
}
/// Ends the innermost scope.
inline void pop_resource(int device) {
    if (portamem_scope_pop(rt::BackendId, device) != 0) {
        throw std::logic_error("no resource scope is open on this thread");
    }
}

/// Makes a resource the current one of its device on this thread, until the scope ends.
class ResourceScope {
  public:
    explicit ResourceScope(const std::shared_ptr<MemoryResource>& resource)
        : device_(resource->device()), scope_(push_resource(resource)) {}
    ~ResourceScope() { (void)portamem_scope_end(rt::BackendId, device_, scope_); }
    ResourceScope(const ResourceScope&) = delete;
    ResourceScope& operator=(const ResourceScope&) = delete;

  private:
    int device_;
    const void* scope_;
};

PORTAMEM_CLOSE
