// SPDX-License-Identifier: MIT
// python/fast/view_object.cpp: the Python objects of View.
#include "view_object.hpp"

#include <structmember.h>

#include <array>
#include <cstddef>
#include <new>

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

struct ViewHead {
    PyObject ob_base;
    PyObject* weak_references;
};

struct ViewObject {
    ViewHead head;
    View view;
};

// This is kept for good: a module's types live as long as the process.
PyTypeObject* view_type = nullptr;

// Holds objects that were dropped, each with a closed View, and without a reference. It needs the GIL.
struct SpareViews {
    static constexpr std::size_t kMost = 64;
    std::array<ViewObject*, kMost> objects{};
    std::size_t count = 0;
};
SpareViews spare_views;

ViewObject* object_of(PyObject* self) noexcept { return reinterpret_cast<ViewObject*>(self); }

// Returns a new object whose View is closed.
py::object make_closed() {
    if (spare_views.count != 0) {
        auto* self = reinterpret_cast<PyObject*>(spare_views.objects[--spare_views.count]);
        _Py_NewReference(self);  // its type still counts it
        return py::reinterpret_steal<py::object>(self);
    }
    PyObject* self = view_type->tp_alloc(view_type, 0);
    if (self == nullptr) throw py::error_already_set();
    ::new (static_cast<void*>(&object_of(self)->view)) View;
    return py::reinterpret_steal<py::object>(self);
}

void dealloc_view(PyObject* self) {
    const PendingErrorKept pending;
    ViewObject* object = object_of(self);
    if (object->head.weak_references != nullptr) PyObject_ClearWeakRefs(self);
    object->view.close();  // may run the program's code, which may make and drop Views
    if (spare_views.count < SpareViews::kMost) {
        spare_views.objects[spare_views.count++] = object;
        return;
    }
    PyTypeObject* type = Py_TYPE(self);
    object->view.~View();
    type->tp_free(self);
    Py_DECREF(type);
}

template <class Function>
void* view_slot(Function* function) {
    return reinterpret_cast<void*>(function);
}

}  // namespace

View* view_of(const py::handle& object) noexcept {
    return Py_TYPE(object.ptr()) == view_type ? &object_of(object.ptr())->view : nullptr;  // no class derives from it
}

py::object to_python(View&& view) {
    py::object made = make_closed();
    object_of(made.ptr())->view = std::move(view);
    return made;
}

py::object open_view(py::object buffer, const Buffer& memory, const ElementType& type, const std::size_t* extents,
                     std::size_t ndim, std::size_t offset, const View::Shape& strides) {
    py::object made = make_closed();
    object_of(made.ptr())->view.open(std::move(buffer), memory, type, extents, ndim, offset, strides);
    return made;
}

PyTypeObject* make_view_type(PyMethodDef* methods, PyGetSetDef* attributes, getbufferproc get, newfunc make) {
    static PyMemberDef members[] = {
        {"__weaklistoffset__", T_PYSSIZET, offsetof(ViewHead, weak_references), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr},
    };
    static char doc[] =
        "View(buffer, dtype='uint8', shape=None, *, offset=0, strides=None)\n--\n\n"
        "Typed memory of a Buffer, and an export of it.";
    PyType_Slot slots[] = {
        {Py_tp_new, view_slot(make)},
        {Py_tp_dealloc, view_slot(dealloc_view)},
        {Py_tp_methods, methods},
        {Py_tp_getset, attributes},
        {Py_tp_members, members},
        {Py_tp_doc, doc},
        {Py_bf_getbuffer, view_slot(get)},
        {Py_bf_releasebuffer, view_slot(release_py_buffer)},
        {0, nullptr},
    };
    static const std::string name = public_module() + ".View";
    PyType_Spec spec = {name.c_str(), sizeof(ViewObject), 0, Py_TPFLAGS_DEFAULT, slots};
    PyObject* type = PyType_FromSpec(&spec);
    if (type == nullptr) throw py::error_already_set();
    return view_type = reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
