// SPDX-License-Identifier: MIT
// python/dlpack_exchange.cpp: DLPack's C exchange table, as a consumer finds it.
#include "dlpack_exchange.hpp"

#include <algorithm>
#include <array>

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {
namespace dlpack {

namespace {

// Forgets the AttributeError of a look-up that found nothing. Other exceptions pass.
void forget_missing() {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw py::error_already_set();
    PyErr_Clear();
}

// Returns whether a method of that name is there and answers True.
bool says(const py::object& object, PyObject* method) {
    PyObject* arguments[] = {object.ptr()};
    const auto answer = py::reinterpret_steal<py::object>(PyObject_VectorcallMethod(method, arguments, 1, nullptr));
    if (!answer) forget_missing();
    return answer.ptr() == Py_True;
}

// Returns whether memory alone does not tell the values, in the words that PyTorch and libraries like it have for that.
// Throws ExportError for a negative view, which PyTorch's own __dlpack__ gives away with the wrong sign.
bool is_more_than_memory(const py::object& object) {
    static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
    static PyObject* const is_conj = PyUnicode_InternFromString("is_conj");
    static PyObject* const is_neg = PyUnicode_InternFromString("is_neg");
    const auto needs = py::reinterpret_steal<py::object>(PyObject_GetAttr(object.ptr(), requires_grad));
    if (!needs) {
        forget_missing();
        return false;
    }
    if (says(object, is_neg)) {
        throw ExportError("the tensor is a negative view, whose memory holds the other sign: take its resolve_neg()");
    }
    return needs.ptr() != Py_False || says(object, is_conj);
}

// Returns the attribute of the class itself, borrowed; null where it has none. A class that derives from one with a
// table may change what the object means, so its objects are asked by __dlpack__.
PyObject* table_attribute(PyTypeObject* type) {
    static PyObject* const name = PyUnicode_InternFromString(ExchangeTable::kAttribute);
    const auto own =
        py::reinterpret_steal<py::object>(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dict__"));
    if (!own) throw py::error_already_set();
    const auto found = py::reinterpret_steal<py::object>(PyObject_GetItem(own.ptr(), name));
    if (!found) PyErr_Clear();
    return found.ptr();  // the class keeps it
}

// Returns the table of a type, which stays for the life of the process.
const ExchangeTable* table_of(PyTypeObject* type) {
    PyObject* const capsule = table_attribute(type);
    if (capsule == nullptr || PyCapsule_IsValid(capsule, ExchangeTable::kName) == 0) return nullptr;
    const auto* table = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(capsule, ExchangeTable::kName));
    while (table != nullptr && table->version.major != kVersion.major) table = table->previous;
    const bool is_whole = table != nullptr && table->from_object != nullptr && table->current_stream != nullptr;
    return is_whole ? table : nullptr;
}

// Returns the same, and remembers the first types that have a table: a type that is remembered is kept.
const ExchangeTable* remembered_table(PyTypeObject* type) {
    struct Known {
        PyTypeObject* type = nullptr;
        const ExchangeTable* table = nullptr;
    };
    static std::array<Known, 8> known{};
    for (const Known& one : known) {
        if (one.type == type) return one.table;
        if (one.type == nullptr) break;
    }
    const ExchangeTable* table = table_of(type);
    if (table == nullptr) return nullptr;
    const auto free = std::find_if(known.begin(), known.end(), [](const Known& one) { return one.type == nullptr; });
    if (free != known.end()) {
        Py_INCREF(type);
        *free = {type, table};
    }
    return table;
}

}  // namespace

const ExchangeTable* table_for(const py::object& object) {
    const ExchangeTable* table = remembered_table(Py_TYPE(object.ptr()));
    return table == nullptr || is_more_than_memory(object) ? nullptr : table;
}

}  // namespace dlpack
}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
