// SPDX-License-Identifier: MIT
// python/element_type.cpp: element types, by what Python, DLPack and NumPy call them.
#include "element_type.hpp"

#include <array>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "convert.hpp"
#include "dlpack.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Keeps element types by the objects that stood for them. The objects are kept too, so that their addresses stay
// theirs. It needs the GIL.
class KnownObjects {
  public:
    const ElementType* find(PyObject* object) const noexcept {
        const Entry& entry = entries_[index_of(object)];
        return entry.object == object ? entry.type : nullptr;
    }
    void add(PyObject* object, const ElementType& type) {
        Entry& entry = entries_[index_of(object)];
        PyObject* former = std::exchange(entry.object, Py_NewRef(object));
        entry.type = &type;
        Py_XDECREF(former);
    }

    // Returns whether the object means the same for ever, and will come again. That excludes a class of the program's,
    // which may change its meaning, and any text but that of source code.
    static bool is_constant(PyObject* object) noexcept {
        if (PyType_Check(object)) return (reinterpret_cast<PyTypeObject*>(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0;
        if (PyUnicode_CheckExact(object)) return PyUnicode_CHECK_INTERNED(object) != 0;
        return std::strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) == 0;
    }

  private:
    struct Entry {
        PyObject* object = nullptr;
        const ElementType* type = nullptr;
    };

    static std::size_t index_of(PyObject* object) noexcept {
        return (reinterpret_cast<std::uintptr_t>(object) >> 4) % kMost;
    }

    static constexpr std::size_t kMost = 128;
    std::array<Entry, kMost> entries_{};
};

// The functions of portamem._dtypes, which are looked up once.
const py::object& function_of_dtypes(const py::object*& function, const char* name) {
    if (function == nullptr) function = new py::object(py::module_::import("portamem._dtypes").attr(name));
    return *function;
}

using TypesByName = std::map<std::string, const ElementType*, std::less<>>;

// Maps names, and what else the types were called, to element types. Calling Python may run other threads.
TypesByName& known_names() {
    static auto* known = new TypesByName;
    return *known;
}

// Returns the element type of a DType of portamem._dtypes.
const ElementType& element_type_of(const py::tuple& parsed) {
    const auto name = parsed[0].cast<std::string>();
    const auto found = known_names().find(name);
    if (found != known_names().end()) return *found->second;
    const auto* type = new ElementType{name,
                                       parsed[1].cast<std::string>(),
                                       parsed[2].cast<std::string>(),
                                       parsed[3].cast<std::size_t>(),
                                       parsed[4].cast<std::uint8_t>(),
                                       parsed[5].cast<std::uint8_t>()};
    return *known_names().emplace(name, type).first->second;
}

const ElementType& element_type_by_name(const py::handle& dtype) {
    std::string_view spelling;
    if (PyUnicode_CheckExact(dtype.ptr())) {
        Py_ssize_t length = 0;
        const char* text = PyUnicode_AsUTF8AndSize(dtype.ptr(), &length);
        if (text == nullptr) {
            PyErr_Clear();
            (void)to_text(dtype, "an element type");  // throws
        }
        spelling = {text, static_cast<std::size_t>(length)};
        const auto found = known_names().find(spelling);
        if (found != known_names().end()) return *found->second;
    }
    static const py::object* parse = nullptr;
    const ElementType& type = element_type_of(function_of_dtypes(parse, "parse_dtype")(dtype));
    if (!spelling.empty()) known_names().emplace(spelling, &type);
    return type;
}

}  // namespace

const ElementType& to_element_type(const py::handle& dtype) {
    static auto* known = new KnownObjects;
    if (const ElementType* found = known->find(dtype.ptr())) return *found;
    const ElementType& type = element_type_by_name(dtype);
    if (KnownObjects::is_constant(dtype.ptr())) known->add(dtype.ptr(), type);
    return type;
}

const ElementType& element_type_of_dlpack(unsigned code, unsigned bits, unsigned lanes) {
    static std::array<std::array<const ElementType*, 256>, dlpack::kLastCode + 1> known{};  // by code and bits
    const bool is_plain = lanes == 1 && code < known.size() && bits < known[0].size();
    if (is_plain && known[code][bits] != nullptr) return *known[code][bits];
    static const py::object* find = nullptr;
    const ElementType& type = element_type_of(function_of_dtypes(find, "dlpack_dtype")(code, bits, lanes));
    if (is_plain) known[code][bits] = &type;
    return type;
}

py::object numpy_dtype(const ElementType& type) {
    static const py::object* make = nullptr;
    if (type.dtype == nullptr) type.dtype = function_of_dtypes(make, "numpy_dtype")(type.name).release().ptr();
    return py::reinterpret_borrow<py::object>(type.dtype);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
