// SPDX-License-Identifier: MIT
// python/bindings.hpp: declarations that the binding files share: one registration function per concept.
//
// These files are compiled once per backend, into portamem._host, portamem._cuda and portamem._hip. They hold no logic:
// they turn Python's arguments into C++ ones, drop the GIL around every call that may block, and name things.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <portamem/portamem.hpp>

#include "gil.hpp"

namespace py = pybind11;

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Sets portamem.Error or OutOfMemoryError for what the runtime refused, in functions that Python calls itself.
void set_python_error(const Error& error);

/// Is called in a handler of an exception that is not passed on. A signal that asks the program to end (Ctrl-C) is
/// raised again later.
void keep_interrupt() noexcept;

/// Lets a child of os.fork read what its parent's work has written by then.
void note_before_forks();

/// Lets the waits of calls that Python makes run the program's signal handlers.
void hear_signals_in_waits();

/// Ends a with block by closing. It never hides an exception that is on its way: an object that cannot be closed then
/// goes with its last reference.
template <class Close>
void leave_block(const py::object& exception, Close&& close) {
    try {
        close();
    } catch (const std::exception&) {
        if (exception.is_none()) throw;
        keep_interrupt();
    }
}

/// Returns the name of the module that users name.
inline const std::string& public_module() {
    static const std::string name = std::string("portamem.") + rt::BackendName;
    return name;
}

/// Returns the name of a value's type for messages; portamem's own types come without the module.
inline std::string type_name(const py::handle& value) {
    const std::string name = Py_TYPE(value.ptr())->tp_name;
    return name.rfind("portamem.", 0) == 0 ? name.substr(name.rfind('.') + 1) : name;
}

void register_errors(py::module_& m);
void register_versions(py::module_& m);
void register_capabilities(py::module_& m);
void register_recommend(py::module_& m);
void register_quirks(py::module_& m);
void register_device(py::module_& m);
void register_event(py::module_& m);
void register_stream(py::module_& m);
void register_buffer(py::module_& m);
void register_view(py::module_& m);
void register_resources(py::module_& m);
void register_async_resource(py::module_& m);
void register_virtual_resource(py::module_& m);
void register_pool_resource(py::module_& m);
void register_prefaulted_resource(py::module_& m);
void register_adaptors(py::module_& m);
/// Runs after all classes of resources: the interpreter calls a class's own methods sooner than inherited ones.
void give_each_resource_its_allocate();
/// Runs after all classes. It keeps each from making an object whose __init__ never ran, of which every method would
/// read a missing value.
void refuse_objects_without_init(const py::module_& m);
void register_recording_adaptors(py::module_& m);
void register_composed_resources(py::module_& m);
void register_scope(py::module_& m);
void register_registration(py::module_& m);
void register_pointer_info(py::module_& m);
void register_copy(py::module_& m);
void register_order_check(py::module_& m);
void register_library_hooks(py::module_& m);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
