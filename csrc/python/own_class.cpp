// SPDX-License-Identifier: MIT
#include "own_class.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {
namespace {

PyObject* class_of(PyObject* self, void* /*closure*/) { return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(self))); }

int refuse_class(PyObject* self, PyObject* /*value*/, void* /*closure*/) {
    PyErr_Format(PyExc_TypeError, "a %s stays one: its __class__ cannot be set", Py_TYPE(self)->tp_name);
    return -1;
}

// Returns whether it is a class over C++ data. Exceptions and enums (of another metaclass) are plain Python classes.
bool is_bound(PyObject* value) {
    if (PyType_Check(value) == 0 || PyExceptionClass_Check(value)) return false;
    if ((reinterpret_cast<PyTypeObject*>(value)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
    return Py_IS_TYPE(value, &PyType_Type) || Py_IS_TYPE(value, py::detail::get_internals().default_metaclass);
}

}  // namespace

void keep_own_classes(const py::module_& m) {
    static PyGetSetDef own_class = {"__class__", class_of, refuse_class, nullptr, nullptr};
    for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(m.attr("__dict__"))) {
        if (!is_bound(value.ptr())) continue;
        auto* const type = reinterpret_cast<PyTypeObject*>(value.ptr());
        const auto getset = py::reinterpret_steal<py::object>(PyDescr_NewGetSet(type, &own_class));
        // setattr would not do: it would set the class of the class.
        if (!getset || PyDict_SetItemString(type->tp_dict, "__class__", getset.ptr()) != 0) {
            throw py::error_already_set();
        }
        PyType_Modified(type);
    }
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
