// SPDX-License-Identifier: MIT
// python/host_export.cpp: the buffer protocol over portamem's memory.
#include "host_export.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "buffer_object.hpp"
#include "callbacks.hpp"
#include "strides.hpp"

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

void forget_signal() noexcept { ended_by_signal() = nullptr; }

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

namespace {

// Refuses a consumer that wants an order that the memory has not. Without strides a consumer takes C order.
void refuse_order(const HostExport& exported, int flags) {
    const auto wants = [flags](int order) { return (flags & order) == order; };
    const std::vector<Py_ssize_t>& shape = exported.shape;
    const std::vector<Py_ssize_t>& strides = exported.strides;
    if (std::count(shape.begin(), shape.end(), 0) != 0) return;  // what has no elements is in any order
    const bool is_c = is_c_order(shape.data(), strides.data(), shape.size(), exported.itemsize);
    if (!is_c && (wants(PyBUF_C_CONTIGUOUS) || !wants(PyBUF_STRIDES))) {
        throw ExportError("the memory is not C-contiguous: ask for its strides, or copy it (View.to_numpy)");
    }
    const std::vector<Py_ssize_t> last_first(shape.rbegin(), shape.rend());
    const std::vector<Py_ssize_t> of_last_first(strides.rbegin(), strides.rend());
    if (is_c_order(last_first.data(), of_last_first.data(), shape.size(), exported.itemsize)) return;
    if (wants(PyBUF_F_CONTIGUOUS))
        throw ExportError("the memory is not Fortran-contiguous: ask for its strides, or copy it (View.to_numpy)");
    if (!is_c && wants(PyBUF_ANY_CONTIGUOUS))
        throw ExportError("the memory is not contiguous: ask for its strides, or copy it (View.to_numpy)");
}

}  // namespace

int fill_py_buffer(PyObject* exporter, Py_buffer* view, int flags, HostExport exported) noexcept {
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
        refuse_order(exported, flags);
        auto owned = std::make_unique<HostExport>(std::move(exported));
        static char nothing = 0;  // some consumers refuse a null address, even of no bytes
        void* address = address_for_program(owned->memory);
        view->buf = address == nullptr ? &nothing : address;
        view->len = owned->itemsize;
        for (const Py_ssize_t extent : owned->shape) {
            // An empty shape may have extents whose product is beyond all numbers.
            view->len = extent == 0 || view->len == 0 ? 0 : view->len * extent;
        }
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
