// SPDX-License-Identifier: MIT
// python/host_export.hpp: the buffer protocol over portamem's memory, for Buffer and View.
#pragma once

#include <string>
#include <vector>

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Holds what one Python buffer shows. It lives in Py_buffer::internal until it is released; its `memory` is the
/// export.
struct HostExport {
    Buffer memory;
    std::string format;
    std::vector<Py_ssize_t> shape;
    std::vector<Py_ssize_t> strides;
    Py_ssize_t itemsize = 1;
};

/// Fills a Py_buffer for `exporter`. It waits for work declared on the memory, so that the host sees the result. Raises
/// BufferError for memory that the host cannot reach, and portamem.Error where the runtime refuses. Returns as
/// bf_getbuffer does.
int fill_py_buffer(PyObject* exporter, Py_buffer* view, int flags, HostExport exported) noexcept;

/// Ends what fill_py_buffer began, as bf_releasebuffer.
void release_py_buffer(PyObject* exporter, Py_buffer* view);

/// Makes a type that is not ready yet export its memory.
void install_buffer_protocol(PyHeapTypeObject* type, getbufferproc get);

/// Forgets the exception that refuse_after_signal() would throw: a new Python buffer is asked for.
void forget_signal() noexcept;

/// Runs code that may throw inside a bf_getbuffer, and sets the Python error.
template <class Describe>
int get_py_buffer(PyObject* self, Py_buffer* view, int flags, Describe&& describe) noexcept {
    forget_signal();
    try {
        return fill_py_buffer(self, view, flags, describe());
    } catch (py::error_already_set& e) {
        e.restore();
    } catch (const std::exception& e) {
        PyErr_SetString(PyExc_BufferError, e.what());
    }
    view->obj = nullptr;
    return -1;
}

/// Throws again the exception that ended a Python buffer's wait. NumPy drops it, and asks for the memory in other ways.
void refuse_after_signal();

/// Throws ExportError unless the host can reach the memory and follow its order.
void require_host_access(const Buffer& memory, const char* what);

/// Defines __array__, which NumPy calls only where the buffer protocol refused. Without it NumPy would take the object
/// for a sequence of objects. `memory_of(self)` is the memory.
template <class Class, class MemoryOf>
void define_array_refusal(Class& type, MemoryOf memory_of) {
    using Self = typename Class::type;
    type.def("__array__", [memory_of](const Self& self, const py::args&, const py::kwargs&) -> py::object {
        require_host_access(memory_of(self), "NumPy");
        refuse_after_signal();
        throw ExportError("NumPy takes this memory through the buffer protocol");
    });
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
