// SPDX-License-Identifier: MIT
// portamem/mr/managed_memory_resource.hpp: managed (unified) memory.
#pragma once

#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/runtime_memory_resource.hpp"

PORTAMEM_OPEN

/// Gives managed memory, by MallocManaged and Free: one address serves host and devices. How the memory moves is a
/// capability of the device (ManagedMode). Where it is host-resident, prefetches and advice are accepted and change
/// nothing.
class ManagedMemoryResource : public RuntimeMemoryResource {
  public:
    /// attach: Global, or Host until a stream attaches the memory. Throws Error (NotSupported) on a device without
    /// managed memory, and std::invalid_argument for Single.
    explicit ManagedMemoryResource(int device, rt::MemAttach attach = rt::MemAttach::Global)
        : RuntimeMemoryResource(traits(device)), attach_(attach) {
        if (attach == rt::MemAttach::Single) {
            throw std::invalid_argument("managed memory is allocated as global or host; a stream attaches it later");
        }
    }

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<ManagedMemoryResource> create(int device, rt::MemAttach attach = rt::MemAttach::Global) {
        return detail::shared<ManagedMemoryResource>(device, attach);
    }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override {
        void* ptr = nullptr;
        check(rt::MallocManaged(&ptr, nbytes, attach_), "MallocManaged");
        return ptr;
    }
    void call_deallocate(void* ptr, std::size_t, Stream&) override { check(rt::Free(ptr), "Free"); }

  private:
    static MemoryTraits traits(int device) {
        if (detail::managed_mode(device) == ManagedMode::None) {
            throw Error(rt::Error_t::NotSupported, "NotSupported", "MallocManaged",
                        "device " + std::to_string(device) +
                            " has no managed memory (its managed_mode is none): use pinned memory instead");
        }
        MemoryTraits t;
        t.kind = ResourceKind::Managed;
        t.device = device;
        t.host_accessible = true;
        return t;
    }

    const rt::MemAttach attach_;
};

PORTAMEM_CLOSE
