// SPDX-License-Identifier: MIT
// python/fastcall.cpp: exceptions of functions that pybind11 does not call.
#include "fastcall.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// pybind11 translates the exceptions of its own functions, with the translators registered for this module.
PyObject* error_translator = nullptr;
thread_local std::exception_ptr thrown_error;

PyObject* refuse_new(PyObject* /*self*/, PyObject* args, PyObject* /*keywords*/) {
    PyObject* type = PyTuple_GET_SIZE(args) == 0 ? nullptr : PyTuple_GET_ITEM(args, 0);
    if (type == nullptr || PyType_Check(type) == 0) {
        PyErr_SetString(PyExc_TypeError, "__new__ is called with a class");
        return nullptr;
    }
    const py::object name = py::handle(type).attr("__name__");
    if (PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(type)->tp_dict, "__new__") == nullptr) {
        PyErr_Format(
            PyExc_TypeError,
            "%U is derived from a class of portamem, of which Python can make none: CallbackMemoryResource takes "
            "functions of the program's own",
            name.ptr());
    } else {
        PyErr_Format(PyExc_TypeError, "%U.__new__ alone makes no %U: its __init__ would never run", name.ptr(),
                     name.ptr());
    }
    return nullptr;
}

}  // namespace

// The interpreter calls the slot of the type, which is left alone, and its caller sees that __init__ runs. Python finds
// another function by the name. It is put into the dict, because setting the attribute would set the slot too.
void refuse_objects_without_init(const py::module_& m) {
    static PyMethodDef definition = {"__new__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(refuse_new)),
                                     METH_VARARGS | METH_KEYWORDS, "Refuses: call the class itself."};
    const auto refusal = py::reinterpret_steal<py::object>(PyCFunction_New(&definition, nullptr));
    const PyTypeObject* metaclass = Py_TYPE(py::type::of<MemoryResource>().ptr());
    const py::object view = m.attr("View");
    for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(m.attr("__dict__"))) {
        if (Py_TYPE(value.ptr()) != metaclass && !value.is(view)) continue;
        auto* type = reinterpret_cast<PyTypeObject*>(value.ptr());
        if (PyDict_SetItemString(type->tp_dict, "__new__", refusal.ptr()) != 0) throw py::error_already_set();
        PyType_Modified(type);
    }
}

void prepare_python_errors() {
    error_translator = py::cpp_function([] { std::rethrow_exception(std::move(thrown_error)); }).release().ptr();
}

PyObject* set_python_error() noexcept {
    thrown_error = std::current_exception();
    return PyObject_CallNoArgs(error_translator);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
