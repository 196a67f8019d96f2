// SPDX-License-Identifier: MIT
// python/words.cpp: docstrings and signatures, from the one place where they are written.
#include "words.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

struct Words {
    std::string plain;  // the signature, "(self, value, *, stream=None)"
    std::string doc;

    explicit Words(const py::handle& entry)
        : plain(py::cast<std::string>(entry[py::int_(2)])), doc(py::cast<std::string>(entry[py::int_(3)])) {}

    // As CPython's own functions have it: inspect reads the first line, and __doc__ is the rest.
    std::string of(const std::string& name, const std::string& signature) const {
        return name + signature + "\n--\n\n" + doc;
    }
};

// Python passes the object of such a method apart from its arguments: inspect leaves $self out of a bound one.
std::string with_own_object(const std::string& plain) {
    const std::size_t self = std::strlen("(self");
    return "($self, /" + plain.substr(self);
}

char* kept(const std::string& text) {
    char* copy = ::strdup(text.c_str());
    if (copy == nullptr) throw std::bad_alloc();
    return copy;
}

// pybind11 frees the text of its own functions with the function. Other functions are static, and keep their text.
void describe_function(PyCFunctionObject* function, const std::string& name, const Words& words) {
    const bool is_bound_by_pybind11 = function->m_self != nullptr && PyModule_Check(function->m_self) == 0 &&
                                      PyType_Check(function->m_self) == 0;  // as of __new__ and static methods
    const char* const before = function->m_ml->ml_doc;
    function->m_ml->ml_doc = kept(words.of(name, words.plain));
    if (is_bound_by_pybind11) std::free(const_cast<char*>(before));
}

void describe_member(PyObject* member, const std::string& name, const Words& words) {
    if (Py_IS_TYPE(member, &PyMethodDescr_Type)) {
        reinterpret_cast<PyMethodDescrObject*>(member)->d_method->ml_doc =
            kept(words.of(name, with_own_object(words.plain)));
    } else if (Py_IS_TYPE(member, &PyGetSetDescr_Type)) {
        reinterpret_cast<PyGetSetDescrObject*>(member)->d_getset->doc = kept(words.doc);
    } else if (Py_IS_TYPE(member, &PyProperty_Type)) {
        py::setattr(member, "__doc__", py::str(words.doc));
    } else {
        py::object inner = py::reinterpret_borrow<py::object>(member);
        if (Py_IS_TYPE(member, &PyInstanceMethod_Type))
            inner = py::reinterpret_borrow<py::object>(PyInstanceMethod_GET_FUNCTION(member));
        if (Py_IS_TYPE(member, &PyStaticMethod_Type)) inner = py::handle(member).attr("__func__");
        if (PyCFunction_CheckExact(inner.ptr())) {
            describe_function(reinterpret_cast<PyCFunctionObject*>(inner.ptr()), name, words);
        }
    }
}

// inspect reads the signature of a class from the text that CPython keeps of it, and frees with it.
void keep_text(PyTypeObject* type, const std::string& text) {
#if PY_VERSION_HEX >= 0x030D0000
    auto* copy = static_cast<char*>(PyMem_Malloc(text.size() + 1));
    const auto give_back = PyMem_Free;
#else
    auto* copy = static_cast<char*>(PyObject_Malloc(text.size() + 1));
    const auto give_back = PyObject_Free;
#endif
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, text.c_str(), text.size() + 1);
    give_back(const_cast<char*>(type->tp_doc));
    type->tp_doc = copy;
}

void describe_type(PyTypeObject* type, const std::string& name, const py::dict& all) {
    const Words words(all[name.c_str()]);
    py::setattr(reinterpret_cast<PyObject*>(type), "__doc__", py::str(words.doc));
    if (!words.plain.empty()) keep_text(type, words.of(name, words.plain));
    for (const auto& [key, member] : py::reinterpret_borrow<py::dict>(type->tp_dict)) {
        const std::string text = py::str(key);
        const std::string full = name + "." + text;
        if (all.contains(full)) describe_member(member.ptr(), text, Words(all[full.c_str()]));
    }
    PyType_Modified(type);
}

}  // namespace

void say_in_words(const py::module_& m) {
    const py::dict all = py::module_::import("portamem._words").attr("WORDS");
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(m.attr("__dict__"))) {
        const std::string name = py::str(key);
        if (!all.contains(name)) continue;
        if (PyType_Check(value.ptr()) != 0) {
            describe_type(reinterpret_cast<PyTypeObject*>(value.ptr()), name, all);
        } else if (PyCFunction_CheckExact(value.ptr())) {
            describe_function(reinterpret_cast<PyCFunctionObject*>(value.ptr()), name, Words(all[name.c_str()]));
        }
    }
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
