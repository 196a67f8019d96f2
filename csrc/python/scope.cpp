// SPDX-License-Identifier: MIT
// python/scope.cpp: the current resource of a device, and the bytes that portamem holds.
#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

void register_scope(py::module_& m) {
    m.def(
        "current_resource",
        [](const py::object& device) {
            const int ordinal = to_device(device).ordinal();
            const WithoutGil nogil;
            return current_resource(ordinal);
        },
        py::arg("device") = py::none());
    m.def(
        "_push_resource",
        [](const std::shared_ptr<MemoryResource>& resource) { return to_address(push_resource(resource)); },
        py::arg("resource").none(false), "Opens a scope on this thread; answers what _pop_resource takes.");
    m.def(
        "_pop_resource",
        [](const MemoryResource& resource, const py::object& scope) {
            pop_resource(resource.device(), from_address(scope, "a scope"));
        },
        py::arg("resource"), py::arg("scope"));
    m.def(
        "held",
        [](const py::object& device) {
            const bool host = py::isinstance<py::str>(device) && to_text(device, "a device") == "host";
            return portamem_held(rt::BackendId, host ? rt::CpuDeviceId : to_device(device).ordinal());
        },
        py::arg("device") = py::none());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
