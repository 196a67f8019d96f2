// SPDX-License-Identifier: MIT
// python/dlpack_methods.cpp: the DLPack methods that Views and Buffers share.
#include "dlpack_methods.hpp"

#include "dlpack_export.hpp"
#include "fastcall.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

PyObject* get_dlpack(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return answer_python([&] {
        static const Parameters<4> parameters("__dlpack__", 0, {"stream", "max_version", "dl_device", "copy"});
        const auto [stream, max_version, dl_device, copy] = parameters.parse(args, nargs, keywords);
        if (const View* view = view_of(self)) {
            return export_dlpack(*view, stream, max_version, dl_device, copy).release().ptr();
        }
        return export_dlpack(bytes_of(self), stream, max_version, dl_device, copy).release().ptr();
    });
}

PyObject* get_dlpack_device(PyObject* self, PyObject*) {
    return answer_python(
        [&] { return with_view(self, [](const View& view) { return dlpack_device(view); }).release().ptr(); });
}

PyObject* get_dlpack_devices(PyObject* self, PyObject*) {
    return answer_python(
        [&] { return with_view(self, [](const View& view) { return dlpack_devices(view); }).release().ptr(); });
}

}  // namespace

PyMethodDef dlpack_method() { return fast_method<get_dlpack>("__dlpack__"); }
PyMethodDef dlpack_device_method() { return {"__dlpack_device__", get_dlpack_device, METH_NOARGS, nullptr}; }
PyMethodDef dlpack_devices_method() { return {"_dlpack_devices", get_dlpack_devices, METH_NOARGS, nullptr}; }

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
