// SPDX-License-Identifier: MIT
// python/device.cpp: Device, MemoryInfo.
#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

constexpr Spelling<rt::Limit> kLimits[] = {
    {"stack_size", rt::Limit::StackSize},
    {"printf_fifo_size", rt::Limit::PrintfFifoSize},
    {"malloc_heap_size", rt::Limit::MallocHeapSize},
};

// Drops the GIL for a function that may create a context or wait.
template <class Function>
auto unlocked(Function&& function) {
    const WithoutGil nogil;
    return function();
}

void register_memory_info(py::module_& m) {
    py::class_<MemoryInfo>(m, "MemoryInfo", py::is_final())
        .def_readonly("free", &MemoryInfo::free)
        .def_readonly("total", &MemoryInfo::total)
        .def_readonly("held", &MemoryInfo::held)
        .def_property_readonly("source", [](const MemoryInfo&) { return std::string(rt::BackendName) + " MemGetInfo"; })
        .def("_repr_html_",
             [](const py::object& self) { return py::module_::import("portamem._html").attr("memory_info")(self); })
        .def("__repr__", [](const MemoryInfo& info) {
            return "MemoryInfo(free=" + std::to_string(info.free) + ", total=" + std::to_string(info.total) +
                   ", held=" + std::to_string(info.held) + ")";
        });
}

}  // namespace

void register_device(py::module_& m) {
    register_memory_info(m);
    py::class_<Device>(m, "Device", py::is_final())
        .def(py::init([](const py::object& ordinal) { return to_device(ordinal); }), py::arg("ordinal") = py::none())
        .def_static("current", [] { return Device::current(); })
        .def("set_current", [](Device d) { unlocked([d] { d.set_current(); }); })
        .def_property_readonly("ordinal", &Device::ordinal)
        .def_property_readonly("backend", [](Device) { return rt::BackendName; })
        .def_property_readonly("name", [](Device d) { return std::string(d.properties().name); })
        .def_property_readonly("arch", [](Device d) { return std::string(d.properties().arch); })
        .def_property_readonly("uuid", &Device::uuid)
        .def_property_readonly("pci_bus_id", &Device::pci_bus_id)
        .def_property_readonly("numa_node", &Device::numa_node)
        .def_property_readonly("capabilities", &Device::capabilities)
        .def("probe", [](Device d) { return unlocked([d] { return probe(d); }); })
        .def_property_readonly("quirks",
                               [](Device d) {
                                   py::list all;
                                   for (const DeviceQuirk& each : quirks(d)) all.append(each);
                                   return py::tuple(all);
                               })
        .def("memory_info", [](Device d) { return unlocked([d] { return d.memory_info(); }); })
        .def(
            "limit",
            [](Device d, const py::object& name) {
                const auto which = from_text("a limit", name, kLimits);
                return unlocked([=] { return d.limit(which); });
            },
            py::arg("name"))
        .def(
            "set_limit",
            [](Device d, const py::object& name, const py::object& nbytes) {
                const auto which = from_text("a limit", name, kLimits);
                const auto value = to_size(nbytes);
                unlocked([=] { d.set_limit(which, value); });
            },
            py::arg("name"), py::arg("nbytes"))
        .def_property(
            "malloc_heap_size", [](Device d) { return unlocked([d] { return d.limit(rt::Limit::MallocHeapSize); }); },
            [](Device d, const py::object& nbytes) {
                const auto value = to_size(nbytes);
                unlocked([=] { d.set_limit(rt::Limit::MallocHeapSize, value); });
            })
        .def_property_readonly("default_stream", [](Device d) { return Stream::default_stream(d.ordinal()); })
        .def_property_readonly("per_thread_stream", [](Device d) { return Stream::per_thread(d.ordinal()); })
        .def_property_readonly("stream_priority_range", &Device::stream_priority_range)
        .def("synchronize", [](Device d) { unlocked([d] { d.synchronize(); }); })
        .def(
            "can_access_peer", [](Device d, const py::object& peer) { return d.can_access_peer(to_device(peer)); },
            py::arg("peer"))
        .def(
            "enable_peer_access",
            [](Device d, const py::object& peer) {
                const Device other = to_device(peer);
                unlocked([=] { d.enable_peer_access(other); });
            },
            py::arg("peer"))
        .def(
            "disable_peer_access",
            [](Device d, const py::object& peer) {
                const Device other = to_device(peer);
                unlocked([=] { d.disable_peer_access(other); });
            },
            py::arg("peer"))
        .def("__int__", &Device::ordinal)
        .def("__index__", &Device::ordinal)
        .def(
            "__eq__", [](Device a, const py::object& b) { return py::isinstance<Device>(b) && a == b.cast<Device>(); },
            py::arg("other"), py::pos_only())
        .def("__hash__", [](Device d) { return py::hash(py::make_tuple(rt::BackendName, d.ordinal())); })
        .def("__repr__", [](Device d) {
            return "portamem." + std::string(rt::BackendName) + ".Device(" + std::to_string(d.ordinal()) + ")";
        });
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
