// SPDX-License-Identifier: MIT
// python/fast/transfers.cpp: copies between whole pieces of memory, which bypass pybind11.
#include "transfers.hpp"

#include "../transfer.hpp"
#include "portamem/copy_strided.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

py::object copy_strided(const Span& to, const std::optional<StridedSpan>& to_strided, const Span& from,
                        const std::optional<StridedSpan>& from_strided, const std::shared_ptr<Stream>& on) {
    if (to_strided && from_strided)
        throw py::value_error("neither end is C-contiguous: copy one with numpy.ascontiguousarray first");
    return transfer_unlocked([&] { return to_strided ? copy(*to_strided, from, on) : copy(to, *from_strided, on); });
}

// Copies between two objects. A portamem object as an end of a copy is no more than its memory, so its methods are such
// copies.
PyObject* copy_objects(PyObject* dst, PyObject* src, PyObject* stream) {
    const auto on = stream == nullptr ? nullptr : to_stream(stream);
    std::optional<StridedSpan> to_strided, from_strided;
    const Span to = to_span(dst, true, "the target", on, &to_strided);
    const Span from = to_span(src, false, "the source", on, &from_strided);
    if (__builtin_expect(to_strided || from_strided, 0))
        return copy_strided(to, to_strided, from, from_strided, on).release().ptr();
    return copy_unlocked(to, from, on).release().ptr();
}

PyObject* copy_to(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return answer_python([&] {
        static const Parameters<2> parameters("copy_to", 1, {"dst", "stream"});
        const auto [dst, stream] = parameters.parse(args, nargs, keywords);
        if (dst == nullptr) parameters.missing(0);
        return copy_objects(dst, self, stream);
    });
}

PyObject* copy_from(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return answer_python([&] {
        static const Parameters<2> parameters("copy_from", 1, {"src", "stream"});
        const auto [src, stream] = parameters.parse(args, nargs, keywords);
        if (src == nullptr) parameters.missing(0);
        return copy_objects(self, src, stream);
    });
}

PyObject* copy_any(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return answer_python([&] {
        static const Parameters<3> parameters("copy", 2, {"dst", "src", "stream"});
        const auto [dst, src, stream] = parameters.parse(args, nargs, keywords);
        if (dst == nullptr) parameters.missing(0);
        if (src == nullptr) parameters.missing(1);
        return copy_objects(dst, src, stream);
    });
}

}  // namespace

PyMethodDef copy_to_method() { return fast_method<copy_to>("copy_to"); }

PyMethodDef copy_from_method() { return fast_method<copy_from>("copy_from"); }

void register_transfers(py::module_& m) {
    static PyMethodDef functions[] = {
        fast_method<copy_any>("copy"),
        {nullptr, nullptr, 0, nullptr},
    };
    if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw py::error_already_set();
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
