// SPDX-License-Identifier: MIT
// python/errors.cpp: C++ exceptions as portamem's Python exceptions, which all backends share.
#include <optional>

#include "callbacks.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

void set_error(const char* type_name, const Error& e, py::dict figures = {}) {
    const py::object type = py::module_::import("portamem.errors").attr(type_name);
    const py::object error = type(e.what(), py::arg("code") = static_cast<int>(e.code()), py::arg("name") = e.name(),
                                  py::arg("call") = e.call(), py::arg("backend") = rt::BackendName, **figures);
    PyErr_SetObject(type.ptr(), error.ptr());
}

// Adds only known figures; an unknown one stays None.
py::dict figures_of(const OutOfMemory& e) {
    py::dict known;
    const auto add = [&known](const char* name, const std::optional<std::size_t>& figure) {
        if (figure) known[name] = *figure;
    };
    add("asked", e.figures().asked);
    add("free", e.figures().free);
    add("used", e.figures().used);
    add("cached", e.figures().cached);
    add("largest_free_block", e.figures().largest_free);
    add("used_by_others", e.figures().used_by_others);
    return known;
}

}  // namespace

void set_python_error(const Error& error) {
    if (const auto* raised = dynamic_cast<const RaisedInPython*>(&error)) {
        set_raised(*raised);
    } else if (const auto* no_memory = dynamic_cast<const OutOfMemory*>(&error)) {
        set_error("OutOfMemoryError", error, figures_of(*no_memory));
    } else {
        set_error("Error", error);
    }
}

void register_errors(py::module_&) {
    py::register_local_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (const Error& e) {
            set_python_error(e);
        } catch (const CallbackError& e) {
            set_raised(e);
        } catch (const py::cast_error&) {
            PyErr_SetString(PyExc_TypeError, "a value has a type, or is of a size, that cannot be taken here");
        } catch (const std::bad_alloc&) {
            PyErr_SetString(PyExc_MemoryError, "the host has no memory left");
        } catch (const std::length_error&) {
            PyErr_SetString(PyExc_MemoryError, "the host has no memory for so much");
        } catch (const ExportError& e) {
            PyErr_SetString(PyExc_BufferError, e.what());
        }
    });
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
