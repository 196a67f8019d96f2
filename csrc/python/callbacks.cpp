// SPDX-License-Identifier: MIT
// python/callbacks.cpp: exceptions of callbacks on their way back.
#include "callbacks.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

void set_raised(const RaisedInPython& raised) {
    const py::object error = held_object(raised.error);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());  // with its traceback
}

void throw_raised(py::error_already_set& raised) {
    const py::object error = raised.value();
    if (raised.trace()) PyException_SetTraceback(error.ptr(), raised.trace().ptr());
    const std::string text = std::string("a callback raised ") + type_name(error);
    if (PyErr_GivenExceptionMatches(error.ptr(), PyExc_MemoryError) != 0) {
        throw CallbackOutOfMemory(hold(error), text);
    }
    throw CallbackError(hold(error), text);
}

void report_lost_failures() {
    portamem::detail::embedder().lost_failure = [](const std::exception_ptr& failure) noexcept {
        if (interpreter_is_going()) return;
        try {
            std::rethrow_exception(failure);
        } catch (const RaisedInPython& raised) {
            const WithGil gil;
            detail::stay_at_exit([&raised] {
                const auto where = py::reinterpret_steal<py::object>(
                    PyUnicode_FromString("giving back the memory of a buffer that was dropped"));
                set_raised(raised);
                PyErr_WriteUnraisable(where.ptr());
            });
        } catch (...) {
            // The runtime's refusals are no exceptions of Python: the memory is given back later.
        }
    };
}

void refuse_without_interpreter() {
    if (interpreter_is_going())
        throw std::runtime_error("the interpreter is going down: its callbacks cannot be called");
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
