// SPDX-License-Identifier: MIT
// portamem/mr/prefaulted_pinned_memory_resource.hpp: page-locked host memory that is allocated quickly.
#pragma once

#include "portamem/detail/shared.hpp"
#include "portamem/mr/pinned_memory_resource.hpp"

PORTAMEM_OPEN

/// Gives portable and mapped pinned memory, by a way that is quick for large pieces.
/// - Several threads prefault the pages, which are huge where the system allows it and near the device. The runtime
///   registers them then. That takes a tenth of the time of HostMalloc.
/// - HostMalloc gives the memory where the device's capabilities do not say that registered memory is coherent and has
///   one address everywhere, or where the runtime refuses to register.
/// - Every allocation takes whole pages. Use it for large arrays that come and go; below a pool a PinnedMemoryResource
///   gives the same.
class PrefaultedPinnedMemoryResource : public PinnedMemoryResource {
  public:
    explicit PrefaultedPinnedMemoryResource(int device)
        : PinnedMemoryResource(device, Registered{}), chunks_(chunks()) {}

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<PrefaultedPinnedMemoryResource> create(int device) {
        return detail::shared<PrefaultedPinnedMemoryResource>(device);
    }

    /// Returns whether new memory is registered pages; false means that HostMalloc gives it.
    bool registers() const noexcept { return chunks_.registers(); }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override { return chunks_.allocate(nbytes); }

  private:
    detail::PinnedChunks& chunks_;
};

PORTAMEM_CLOSE
