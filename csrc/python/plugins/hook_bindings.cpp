// SPDX-License-Identifier: MIT
// python/plugins/hook_bindings.cpp: hooks as portamem/plugins makes them.
#include "../convert.hpp"
#include "hook_functions.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

void register_library_hooks(py::module_& m) {
    // A hook whose functions a library has been told stays: the library may call them at any later time.
    py::class_<LibraryHook, std::unique_ptr<LibraryHook, py::nodelete>>(m, "_LibraryHook", py::is_final())
        .def(py::init<std::shared_ptr<MemoryResource>>(), py::arg("resource"))
        .def_property_readonly("noted", &LibraryHook::noted)
        .def_property_readonly("held", &LibraryHook::held)
        .def("torch_functions", &functions_for_torch)
        .def("tvm_ffi_functions", &functions_for_tvm_ffi, py::arg("stream_of"))
        .def("cupy_functions", &functions_for_cupy, py::arg("current_stream"), py::arg("current_owner"),
             py::arg("out_of_memory"));
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
