// SPDX-License-Identifier: MIT
// portamem/adaptors/host_allocation.hpp: what the adaptors for the standard library have in common.
#pragma once

#include <memory>
#include <utility>

#include "portamem/adaptors/adapted_resource.hpp"

PORTAMEM_OPEN

/// Holds a resource whose memory the host reaches. The standard library constructs objects in the memory at once, so
/// device memory is refused.
class HostAllocation : public AdaptedResource {
  public:
    /// stream: stream-ordered memory goes back behind its work; null: the default stream of the resource's device.
    /// Throws std::invalid_argument for a null resource, and for memory that the host does not reach.
    explicit HostAllocation(std::shared_ptr<MemoryResource> resource, std::shared_ptr<Stream> stream = nullptr)
        : AdaptedResource(true, std::move(resource), std::move(stream),
                          "the standard library constructs objects in it: take pinned, managed or system memory") {}
};

PORTAMEM_CLOSE
