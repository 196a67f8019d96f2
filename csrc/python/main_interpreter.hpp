// SPDX-License-Identifier: MIT
// python/main_interpreter.hpp: PYBIND11_MODULE for Python's first interpreter alone.
//
// Python calls PyInit_NAME, which PYBIND11_MODULE defines. In another interpreter of Python 3.10 and 3.11 that function
// waits for ever, for the GIL of the first one. So here it has another symbol, and the module's own function of that
// name asks first. From 3.13 on Python itself calls the function in the first interpreter, and so the module's body
// asks there.
#pragma once

#include <pybind11/pybind11.h>

#define PORTAMEM_QUOTED_(x) #x
#define PORTAMEM_QUOTED(x) PORTAMEM_QUOTED_(x)

namespace portamem::python {

inline constexpr const char* kMainInterpreterOnly =
    "portamem runs in Python's main interpreter only, and this is a subinterpreter";

inline bool is_main_interpreter() noexcept { return PyInterpreterState_Get() == PyInterpreterState_Main(); }

/// Stands at the top of a module's body.
inline void refuse_other_interpreters() {
    if (!is_main_interpreter()) throw pybind11::import_error(kMainInterpreterOnly);
}

}  // namespace portamem::python

#define PORTAMEM_MODULE_OF_MAIN_INTERPRETER(name, variable)                                                \
    extern "C" PyObject* PYBIND11_CONCAT(PyInit_, name)() __asm__("portamem_init");                        \
    extern "C" PYBIND11_EXPORT PyObject* portamem_ask_and_init() __asm__("PyInit_" PORTAMEM_QUOTED(name)); \
    extern "C" PyObject* portamem_ask_and_init() {                                                         \
        if (portamem::python::is_main_interpreter()) return PYBIND11_CONCAT(PyInit_, name)();              \
        PyErr_SetString(PyExc_ImportError, portamem::python::kMainInterpreterOnly);                        \
        return nullptr;                                                                                    \
    }                                                                                                      \
    PYBIND11_MODULE(name, variable)
