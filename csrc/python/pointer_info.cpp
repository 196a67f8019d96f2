// SPDX-License-Identifier: MIT
// python/pointer_info.cpp: what is known of an address: pointer_info and its record, resource_of, size_of, deallocate.
#include "convert.hpp"
#include "fast/view_object.hpp"
#include "portamem/by_address.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

constexpr Spelling<rt::MemoryType> kKinds[] = {
    {"unregistered", rt::MemoryType::Unregistered},
    {"host", rt::MemoryType::Host},
    {"device", rt::MemoryType::Device},
    {"managed", rt::MemoryType::Managed},
};

std::optional<std::uintptr_t> known(const void* ptr) {
    if (ptr == nullptr) return std::nullopt;
    return to_address(ptr);
}

const void* address_of(const py::handle& value) {
    if (const Buffer* buffer = buffer_of(value)) return address_for_program(*buffer);
    if (const View* view = view_of(value)) return address_for_program(view->memory());
    if (py::isinstance<HostRegistration>(value)) return value.cast<const HostRegistration&>().buffer().ptr();
    return from_address(value, "an address");
}

// Holds the runtime's record of an address, and portamem's block there.
struct Info : PointerInfo {
    std::optional<KnownBlock> block;
};

Info info_of(const py::object& ptr) {
    const void* address = address_of(ptr);
    const WithoutGil nogil;
    Info info{pointer_info(address), std::nullopt};
    info.block = block_of(address);
    return info;
}

// Drop the GIL, because a resource may call the program's functions, and other threads, while it is asked.
std::shared_ptr<MemoryResource> resource_at(const py::object& ptr) {
    const void* address = address_of(ptr);
    const WithoutGil nogil;
    return resource_of(address);
}

std::optional<std::size_t> size_at(const py::object& ptr) {
    const void* address = address_of(ptr);
    const WithoutGil nogil;
    return size_of(address);
}

void deallocate_at(const py::object& ptr, const py::object& stream) {
    void* address = from_address(ptr, "an address");
    const auto on = to_stream(stream);
    const WithoutGil nogil;
    if (on) {
        portamem::deallocate(address, on);
    } else {
        portamem::deallocate(address, rt::Stream_t{});
    }
}

}  // namespace

void register_pointer_info(py::module_& m) {
    // The record is one C++ type for all backends, and each module binds its own.
    py::class_<Info>(m, "PointerInfo", py::is_final())
        .def_property_readonly("kind", [](const Info& i) { return to_text(i.type, kKinds); })
        .def_property_readonly(
            "device_id",
            [](const Info& i) { return i.device == rt::InvalidDeviceId ? std::nullopt : std::optional<int>(i.device); })
        .def_property_readonly("base", [](const Info& i) { return known(i.base); })
        .def_property_readonly(
            "nbytes", [](const Info& i) { return i.nbytes == 0 ? std::nullopt : std::optional<std::size_t>(i.nbytes); })
        .def_property_readonly("block_base",
                               [](const Info& i) { return i.block ? known(i.block->base) : std::nullopt; })
        .def_property_readonly("block_nbytes",
                               [](const Info& i) { return i.block ? std::optional(i.block->nbytes) : std::nullopt; })
        .def_property_readonly("resource", [](const Info& i) { return i.block ? i.block->resource : nullptr; })
        .def_property_readonly("host_pointer", [](const Info& i) { return known(i.host_pointer); })
        .def_property_readonly("device_pointer", [](const Info& i) { return known(i.device_pointer); })
        .def_property_readonly("flags", [](const Info& i) { return i.flags; })
        .def_property_readonly(
            "ipc_capable",
            [](const Info& i) { return i.ipc_capable.is_known() ? std::optional<bool>(i.ipc_capable) : std::nullopt; })
        .def("__repr__", [](const Info& i) {
            return "<PointerInfo " + to_text(i.type, kKinds) + ", device " + std::to_string(i.device) + ", " +
                   std::to_string(i.nbytes) + " bytes>";
        });
    m.def("pointer_info", &info_of, py::arg("ptr"));
    m.def("resource_of", &resource_at, py::arg("ptr"));
    m.def("size_of", &size_at, py::arg("ptr"));
    m.def("deallocate", &deallocate_at, py::arg("ptr"), py::kw_only(), py::arg("stream") = py::none());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
