// SPDX-License-Identifier: MIT
// python/fastcall.cpp: exceptions of functions that pybind11 does not call.
#include "fastcall.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

PyObject* set_python_error() noexcept {
    // pybind11 translates what a function of its own throws, with the translators registered for this module.
    static thread_local std::exception_ptr thrown;
    static PyObject* const translate = [] {
        auto* function = new py::cpp_function([] { std::rethrow_exception(std::move(thrown)); });
        return function->ptr();
    }();
    thrown = std::current_exception();
    return PyObject_CallNoArgs(translate);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
