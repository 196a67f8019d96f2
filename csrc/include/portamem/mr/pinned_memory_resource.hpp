// SPDX-License-Identifier: MIT
// portamem/mr/pinned_memory_resource.hpp: page-locked host memory.
#pragma once

#include "portamem/mr/runtime_memory_resource.hpp"

PORTAMEM_OPEN

/// HostMalloc and HostFree: what copies need to be asynchronous and fast. Allocating costs about half a millisecond a
/// MiB. Coherent with running kernels unless NonCoherent is asked for.
class PinnedMemoryResource : public RuntimeMemoryResource {
  public:
    /// flags: rt::HostMallocFlags.
    explicit PinnedMemoryResource(int device, unsigned flags = rt::HostMallocPortable | rt::HostMallocMapped,
                                  rt::Coherence coherence = rt::Coherence::Default)
        : RuntimeMemoryResource(traits(device, flags)), flags_(flags), coherence_(coherence) {
        if (coherence == rt::Coherence::FineGrained || coherence == rt::Coherence::Uncached) {
            throw std::invalid_argument("coherence of pinned memory is default, coherent or non_coherent");
        }
    }

    unsigned flags() const noexcept { return flags_; }
    rt::Coherence coherence() const noexcept { return coherence_; }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override {
        void* ptr = nullptr;
        check(rt::HostMalloc(&ptr, nbytes, flags_, coherence_), "HostMalloc");
        return ptr;
    }
    void call_deallocate(void* ptr, std::size_t, Stream&) override { check(rt::HostFree(ptr), "HostFree"); }

  private:
    static MemoryTraits traits(int device, unsigned flags) {
        MemoryTraits t;
        t.kind = ResourceKind::Pinned;
        t.device = Device(device).ordinal();
        t.is_host_memory = true;
        t.host_accessible = true;
        // With unified addressing every pinned page is mapped, asked for or not.
        const bool unified = detail::attribute(rt::DeviceAttr::UnifiedAddressing, device) != 0;
        const bool can_map = detail::attribute(rt::DeviceAttr::CanMapHostMemory, device) != 0;
        t.device_accessible = can_map && (unified || (flags & rt::HostMallocMapped) != 0);
        return t;
    }

    const unsigned flags_;
    const rt::Coherence coherence_;
};

PORTAMEM_CLOSE
