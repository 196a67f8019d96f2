// SPDX-License-Identifier: MIT
// python/fastcall.cpp: exceptions of functions that pybind11 does not call.
#include "fastcall.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// pybind11 translates what a function of its own throws, with the translators registered for this module.
PyObject* error_translator = nullptr;
thread_local std::exception_ptr thrown_error;

}  // namespace

void prepare_python_errors() {
    error_translator = py::cpp_function([] { std::rethrow_exception(std::move(thrown_error)); }).release().ptr();
}

PyObject* set_python_error() noexcept {
    thrown_error = std::current_exception();
    return PyObject_CallNoArgs(error_translator);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
