// SPDX-License-Identifier: MIT
// portamem/current_resource.hpp: the resource that allocations take from where none is named.
//
// The state lives in libportamem, so that every module of the process shares it. Only an allocation reads it: live
// buffers never look it up.
#pragma once

#include <memory>
#include <stdexcept>

#include "portamem/c_api.h"
#include "portamem/default_resource.hpp"
#include "portamem/mr/detail/table_resource.hpp"

PORTAMEM_OPEN

/// Returns the resource that is current on this thread for a device: the innermost ResourceScope's, or else the
/// process's default (default_resource). Throws as default_resource does.
inline std::shared_ptr<MemoryResource> current_resource(int device) {
    refuse_forked();
    portamem_resource found{};
    if (portamem_scope_current(rt::BackendId, device, &found) == 0) return detail::from_registry(found, device);
    return default_resource(device);
}

/// Returns whether a scope is open on this thread for a device, so that current_resource() is that scope's resource and
/// not the process's default.
inline bool has_resource_scope(int device) noexcept {
    portamem_resource found{};
    if (portamem_scope_current(rt::BackendId, device, &found) != 0) return false;
    found.ops->release(found.self);
    return true;
}

/// Opens a scope on this thread: makes a resource the current one of its device. Returns a value that is unique among
/// the open scopes; pop_resource takes it to end the scope. The scope keeps the resource alive. Throws
/// std::invalid_argument if the resource is closed.
inline const void* push_resource(const std::shared_ptr<MemoryResource>& resource) {
    refuse_forked();
    if (resource->is_closed()) throw std::invalid_argument("the memory resource is closed");
    const detail::TableReference reference(resource);
    portamem_scope_push(rt::BackendId, resource->device(), reference.handle());
    return reference.handle().self;  // the registry holds it
}
/// Ends that scope. If scopes of the device that began within it are open, it ends this scope alone and throws
/// std::logic_error. If the thread has no such scope, it ends nothing and throws std::logic_error.
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
/// Ends the thread's innermost scope of the device. Throws std::logic_error if the thread has none.
inline void pop_resource(int device) {
    if (portamem_scope_pop(rt::BackendId, device) != 0) {
        throw std::logic_error("no resource scope is open on this thread");
    }
}

/// Makes a resource the current one of its device on this thread, while the object lives. The thread that made the
/// object destroys it. The constructor throws as push_resource does.
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
