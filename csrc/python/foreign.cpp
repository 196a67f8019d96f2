// SPDX-License-Identifier: MIT
// python/foreign.cpp: memory that others own.
#include "foreign.hpp"

#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

MemoryTraits foreign_traits(const void* ptr, const py::object& device) {
    MemoryTraits traits;
    traits.kind = ResourceKind::Foreign;
    const rt::PointerAttributes attributes = pointer_info(ptr);
    traits.is_host_memory = attributes.type == rt::MemoryType::Unregistered || attributes.type == rt::MemoryType::Host;
    traits.host_accessible = attributes.type != rt::MemoryType::Device;
    traits.device_accessible = attributes.type != rt::MemoryType::Unregistered;
    traits.device = device.is_none() && !traits.is_host_memory && attributes.device >= 0 ? attributes.device
                                                                                         : to_device(device).ordinal();
    const Capabilities able = query_capabilities(traits.device);
    if (attributes.type == rt::MemoryType::Device) traits.host_accessible = able.direct_host_access;
    if (attributes.type == rt::MemoryType::Unregistered) traits.device_accessible = able.pageable_memory_access;
    return traits;
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
