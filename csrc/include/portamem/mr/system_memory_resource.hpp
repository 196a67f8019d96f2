// SPDX-License-Identifier: MIT
// portamem/mr/system_memory_resource.hpp: ordinary host memory.
#pragma once

#include <cstdlib>

#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/runtime_memory_resource.hpp"

PORTAMEM_OPEN

/// Gives page-aligned memory of the C library. Kernels reach it where the device has pageable memory access (an APU, a
/// coherent node, a card with heterogeneous memory management). Elsewhere it is the pageable end of copies.
class SystemMemoryResource : public RuntimeMemoryResource {
  public:
    explicit SystemMemoryResource(int device) : RuntimeMemoryResource(traits(device)) {}

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<SystemMemoryResource> create(int device) {
        return detail::shared<SystemMemoryResource>(device);
    }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override {
        if (nbytes == 0) return nullptr;
        const std::size_t rounded = (nbytes + kPage - 1) / kPage * kPage;
        void* ptr = rounded < nbytes ? nullptr : std::aligned_alloc(kPage, rounded);
        if (ptr == nullptr) {
            throw OutOfMemory(rt::Error_t::OutOfMemory, "OutOfMemory", "aligned_alloc",
                              std::string(rt::BackendName) + " aligned_alloc: OutOfMemory (2): the host has no memory");
        }
        return ptr;
    }
    void call_deallocate(void* ptr, std::size_t, Stream&) override { std::free(ptr); }
    // The C library refuses no unknown block: it ends the process.
    void refuse_unknown(void*) const override { detail::refuse_unknown_block(); }

  private:
    static constexpr std::size_t kPage = 4096;

    static MemoryTraits traits(int device) {
        MemoryTraits t;
        t.kind = ResourceKind::System;
        t.device = Device(device).ordinal();
        t.is_host_memory = true;
        t.host_accessible = true;
        t.pageable = true;
        t.device_accessible = detail::answer(rt::DeviceAttr::PageableMemoryAccess, device);
        return t;
    }
};

PORTAMEM_CLOSE
