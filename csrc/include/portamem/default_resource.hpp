// SPDX-License-Identifier: MIT
// portamem/default_resource.hpp: the resource of a device that allocations take from where no scope is open.
//
// There is one per device and process. It lives in libportamem, so that every module of the process, in any language,
// finds the same one.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/abi/scope_api.h"
#include "portamem/mr/async_memory_resource.hpp"
#include "portamem/mr/detail/table_resource.hpp"
#include "portamem/mr/device_memory_resource.hpp"
#include "portamem/mr/managed_memory_resource.hpp"
#include "portamem/mr/pool_memory_resource.hpp"

PORTAMEM_OPEN

namespace detail {

inline std::shared_ptr<MemoryResource> default_pool(const std::shared_ptr<MemoryResource>& upstream) {
    upstream->make_permanent();
    PoolOptions options;
    options.host_access = upstream->kind() == ResourceKind::Managed;  // the host uses managed memory: that is its use
    return PoolMemoryResource::create(upstream, std::move(options));
}

/// Makes the default resource that PORTAMEM_DEFAULT names: without it, a pool over plain device memory. A driver's pool
/// is not used below it, for four reasons:
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
    const char* text = "";
    switch (portamem_default_setting(&text)) {
        case PORTAMEM_DEFAULT_POOL:
            return default_pool(DeviceMemoryResource::create(device));
        case PORTAMEM_DEFAULT_DRIVER:
            return AsyncMemoryResource::create(device);
        case PORTAMEM_DEFAULT_PLAIN:
            return DeviceMemoryResource::create(device);
        case PORTAMEM_DEFAULT_MANAGED:
            return default_pool(ManagedMemoryResource::create(device));
        case PORTAMEM_DEFAULT_UNREADABLE:
            break;
    }
    throw std::invalid_argument("PORTAMEM_DEFAULT=" + std::string(text) +
                                " names no resource: give pool, driver, plain or managed");
}

// Makes the default resource of a device and offers it. Another thread may have been first.
inline void offer_default(int device) {
    const auto made = make_default_resource(device);
    made->make_permanent();
    portamem_offer_default_resource(rt::BackendId, device, TableReference(made).handle());
}

/// Lets other modules, which may know only the C table, have a default resource made.
inline void serve_default() noexcept {
    portamem_set_default_maker(rt::BackendId,
                               [](int device) { return native_answer([device] { offer_default(device); }); });
}

}  // namespace detail

/// Returns the default resource of a device: the one that set_default_resource stored, or else one that is made at
/// first use and that no call closes. PORTAMEM_DEFAULT=pool, driver, plain or managed says which: a PoolMemoryResource
/// over plain device memory (as without the setting), an AsyncMemoryResource, a DeviceMemoryResource, or a
/// PoolMemoryResource over managed memory. Throws Error, and std::invalid_argument where a setting cannot be read.
inline std::shared_ptr<MemoryResource> default_resource(int device) {
    refuse_forked();
    portamem_resource found{};
    if (portamem_default_resource(rt::BackendId, device, &found) == 0) return detail::from_registry(found, device);
    detail::serve_default();
    detail::offer_default(device);
    return default_resource(device);
}

/// Makes a resource the default one of its device, for all threads and modules of the process. The process keeps it
/// until another is set; null sets back the one that is made at first use. Live buffers keep the resource that they are
/// from. The resource may be closed while it is the default: allocations are refused then. Throws std::invalid_argument
/// where the resource is closed, or is another device's.
inline void set_default_resource(int device, const std::shared_ptr<MemoryResource>& resource) {
    refuse_forked();
    if (resource == nullptr) return portamem_set_default_resource(rt::BackendId, device, {});
    if (resource->is_closed()) throw std::invalid_argument("the memory resource is closed");
    if (resource->device() != device) {
        throw std::invalid_argument("the memory resource is of device " + std::to_string(resource->device()) +
                                    ", and cannot be the default of device " + std::to_string(device) +
                                    ": name the resource's device");
    }
    detail::serve_default();
    portamem_set_default_resource(rt::BackendId, device, detail::TableReference(resource).handle());
}

PORTAMEM_CLOSE
