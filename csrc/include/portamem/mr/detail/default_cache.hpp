// SPDX-License-Identifier: MIT
// portamem/mr/detail/default_cache.hpp: what portamem's own default resource of a device has cached, for resources that
// find no memory.
#pragma once

#include <cstddef>

#include "portamem/abi/scope_api.h"
#include "portamem/backend.hpp"
#include "portamem/rt/rt.hpp"

PORTAMEM_OPEN
namespace detail {

/// Represents the memory that portamem's own default resource of a device has cached, whichever module made that, and
/// even where the program has set another default. It is empty where there is none yet. Asking never makes one.
class DefaultCache {
  public:
    explicit DefaultCache(int device) noexcept {
        if (portamem_forked() != 0) return;
        if (portamem_offered_default_resource(rt::BackendId, device, &resource_) != 0) resource_ = {};
    }
    ~DefaultCache() {
        if (resource_.ops != nullptr) resource_.ops->release(resource_.self);
    }
    DefaultCache(const DefaultCache&) = delete;
    DefaultCache& operator=(const DefaultCache&) = delete;

    std::size_t nbytes() const noexcept { return speaks() ? resource_.ops->cached(resource_.self) : 0; }

    /// Returns whether it is the default, and not one that the program has set.
    bool is_default(int device) const noexcept {
        portamem_resource found{};
        if (portamem_default_resource(rt::BackendId, device, &found) != 0) return false;
        found.ops->release(found.self);
        return found.self == resource_.self;
    }

    /// Gives back all that can go, and returns whether anything did. It waits for the work that used it.
    bool trim() const noexcept {
        const std::size_t before = nbytes();
        return before != 0 && resource_.ops->trim(resource_.self, 0) == 0 && nbytes() < before;
    }

  private:
    // A module that was built with an older header has a shorter table.
    bool speaks() const noexcept {
        return resource_.ops != nullptr &&
               resource_.ops->size >= offsetof(portamem_resource_ops, trim) + sizeof(void*) &&
               resource_.ops->cached != nullptr && resource_.ops->trim != nullptr;
    }

    portamem_resource resource_{};
};

}  // namespace detail
PORTAMEM_CLOSE
