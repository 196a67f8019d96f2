// SPDX-License-Identifier: MIT
// portamem/capabilities.hpp: what a device can do, asked of the device.
#pragma once

#include "portamem/status.hpp"

PORTAMEM_OPEN

/// How managed memory behaves on a device.
enum class ManagedMode {
    None,          ///< there is none
    HostResident,  ///< it stays in one place and is reached over the bus; prefetches and advice may have no effect
    Migrating,     ///< pages move to who touches them
};

struct Capabilities {
    bool memory_pools = false;
    ManagedMode managed_mode = ManagedMode::None;
    bool concurrent_managed_access = false;
    bool pageable_memory_access = false;
    bool uses_host_page_tables = false;
    bool direct_host_access = false;  ///< the host can read and write plain device memory
    bool integrated = false;
    bool host_register = false;
    bool registered_pointer_is_device_pointer = false;
    bool stream_priorities = false;
    bool virtual_memory = false;
    int compute_capability_major = 0;
    int compute_capability_minor = 0;
    int multi_processor_count = 0;
    int warp_size = 0;
};

namespace detail {

/// An attribute's value, or `otherwise` where the runtime, its version or its driver does not have it.
inline int attribute(rt::DeviceAttr attr, int device, int otherwise = 0) {
    int value = 0;
    const rt::Error_t answer = rt::DeviceGetAttribute(&value, attr, device);
    if (answer == rt::Error_t::Success) return value;
    if (answer == rt::Error_t::InvalidValue || answer == rt::Error_t::NotSupported) return otherwise;
    raise(answer, "DeviceGetAttribute");
}

}  // namespace detail

inline Capabilities query_capabilities(int device) {
    using rt::DeviceAttr;
    const auto has = [device](DeviceAttr attr) { return detail::attribute(attr, device) != 0; };
    Capabilities c;
    c.memory_pools = has(DeviceAttr::MemoryPoolsSupported);
    c.concurrent_managed_access = has(DeviceAttr::ConcurrentManagedAccess);
    if (has(DeviceAttr::ManagedMemory)) {
        // Without concurrent access pages do not move on a fault (and on AMD the memory is pinned host memory).
        c.managed_mode = c.concurrent_managed_access ? ManagedMode::Migrating : ManagedMode::HostResident;
    }
    c.pageable_memory_access = has(DeviceAttr::PageableMemoryAccess);
    c.uses_host_page_tables = has(DeviceAttr::PageableMemoryAccessUsesHostPageTables);
    c.direct_host_access = has(DeviceAttr::DirectDeviceMemAccessFromHost);
    c.integrated = has(DeviceAttr::Integrated);
    c.host_register = has(DeviceAttr::HostRegisterSupported);
    c.registered_pointer_is_device_pointer = has(DeviceAttr::CanUseHostPointerForRegisteredMem);
    c.stream_priorities = has(DeviceAttr::StreamPrioritiesSupported);
    c.virtual_memory = has(DeviceAttr::VirtualMemoryManagementSupported);
    c.compute_capability_major = detail::attribute(DeviceAttr::ComputeCapabilityMajor, device);
    c.compute_capability_minor = detail::attribute(DeviceAttr::ComputeCapabilityMinor, device);
    c.multi_processor_count = detail::attribute(DeviceAttr::MultiProcessorCount, device);
    c.warp_size = detail::attribute(DeviceAttr::WarpSize, device);
    return c;
}

PORTAMEM_CLOSE
