// SPDX-License-Identifier: MIT
// portamem/mr/detail/shared_table.hpp: a resource of this module, behind the C tables by which others use and find it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "portamem/abi/pool_api.h"
#include "portamem/c_api.h"
#include "portamem/mr/memory_resource.hpp"

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

inline MemoryResource& resource_of_table(void* self) noexcept { return *static_cast<Shared*>(self)->resource; }

inline const portamem_resource_ops* shared_ops() {
    static const portamem_resource_ops ops = {
        sizeof(portamem_resource_ops),
        [](void* self, std::size_t nbytes, void* stream, void** ptr) {
            return native_answer(
                [&] { *ptr = resource_of_table(self).allocate(nbytes, static_cast<rt::Stream_t>(stream)); });
        },
        [](void* self, void* ptr, std::size_t nbytes, void* stream) {
            return native_answer(
                [&] { resource_of_table(self).deallocate(ptr, nbytes, static_cast<rt::Stream_t>(stream)); });
        },
        [](void* self) { return resource_of_table(self).is_host_accessible() ? 1 : 0; },
        [](void* self) { return resource_of_table(self).is_device_accessible() ? 1 : 0; },
        [](void* self) { return resource_of_table(self).device_id(); },
        [](void* self) { static_cast<Shared*>(self)->references.fetch_add(1, std::memory_order_relaxed); },
        [](void* self) {
            auto* shared = static_cast<Shared*>(self);
            if (shared->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
        },
        [](void* self) -> std::size_t {
            std::size_t cached = 0;
            (void)native_answer([&] { cached = resource_of_table(self).table_cached(); });
            return cached;
        },
        [](void* self, std::size_t keep) { return native_answer([&] { resource_of_table(self).table_trim(keep); }); },
    };
    return &ops;
}

/// Returns the calls by which the library finds the blocks of this module's resources.
inline const portamem_known_ops* known_ops() {
    static const portamem_known_ops ops = {
        sizeof(portamem_known_ops),
        [](void* resource, portamem_resource* held) {
            auto shared = static_cast<MemoryResource*>(resource)->weak_from_this().lock();
            if (!shared) return -1;
            auto* const handle = new (std::nothrow) Shared;
            if (handle == nullptr) return -1;
            handle->resource = std::move(shared);
            *held = {shared_ops(), handle};
            return 0;
        },
        [](void* self, const void* ptr, portamem_address* found) {
            (void)native_answer([&] { *found = resource_of_table(self).find(ptr); });
        },
        [](void* resource, void* ptr, void* stream) {
            auto& pool = *static_cast<MemoryResource*>(resource);
            return pool.deallocate_cached_at(ptr, static_cast<rt::Stream_t>(stream)) ? 1 : 0;
        },
    };
    return &ops;
}

}  // namespace detail

inline void MemoryResource::list_now() {
    if (weak_from_this().expired()) return;
    // A thread that finds the resource listed may give memory at once, so the mark comes last.
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    if (is_listed_.load(std::memory_order_relaxed)) return;
    cover_below();
    if (portamem_known_add(rt::BackendId, detail::known_ops(), this, identity_, over()) != 0) throw std::bad_alloc();
    is_listed_.store(true, std::memory_order_release);
}

PORTAMEM_CLOSE
