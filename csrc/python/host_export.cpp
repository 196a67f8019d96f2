// SPDX-License-Identifier: MIT
// python/host_export.cpp: the buffer protocol over portamem's memory.
#include "host_export.hpp"

#include <memory>
#include <utility>

#include "buffer_object.hpp"
#include "callbacks.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Holds the exception that ended this thread's latest wait for a Python buffer. It needs the GIL. Only Python's first
// thread has any.
std::shared_ptr<void>& ended_by_signal() {
    static thread_local std::shared_ptr<void> error;
    return error;
}

}  // namespace

void refuse_after_signal() {
    if (auto error = std::exchange(ended_by_signal(), nullptr)) throw CallbackError(std::move(error), "a signal");
}

void release_py_buffer(PyObject*, Py_buffer* view) { delete static_cast<HostExport*>(view->internal); }

void require_host_access(const Buffer& memory, const char* what) {
    if (memory.traits().host_accessible) return;
    throw ExportError(std::string(what) + " needs memory that the host can reach, and this is " +
                      to_string(memory.traits().kind) +
                      " memory: copy it to host memory first (copy_to, or View.to_numpy)");
}

int fill_py_buffer(PyObject* exporter, Py_buffer* view, int flags, HostExport exported) noexcept {
    ended_by_signal() = nullptr;
    try {
        require_host_access(exported.memory, "the buffer protocol");
        {
            const WithoutGil nogil;
            exported.memory.allocation()->synchronize_declared();
        }
        const bool read_only = exported.memory.traits().read_only;
        if (read_only && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
            throw ExportError("the memory is read-only: copy it to memory of your own, and write there");
        }
        if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && exported.shape.size() > 1) {
            throw ExportError("the memory is C-contiguous, not Fortran-contiguous");
        }
        auto owned = std::make_unique<HostExport>(std::move(exported));
        static char nothing = 0;  // some consumers refuse a null address, even of no bytes
        void* address = address_for_program(owned->memory);
        view->buf = address == nullptr ? &nothing : address;
        view->len = static_cast<Py_ssize_t>(owned->memory.nbytes());
        view->itemsize = owned->itemsize;
        view->readonly = read_only ? 1 : 0;
        view->ndim = static_cast<int>(owned->shape.size());
        view->format = (flags & PyBUF_FORMAT) != 0 ? owned->format.data() : nullptr;
        view->shape = (flags & PyBUF_ND) != 0 ? owned->shape.data() : nullptr;
        view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? owned->strides.data() : nullptr;
        view->suboffsets = nullptr;
        view->internal = owned.release();
        view->obj = Py_NewRef(exporter);
        return 0;
    } catch (const Error& e) {
        set_python_error(e);
    } catch (const CallbackError& e) {
        set_raised(e);
        ended_by_signal() = e.error;
    } catch (const std::exception& e) {
        PyErr_SetString(PyExc_BufferError, e.what());
    }
    view->obj = nullptr;
    return -1;
}

void install_buffer_protocol(PyHeapTypeObject* type, getbufferproc get) {
    type->ht_type.tp_as_buffer = &type->as_buffer;
    type->as_buffer.bf_getbuffer = get;
    type->as_buffer.bf_releasebuffer = release_py_buffer;
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
