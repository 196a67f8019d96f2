// SPDX-License-Identifier: MIT
// python/adaptors.cpp: resources that do something beside what another resource does.
#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

void register_adaptors(py::module_& m) {
    py::class_<ResourceAdaptor, std::shared_ptr<ResourceAdaptor>, MemoryResource>(
        m, "ResourceAdaptor", "A resource over another one, whose memory it gives.")
        .def_property_readonly("upstream", &ResourceAdaptor::upstream, "The resource below, kept alive.");
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
