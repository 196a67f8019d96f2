// SPDX-License-Identifier: MIT
// python/fastcall.hpp: the few functions that Python calls by the million, which bypass pybind11's dispatcher.
//
// The dispatcher packs the arguments into a tuple, spells every keyword out as text, and asks a table for every type.
// That takes more time than the driver takes to allocate. Every other function goes through it.
#pragma once

#include <array>
#include <exception>

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Makes the objects that set_python_error needs, once, while the module is loaded. Its first use would be too late:
/// making them may collect garbage, which runs other Python code, and that may need them as well.
void prepare_python_errors();

/// Sets the Python error that pybind11 would set for the exception being handled, and returns null.
PyObject* set_python_error() noexcept;

/// Runs code that may throw inside a function that Python calls; `function` returns a new reference.
template <class Function>
PyObject* answer_python(Function&& function) noexcept {
    try {
        return function();
    } catch (...) {
        return set_python_error();
    }
}

/// Describes the parameters of a function, the first `positional` of which may also be given by position.
template <std::size_t N>
class Parameters {
  public:
    using Values = std::array<PyObject*, N>;  ///< borrowed; null where not given

    Parameters(const char* function, std::size_t positional, const std::array<const char*, N>& names)
        : function_(function), positional_(positional) {
        for (std::size_t i = 0; i < N; ++i) {
            names_[i] = PyUnicode_InternFromString(names[i]);  // kept for good
            if (names_[i] == nullptr) throw py::error_already_set();
        }
    }

    /// Returns the arguments of a METH_FASTCALL | METH_KEYWORDS function. Throws TypeError as Python's own functions
    /// do.
    Values parse(PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) const {
        Values values{};
        const auto count = static_cast<std::size_t>(nargs);
        if (count > positional_) refuse_count(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = args[i];
        const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
        for (Py_ssize_t k = 0; k < named; ++k) {
            PyObject*& value = values[index_of(PyTuple_GET_ITEM(keywords, k))];
            if (value != nullptr) refuse_twice();
            value = args[nargs + k];
        }
        return values;
    }

    [[noreturn]] void missing(std::size_t index) const {
        throw py::type_error(std::string(function_) + "() needs the argument '" +
                             py::str(names_[index]).cast<std::string>() + "'");
    }

  private:
    std::size_t index_of(PyObject* name) const {
        for (std::size_t i = 0; i < N; ++i) {  // keywords in source code are interned, as the names here
            if (name == names_[i]) return i;
        }
        return index_of_text(name);
    }

    std::size_t index_of_text(PyObject* name) const {
        for (std::size_t i = 0; i < N; ++i) {
            if (PyUnicode_Compare(name, names_[i]) == 0) return i;
        }
        throw py::type_error(std::string(function_) + "() got an unexpected keyword argument '" +
                             py::str(name).cast<std::string>() + "'");
    }

    [[noreturn]] void refuse_count(std::size_t count) const {
        throw py::type_error(std::string(function_) + "() takes " + std::to_string(positional_) +
                             " positional argument(s), and " + std::to_string(count) + " were given");
    }
    [[noreturn]] void refuse_twice() const {
        throw py::type_error(std::string(function_) + "() was given an argument twice");
    }

    const char* function_;
    std::size_t positional_;
    std::array<PyObject*, N> names_{};
};

/// Returns the value in an object of one of pybind11's classes, without a search through its tables; null before
/// __init__. The class and T have one address in an object: T is the class or its first base, as everywhere in these
/// modules.
template <class T>
T* value_of(PyObject* object) noexcept {
    const auto* instance = reinterpret_cast<py::detail::instance*>(object);
    return instance->simple_layout ? static_cast<T*>(instance->simple_value_holder[0]) : nullptr;
}

/// Returns the shared reference that such an object holds, which stays where it is while the object lives; null where
/// value_of is null. T is the class itself.
template <class T>
const std::shared_ptr<T>* reference_of(PyObject* object) noexcept {
    const auto* instance = reinterpret_cast<py::detail::instance*>(object);
    if (!instance->simple_layout || !instance->simple_holder_constructed) return nullptr;
    return reinterpret_cast<const std::shared_ptr<T>*>(&instance->simple_value_holder[1]);
}

/// Returns a method definition, with the casts that CPython's API asks for; say_in_words gives it its text.
template <PyObject* (*Function)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)>
PyMethodDef fast_method(const char* name) {
    auto* untyped = reinterpret_cast<void (*)()>(Function);
    return {name, reinterpret_cast<PyCFunction>(untyped), METH_FASTCALL | METH_KEYWORDS, nullptr};
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
