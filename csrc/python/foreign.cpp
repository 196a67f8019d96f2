// SPDX-License-Identifier: MIT
// python/foreign.cpp: memory that others own.
#include "foreign.hpp"

#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

MemoryTraits foreign_traits(const void* ptr, const py::object& device) {
    MemoryTraits traits;
    traits.kind = ResourceKind::Foreign;
    const rt::PointerAttributes attributes = [ptr] {
        const WithoutGil nogil;
        return pointer_info(ptr);
    }();
    if (attributes.type == rt::MemoryType::Unregistered) {
        // Plain host memory, or memory of another copy of the runtime, which looks the same.
        py::module_::import("portamem._libraries").attr("warn_of_two")(rt::BackendName);
    }
    traits.is_host_memory = attributes.type == rt::MemoryType::Unregistered || attributes.type == rt::MemoryType::Host;
    traits.host_accessible = attributes.type != rt::MemoryType::Device;
    traits.device_accessible = attributes.type != rt::MemoryType::Unregistered;
    traits.device = device.is_none() && !traits.is_host_memory && attributes.device >= 0 ? attributes.device
                                                                                         : to_device(device).ordinal();
    const auto has = [&](rt::DeviceAttr attribute) {
        return portamem::detail::attribute(attribute, traits.device) != 0;
    };
    if (attributes.type == rt::MemoryType::Device) {
        traits.host_accessible = has(rt::DeviceAttr::DirectDeviceMemAccessFromHost);
    } else if (attributes.type == rt::MemoryType::Unregistered) {
        traits.device_accessible = has(rt::DeviceAttr::PageableMemoryAccess);
    }
    return traits;
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
