// SPDX-License-Identifier: MIT
// python/foreign.cpp: memory that the program owns.
#include "foreign.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Returns whether this process can read a byte there; yes where the system will not tell. Costs one system call.
bool is_readable(const void* ptr) {
    char byte = 0;
    const iovec here{&byte, 1};
    const iovec there{const_cast<void*>(ptr), 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
}

std::string text_of_address(const void* ptr) {
    char address[32];
    std::snprintf(address, sizeof address, "%p", ptr);
    return address;
}

// Refuses addresses that this process cannot read. Memory that the runtime does not know counts as the host's, so the
// CPU would touch a device address among it.
void refuse_unreadable(const void* ptr) {
    if (ptr == nullptr || is_readable(ptr)) return;
    throw py::value_error("the runtime does not know the address " + text_of_address(ptr) +
                          ", and this process cannot read it: the memory was freed, or it is from the heap of kernels, "
                          "which kernels alone copy, fill and free");
}

}  // namespace

MemoryTraits foreign_traits(const void* ptr, const py::object& device) {
    MemoryTraits traits;
    traits.kind = ResourceKind::Foreign;
    const rt::PointerAttributes attributes = [ptr] {
        const WithoutGil nogil;
        return pointer_info(ptr);
    }();
    if (attributes.type == rt::MemoryType::Unregistered) {
        // This is plain host memory, or memory of another copy of the runtime, which looks the same.
        static py::object* warn = nullptr;  // no static object: importing may run other threads, and they would wait
        if (warn == nullptr) warn = new py::object(py::module_::import("portamem._libraries").attr("warn_of_two"));
        (*warn)(rt::BackendName);
        refuse_unreadable(ptr);
    }
    if (attributes.type == rt::MemoryType::Device && attributes.device >= 0 && !device.is_none()) {
        const int named = to_device(device).ordinal();
        if (named != attributes.device) {
            throw py::value_error("the memory at " + text_of_address(ptr) + " is on device " +
                                  std::to_string(attributes.device) + ", not on device " + std::to_string(named) +
                                  ": name its own device, or none");
        }
    }
    traits.is_host_memory = attributes.type == rt::MemoryType::Unregistered || attributes.type == rt::MemoryType::Host;
    traits.pageable = attributes.type == rt::MemoryType::Unregistered;
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
