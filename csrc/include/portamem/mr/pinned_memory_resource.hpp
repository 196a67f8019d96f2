// SPDX-License-Identifier: MIT
// portamem/mr/pinned_memory_resource.hpp: page-locked host memory.
#pragma once

#include <optional>

#include "portamem/mr/pinned_chunks.hpp"
#include "portamem/mr/runtime_memory_resource.hpp"

PORTAMEM_OPEN

/// HostMalloc and HostFree: what copies need to be asynchronous and fast. Allocating costs about half a millisecond a
/// MiB. Coherent with running kernels unless NonCoherent is asked for.
/// Resources over it that cut their blocks out of chunks (pools, FixedSizeMemoryResource, MonotonicMemoryResource) have
/// these as PrefaultedPinnedMemoryResource has them, in a tenth of that where the device allows it: unless other flags or
/// another coherence than the default were asked for, or PORTAMEM_POOL=off passes requests through one by one.
class PinnedMemoryResource : public RuntimeMemoryResource {
  public:
    /// flags: rt::HostMallocFlags.
    explicit PinnedMemoryResource(int device, unsigned flags = detail::PinnedChunks::kFlags,
                                  rt::Coherence coherence = rt::Coherence::Default)
        : RuntimeMemoryResource(traits(device, flags)), flags_(flags), coherence_(coherence) {
        if (coherence == rt::Coherence::FineGrained || coherence == rt::Coherence::Uncached) {
            throw std::invalid_argument("coherence of pinned memory is default, coherent or non_coherent");
        }
        const bool is_usual = flags == detail::PinnedChunks::kFlags && coherence == rt::Coherence::Default;
        if (is_usual) chunks_.emplace(this->device());
    }

    unsigned flags() const noexcept { return flags_; }
    rt::Coherence coherence() const noexcept { return coherence_; }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override {
        return chunks_ && portamem_chunks_wanted() != 0 ? chunk(nbytes) : host_malloc(nbytes);
    }

    void call_deallocate(void* ptr, std::size_t nbytes, Stream&) override {
        if (!chunks_ || !chunks_->deallocate(ptr, nbytes)) check(rt::HostFree(ptr), "HostFree");
    }

    void at_close() override {
        if (chunks_) chunks_->end();
    }

    /// Whole pages, had quickly; of the usual flags only.
    void* chunk(std::size_t nbytes) {
        if (nbytes == 0) return nullptr;
        void* ptr = chunks_->allocate(nbytes);
        if (ptr == nullptr) ptr = host_malloc(nbytes);
        chunks_->given(nbytes);
        return ptr;
    }

    bool registers_chunks() const noexcept { return chunks_ && chunks_->registers(); }

  private:
    void* host_malloc(std::size_t nbytes) {
        void* ptr = nullptr;
        check(rt::HostMalloc(&ptr, nbytes, flags_, coherence_), "HostMalloc");
        return ptr;
    }

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
    std::optional<detail::PinnedChunks> chunks_;
};

PORTAMEM_CLOSE
