// SPDX-License-Identifier: MIT
// python/prefaulted_resource.cpp: PrefaultedPinnedMemoryResource.
#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

void register_prefaulted_resource(py::module_& m) {
    using Prefaulted = PrefaultedPinnedMemoryResource;
    py::class_<Prefaulted, std::shared_ptr<Prefaulted>, MemoryResource>(m, "PrefaultedPinnedMemoryResource",
                                                                        py::is_final())
        .def(py::init([](const py::object& device) {
                 const int ordinal = to_device(device).ordinal();
                 return std::make_shared<Prefaulted>(ordinal);
             }),
             py::arg("device") = py::none())
        .def_property_readonly("registers", &Prefaulted::registers);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
