// SPDX-License-Identifier: MIT
// portamem/mr/prefaulted_pinned_memory_resource.hpp: page-locked host memory that is there quickly.
#pragma once

#include "portamem/mr/pinned_memory_resource.hpp"

PORTAMEM_OPEN

/// Pinned memory in large chunks, as pools take it: pages that several threads have prefaulted, huge where the system
/// allows it and near the device, are registered with the runtime. That takes a tenth of the time of HostMalloc.
/// Where a device's capabilities do not say that registered memory is coherent and has one address everywhere, or where
/// the runtime refuses to register, the memory is HostMalloc's; then the next chunk, of 1 to 256 MiB, is allocated in the
/// background while others are out, and freed with the last of them. Nobody's limit counts it.
/// Every allocation takes whole pages. For large arrays that come and go: below a pool a PinnedMemoryResource gives the
/// same. Portable and mapped.
class PrefaultedPinnedMemoryResource : public PinnedMemoryResource {
  public:
    explicit PrefaultedPinnedMemoryResource(int device)
        : PinnedMemoryResource(device, Registered{}), chunks_(chunks()) {}

    /// The same as the constructor, shared.
    static std::shared_ptr<PrefaultedPinnedMemoryResource> create(int device) {
        return std::make_shared<PrefaultedPinnedMemoryResource>(device);
    }

    /// Whether new memory is registered pages; false: HostMalloc's.
    bool registers() const noexcept { return chunks_.registers(); }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override { return chunks_.allocate(nbytes); }

  private:
    detail::PinnedChunks& chunks_;
};

PORTAMEM_CLOSE
