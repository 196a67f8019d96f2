// SPDX-License-Identifier: MIT
// portamem/current_resource.hpp: the resource that allocations take from where none is named.
//
// The state lives in libportamem, so that every module of the process sees one. It is read at allocation only: live
// buffers never look it up.
#pragma once

#include <memory>

#include "portamem/c_api.h"
#include "portamem/mr/async_memory_resource.hpp"
#include "portamem/mr/device_memory_resource.hpp"

PORTAMEM_OPEN

namespace detail {

// A resource of this module behind the C table; `self` is a counted handle on the shared pointer.
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

inline std::shared_ptr<Stream> stream_of(const MemoryResource& resource, void* handle) {
    return Stream::from_handle(static_cast<rt::Stream_t>(handle), resource.device());
}

inline const portamem_resource_ops* shared_ops() {
    static const portamem_resource_ops ops = {
        sizeof(portamem_resource_ops),
        [](void* self, std::size_t nbytes, void* stream, void** ptr) {
            auto& resource = *static_cast<Shared*>(self)->resource;
            return native_answer([&] { *ptr = resource.allocate(nbytes, stream_of(resource, stream)); });
        },
        [](void* self, void* ptr, std::size_t nbytes, void* stream) {
            auto& resource = *static_cast<Shared*>(self)->resource;
            return native_answer([&] { resource.deallocate(ptr, nbytes, stream_of(resource, stream)); });
        },
        [](void* self) { return static_cast<Shared*>(self)->resource->is_host_accessible() ? 1 : 0; },
        [](void* self) { return static_cast<Shared*>(self)->resource->is_device_accessible() ? 1 : 0; },
        [](void* self) { return static_cast<Shared*>(self)->resource->device_id(); },
        [](void* self) { static_cast<Shared*>(self)->references.fetch_add(1, std::memory_order_relaxed); },
        [](void* self) {
            auto* shared = static_cast<Shared*>(self);
            if (shared->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
        },
    };
    return &ops;
}

// A resource of another module, taken for the time it is used.
class ForeignMemoryResource : public CountedMemoryResource {
  public:
    ForeignMemoryResource(portamem_resource resource, int device)
        : CountedMemoryResource(traits(resource, device)), resource_(resource) {}
    ~ForeignMemoryResource() override { resource_.ops->release(resource_.self); }

  protected:
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) override {
        if (alignment > kAlignment) {
            throw std::invalid_argument("a resource of another module aligns to " + std::to_string(kAlignment) +
                                        " bytes: take a PoolMemoryResource over it");
        }
        void* ptr = nullptr;
        if (nbytes == 0) return ptr;  // null is given back to nobody
        stream->refuse_capture("allocate");
        check(rt::Error_t{resource_.ops->allocate(resource_.self, nbytes, stream->handle(), &ptr)}, "allocate");
        return ptr;
    }
    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
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
        t.stream_ordered = true;  // it orders its memory itself, by the stream it is given
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

}  // namespace detail

/// The resource that is current on this thread for a device: the innermost ResourceScope, else the process's default,
/// which is the device's own driver pool, or plain device memory where there are no pools.
inline std::shared_ptr<MemoryResource> current_resource(int device) {
    refuse_forked();
    portamem_resource found{};
    if (portamem_scope_current(rt::BackendId, device, &found) == 0) return detail::from_registry(found, device);
    if (portamem_default_resource(rt::BackendId, device, &found) == 0) return detail::from_registry(found, device);
    std::shared_ptr<MemoryResource> resource;
    if (detail::answer(rt::DeviceAttr::MemoryPoolsSupported, Device(device).ordinal())) {
        resource = AsyncMemoryResource::default_pool(device);
    } else {
        resource = std::make_shared<DeviceMemoryResource>(device);
    }
    resource->make_permanent();
    auto* shared = new detail::Shared{resource};
    portamem_offer_default_resource(rt::BackendId, device, {detail::shared_ops(), shared});
    detail::shared_ops()->release(shared);
    return current_resource(device);  // another thread may have been first
}

/// Makes a resource the current one of its device, on this thread. Pairs with pop_resource.
inline void push_resource(const std::shared_ptr<MemoryResource>& resource) {
    refuse_forked();
    if (resource->is_closed()) throw std::invalid_argument("the memory resource is closed");
    auto* shared = new detail::Shared{resource};
    portamem_scope_push(rt::BackendId, resource->device(), {detail::shared_ops(), shared});
    detail::shared_ops()->release(shared);
}
inline void pop_resource(int device) {
    if (portamem_scope_pop(rt::BackendId, device) != 0) {
        throw std::logic_error("no resource scope is open on this thread");
    }
}

/// push_resource and pop_resource for a C++ scope.
class ResourceScope {
  public:
    explicit ResourceScope(const std::shared_ptr<MemoryResource>& resource) : device_(resource->device()) {
        push_resource(resource);
    }
    ~ResourceScope() { (void)portamem_scope_pop(rt::BackendId, device_); }
    ResourceScope(const ResourceScope&) = delete;
    ResourceScope& operator=(const ResourceScope&) = delete;

  private:
    int device_;
};

PORTAMEM_CLOSE
