// SPDX-License-Identifier: MIT
// python/errors.cpp: C++ exceptions as portamem's Python exceptions, which all backends share.
#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

void set_error(const char* type_name, const Error& e) {
    const py::object type = py::module_::import("portamem.errors").attr(type_name);
    const py::object error = type(e.what(), py::arg("code") = static_cast<int>(e.code()), py::arg("name") = e.name(),
                                  py::arg("call") = e.call(), py::arg("backend") = rt::BackendName);
    PyErr_SetObject(type.ptr(), error.ptr());
}

}  // namespace

void register_errors(py::module_&) {
    py::register_local_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (const OutOfMemory& e) {
            set_error("OutOfMemoryError", e);
        } catch (const Error& e) {
            set_error("Error", e);
        } catch (const ExportError& e) {
            PyErr_SetString(PyExc_BufferError, e.what());
        }
    });
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
