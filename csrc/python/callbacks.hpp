// SPDX-License-Identifier: MIT
// python/callbacks.hpp: functions of a Python program that C++ calls, and their exceptions on the way back.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Holds the exception object that a callback raised. It reaches the Python code that made the call as it is.
struct RaisedInPython {
    std::shared_ptr<void> error;
};

/// Carries a callback's exception through C++.
class CallbackError : public std::runtime_error, public RaisedInPython {
  public:
    CallbackError(std::shared_ptr<void> error, const std::string& text)
        : std::runtime_error(text), RaisedInPython{std::move(error)} {}
};

/// Carries a MemoryError in the same way; C++ takes it for an OutOfMemory.
class CallbackOutOfMemory : public OutOfMemory, public RaisedInPython {
  public:
    CallbackOutOfMemory(std::shared_ptr<void> error, const std::string& text)
        : OutOfMemory(rt::Error_t::OutOfMemory, "OutOfMemory", "callback", text), RaisedInPython{std::move(error)} {}
};

/// Raises the exception again. It needs the GIL.
void set_raised(const RaisedInPython& raised);

/// Throws what Python has just raised. It needs the GIL.
[[noreturn]] void throw_raised(py::error_already_set& raised);

/// Calls a Python function. It needs the GIL. An interpreter that goes down meanwhile may end the thread in there,
/// without the GIL, so nothing that the thread then passes on its way may own a Python object.
template <class... Arguments>
py::object call(const py::object& function, Arguments&&... arguments) {
    const py::tuple packed = py::make_tuple(std::forward<Arguments>(arguments)...);
    PyObject* answer = detail::stay_at_exit([&] { return PyObject_Call(function.ptr(), packed.ptr(), nullptr); });
    if (answer == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(answer);
}

/// Tells sys.unraisablehook of exceptions that a callback raises where a destructor has called it and no caller can get
/// them.
void report_lost_failures();

/// Throws where the interpreter is going down, because there is no Python left to call.
void refuse_without_interpreter();

/// Runs a function with the GIL, which may call Python. A Python exception is thrown as one of the types above.
template <class Function>
auto call_python(Function&& function) {
    refuse_without_interpreter();
    const WithGil gil;
    try {
        return detail::stay_at_exit(function);
    } catch (py::error_already_set& raised) {
        throw_raised(raised);
    }
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
