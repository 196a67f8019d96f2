// SPDX-License-Identifier: MIT
// python/host_bytes.cpp: the memory of the host's own objects, as bytes.
#include "host_bytes.hpp"

#include "convert.hpp"
#include "dlpack_import.hpp"
#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Returns whether the type is NumPy's array, once a program has imported it. It needs the GIL.
bool is_plain_array(const PyTypeObject* type) {
    static const PyTypeObject* known = nullptr;
    if (type == known) return true;
    if (known != nullptr || std::string_view(type->tp_name) != "numpy.ndarray") return false;
    const auto numpy = py::reinterpret_borrow<py::dict>(PyImport_GetModuleDict())["numpy"];
    const py::object array = py::getattr(numpy, "ndarray", py::none());  // missing while it is being imported
    if (array.ptr() != reinterpret_cast<const PyObject*>(type)) return false;
    known = type;
    return true;
}

// Returns whether the format tells all of an object. Other objects may be masked, or have a format that hides their
// contents.
bool tells_all(const py::handle& object) {
    const PyTypeObject* type = Py_TYPE(object.ptr());
    return type == &PyBytes_Type || type == &PyByteArray_Type || is_plain_array(type);
}

void refuse_no_bytes(const py::handle& object, const char* role) {
    static const auto* refuse =
        new py::object(py::module_::import("portamem.interop.host_memory").attr("refuse_no_bytes"));
    (*refuse)(object, role);
}

// Returns whether a format names references, by an O outside of colons, which enclose the names of fields.
bool holds_references(const char* format) {
    if (format == nullptr) return false;
    bool in_name = false;
    for (; *format != '\0'; ++format) {
        if (*format == ':') in_name = !in_name;
        if (*format == 'O' && !in_name) return true;
    }
    return false;
}

[[noreturn]] void refuse_references(const py::handle& object, const char* role) {
    throw py::type_error(std::string(role) + " is a " + type_name(object) +
                         " that holds references to Python objects, which are no bytes to copy: convert it to an "
                         "array of numbers first");
}

[[noreturn]] void refuse_read_only(const char* role) {
    throw py::value_error(std::string(role) + " is read-only: give writable memory, such as a bytearray");
}

// Takes memory by __array_interface__. NumPy's times and the element types of other packages have no buffer, and have
// this; so do arrays of other libraries.
bool take_interface(const py::handle& object, bool writable, const char* role, HostBytes& bytes,
                    std::optional<StridedSpan>* strided) {
    if (strided != nullptr) {
        static const auto* with_strides =
            new py::object(py::module_::import("portamem.interop.array_interface").attr("array_with_strides"));
        const py::object array = (*with_strides)(object, role);
        if (!array.is_none()) {
            bytes = host_bytes(array, writable, role, strided);
            return true;
        }
    }
    static const auto* read =
        new py::object(py::module_::import("portamem.interop.array_interface").attr("host_bytes"));
    const py::object answer = (*read)(object, role);
    if (answer.is_none()) return false;
    const auto [address, nbytes, read_only] = answer.cast<std::tuple<std::uintptr_t, std::size_t, bool>>();
    if (writable && read_only) refuse_read_only(role);
    bytes = {reinterpret_cast<void*>(address), nbytes, hold(py::reinterpret_borrow<py::object>(object))};
    return true;
}

StridedSpan with_strides(const std::shared_ptr<const Py_buffer>& view) {
    const auto dims = static_cast<std::size_t>(view->ndim);
    const std::vector<std::size_t> shape(view->shape, view->shape + dims);
    const std::vector<std::ptrdiff_t> strides(view->strides, view->strides + dims);
    return {view->buf,      static_cast<std::size_t>(view->itemsize), dims, shape.data(),
            strides.data(), std::const_pointer_cast<Py_buffer>(view)};
}

}  // namespace

void refuse_more_than_bytes(const py::handle& object, const char* role) {
    if (PyObject_CheckBuffer(object.ptr()) != 0 && !tells_all(object)) refuse_no_bytes(object, role);
}

HostBytes host_bytes(const py::handle& object, bool writable, const char* role, std::optional<StridedSpan>* strided) {
    if (PyObject_CheckBuffer(object.ptr()) == 0) {
        HostBytes bytes;
        if (take_interface(object, writable, role, bytes, strided)) return bytes;
        if (is_dlpack_producer(object)) return dlpack_bytes(object, writable, role);
        throw py::type_error(std::string(role) + " is a " + type_name(object) +
                             ": take a Buffer, a View, a HostRegistration, or an object with the buffer protocol, "
                             "__array_interface__ or __dlpack__");
    }
    if (!tells_all(object)) refuse_no_bytes(object, role);
    std::shared_ptr<const Py_buffer> view;
    try {
        view = hold_buffer(object);
    } catch (py::error_already_set&) {
        HostBytes bytes;
        if (!py::hasattr(object, "__array_interface__") || !take_interface(object, writable, role, bytes, strided))
            throw;
        return bytes;
    }
    if (holds_references(view->format)) refuse_references(object, role);
    const bool has_strides = PyBuffer_IsContiguous(view.get(), 'C') == 0;
    if (has_strides && (strided == nullptr || view->suboffsets != nullptr)) {
        throw py::value_error(std::string(role) + " is not C-contiguous: copy it with numpy.ascontiguousarray first");
    }
    if (writable && view->readonly != 0) refuse_read_only(role);
    if (has_strides) {
        *strided = with_strides(view);
        return {};
    }
    void* ptr = view->buf;
    const auto nbytes = static_cast<std::size_t>(view->len);
    return {ptr, nbytes, std::const_pointer_cast<Py_buffer>(view)};
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
