// SPDX-License-Identifier: MIT
// portamem/mr/prefaulted_pinned_memory_resource.hpp: page-locked host memory that is there quickly.
#pragma once

#include "portamem/mr/pinned_memory_resource.hpp"

PORTAMEM_OPEN

/// Pinned memory in large chunks, as pools take it: pages that several threads have prefaulted, huge where the system
/// allows it and near the device, are registered with the runtime. That takes a tenth of the time of HostMalloc.
/// Where a device's capabilities do not say that registered memory is coherent and has one address everywhere, or where
/// the runtime refuses to register, the memory is HostMalloc's; then the next chunk is allocated in the background.
/// Every allocation takes whole pages. For large arrays that come and go: below a pool a PinnedMemoryResource gives the
/// same. Portable and mapped.
class PrefaultedPinnedMemoryResource : public PinnedMemoryResource {
  public:
    explicit PrefaultedPinnedMemoryResource(int device) : PinnedMemoryResource(device) {}

    /// Whether new memory is registered pages; false: HostMalloc's.
    bool registers() const noexcept { return registers_chunks(); }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override { return chunk(nbytes); }
};

PORTAMEM_CLOSE
