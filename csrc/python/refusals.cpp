// SPDX-License-Identifier: MIT
// python/refusals.cpp: one layer around all of pybind11's functions, for the arguments it refuses.
//
// pybind11 calls each of its functions through one dispatcher, whose address is in the method's definition. The layer
// stands in that place: it calls the dispatcher, and looks at nothing unless that has raised.
#include "refusals.hpp"

#include <string>
#include <unordered_map>

#include "fastcall.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using Function = PyObject* (*)(PyObject*, PyObject* const*, std::size_t, PyObject*);

Function dispatcher = nullptr;

struct Known {
    std::string name;
    const PyTypeObject* of;  // the class of a method; null for a function of no class
};

// Maps pybind11's record of a function, which is its first argument, to what is known of it. Kept for good, as the
// functions are.
std::unordered_map<const PyObject*, Known>& functions() {
    static auto* all = new std::unordered_map<const PyObject*, Known>;
    return *all;
}

// Returns whether pybind11 itself raises the error where no conversion fits.
bool is_refusal(const py::object& error) {
    if (Py_TYPE(error.ptr()) != reinterpret_cast<PyTypeObject*>(PyExc_TypeError)) return false;
    const std::string text = py::str(error);
    return text.find("arguments. The following argument types are supported:") != std::string::npos;
}

// Returns the error to raise instead.
py::object words_for(PyObject* record, const py::object& error, PyObject* const* args, Py_ssize_t nargs,
                     PyObject* keywords) {
    py::list values;
    for (Py_ssize_t i = 0; i < nargs; ++i) values.append(py::handle(args[i]));
    py::dict named;
    const Py_ssize_t count = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
    for (Py_ssize_t i = 0; i < count; ++i) named[PyTuple_GET_ITEM(keywords, i)] = py::handle(args[nargs + i]);
    const auto known = functions().find(record);
    const std::string name = known == functions().end() ? std::string() : known->second.name;
    return py::module_::import("portamem._refusals").attr("explain")(name, py::str(error), values, named);
}

// Refuses None as an object. pybind11 takes it for a null object of its classes, whose methods would then read a
// missing value.
bool refuse_none_as_object(PyObject* record) {
    const auto known = functions().find(record);
    if (known == functions().end() || known->second.of == nullptr) return false;
    const py::handle type(reinterpret_cast<PyObject*>(const_cast<PyTypeObject*>(known->second.of)));
    PyErr_Format(PyExc_TypeError, "%s: the object is a %U, not None", known->second.name.c_str(),
                 py::object(type.attr("__name__")).ptr());
    return true;
}

PyObject* call_in_words(PyObject* record, PyObject* const* args, std::size_t nargs, PyObject* keywords) {
    if (PyVectorcall_NARGS(nargs) != 0 && args[0] == Py_None && refuse_none_as_object(record)) return nullptr;
    PyObject* answer = dispatcher(record, args, nargs, keywords);
    if (answer != nullptr || PyErr_ExceptionMatches(PyExc_TypeError) == 0) return answer;
    return answer_python([&]() -> PyObject* {
        py::error_already_set raised;
        if (!is_refusal(raised.value())) throw raised;
        const py::object words = words_for(record, raised.value(), args, PyVectorcall_NARGS(nargs), keywords);
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(words.ptr())), words.ptr());
        return nullptr;
    });
}

// Returns the C function behind a method, a static method or a function; null for any other object.
PyCFunctionObject* function_of(PyObject* object) {
    if (Py_IS_TYPE(object, &PyInstanceMethod_Type)) object = PyInstanceMethod_GET_FUNCTION(object);
    py::object inner;
    if (Py_IS_TYPE(object, &PyStaticMethod_Type)) {
        inner = py::handle(object).attr("__func__");
        object = inner.ptr();
    }
    return PyCFunction_CheckExact(object) ? reinterpret_cast<PyCFunctionObject*>(object) : nullptr;
}

void stand_before(PyObject* object, const std::string& name, const PyTypeObject* of = nullptr) {
    PyCFunctionObject* function = function_of(object);
    if (function == nullptr) return;
    auto* const at = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dispatcher));
    if (function->m_ml->ml_meth != at) return;
    function->m_ml->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_in_words));
    functions().emplace(function->m_self, Known{name, of});
}

int refuse_init(PyObject* self, PyObject*, PyObject*) {
    const py::object name = py::handle(reinterpret_cast<PyObject*>(Py_TYPE(self))).attr("__name__");
    PyErr_Format(PyExc_TypeError, "%U objects are what portamem answers with: the class itself makes none", name.ptr());
    return -1;
}

}  // namespace

void refuse_in_words(const py::module_& m) {
    const py::cpp_function any([] {});
    dispatcher = reinterpret_cast<Function>(
        reinterpret_cast<void (*)()>(reinterpret_cast<PyCFunctionObject*>(any.ptr())->m_ml->ml_meth));
    // Takes this function from this module's types: the base that all modules share has that of the module that was
    // first.
    const initproc without_init = py::detail::pybind11_object_init;
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(m.attr("__dict__"))) {
        const std::string name = py::str(key);
        stand_before(value.ptr(), name);
        if (PyType_Check(value.ptr()) == 0) continue;
        auto* type = reinterpret_cast<PyTypeObject*>(value.ptr());
        if (type->tp_init == without_init) type->tp_init = refuse_init;
        for (const auto& [member, what] : py::reinterpret_borrow<py::dict>(type->tp_dict)) {
            const std::string text = py::str(member);
            const std::string full = text == "__init__" ? name : name + "." + text;
            stand_before(what.ptr(), full, Py_IS_TYPE(what.ptr(), &PyStaticMethod_Type) ? nullptr : type);
            if (Py_TYPE(what.ptr()) != &PyProperty_Type) continue;
            for (const char* part : {"fget", "fset"}) stand_before(py::object(what.attr(part)).ptr(), full, type);
        }
    }
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
