// SPDX-License-Identifier: MIT
// portamem/adaptors/thrust_allocation.hpp: a resource whose memory Thrust's algorithms reach; needs no Thrust.
#pragma once

#include <memory>
#include <utility>

#include "portamem/adaptors/adapted_resource.hpp"

PORTAMEM_OPEN

/// Holds a resource whose memory Thrust's algorithms reach.
class ThrustAllocation : public AdaptedResource {
  public:
    /// Names what Thrust's device system runs algorithms on: kernels of the device, or threads of the host.
    enum class System { Device, Host };

    /// stream: memory of a stream-ordered resource is for work on it, and goes back behind its work; null: the default
    /// stream of the resource's device. Throws std::invalid_argument for a null resource, and for memory that the
    /// system does not reach.
    ThrustAllocation(System system, std::shared_ptr<MemoryResource> resource, std::shared_ptr<Stream> stream = nullptr)
        : AdaptedResource(system == System::Host, std::move(resource), std::move(stream),
                          "Thrust is compiled to run its algorithms there") {}
};

PORTAMEM_CLOSE
