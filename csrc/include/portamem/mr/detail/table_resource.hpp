// SPDX-License-Identifier: MIT
// portamem/mr/detail/table_resource.hpp: memory resources behind the C table of c_api.h, to and fro.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/c_api.h"
#include "portamem/mr/counted_memory_resource.hpp"
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

// Represents one reference to a resource behind the C table, for as long as the registry needs it to take its own.
class TableReference {
  public:
    explicit TableReference(std::shared_ptr<MemoryResource> resource) : shared_(new Shared{std::move(resource)}) {}
    ~TableReference() { shared_ops()->release(shared_); }
    TableReference(const TableReference&) = delete;
    TableReference& operator=(const TableReference&) = delete;

    portamem_resource handle() const noexcept { return {shared_ops(), shared_}; }

  private:
    Shared* const shared_;
};

// Takes over the reference that the registry retained.
inline std::shared_ptr<MemoryResource> from_registry(portamem_resource resource, int device) {
    if (resource.ops != shared_ops()) return std::make_shared<ForeignMemoryResource>(resource, device);
    auto found = static_cast<Shared*>(resource.self)->resource;
    resource.ops->release(resource.self);
    return found;
}

}  // namespace detail

PORTAMEM_CLOSE
