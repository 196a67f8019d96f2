// SPDX-License-Identifier: MIT
// portamem/mr/memory_traits.hpp: the kinds of memory, and the traits of a resource's memory.
#pragma once

#include <cstddef>

#include "portamem/rt/rt.hpp"

PORTAMEM_OPEN

/// Names the kinds of memory that resources give. Registered and Foreign are memory that the program owns. A resource
/// over another one gives memory of that one's kind.
enum class ResourceKind { Device, Pinned, Managed, System, Async, Virtual, Registered, Foreign };

inline const char* to_string(ResourceKind kind) noexcept {
    switch (kind) {
        case ResourceKind::Device:
            return "device";
        case ResourceKind::Pinned:
            return "pinned";
        case ResourceKind::Managed:
            return "managed";
        case ResourceKind::System:
            return "system";
        case ResourceKind::Async:
            return "async";
        case ResourceKind::Virtual:
            return "virtual";
        case ResourceKind::Registered:
            return "registered";
        case ResourceKind::Foreign:
            return "foreign";
    }
    return "unknown";
}

/// Describes a resource's memory. Accessibility is asked of the device, never derived from the kind.
struct MemoryTraits {
    ResourceKind kind = ResourceKind::Device;
    int device = 0;                 ///< the device that the resource belongs to
    bool is_host_memory = false;    ///< its device_id is -1
    bool stream_ordered = false;    ///< allocating and freeing take their place in the order of the stream's work
    bool host_accessible = false;   ///< the host may read and write it at its address
    bool device_accessible = true;  ///< kernels of the device may read and write it at its address
    bool read_only = false;         ///< foreign or registered memory that no copy and no fill may write
    bool pageable = false;          ///< memory of malloc and the like: the runtime knows nothing of its pages
    bool may_be_of_host = false;    ///< some of it may be memory of the host, though host_accessible is false
    bool is_pooled = false;         ///< cut from a pool's chunks
    bool free_may_wait = rt::FreeMayWait;  ///< a free may wait for other work, even where no work uses the memory
    /// Other code has the address before the buffer exists, and may have queued work on it. So a dropped buffer waits
    /// for all work on its streams.
    bool is_known_elsewhere = false;
    bool may_sleep = false;       ///< memory may be away for a while (VirtualMemoryResource::sleep)
    std::size_t granularity = 1;  ///< an allocation takes memory in whole multiples of so many bytes, as far as known
    int levels = 0;               ///< how many resources are below, one over the other

    int device_id() const noexcept { return is_host_memory ? rt::CpuDeviceId : device; }
};

PORTAMEM_CLOSE
