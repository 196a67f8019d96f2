// SPDX-License-Identifier: MIT
// python/fast/view_object.hpp: the Python objects of View.
//
// A View comes with every array, so its type is a plain one with the View inside the object, as Buffer's is, and
// dropped objects are used again. This header has the type, the way from an object to its View and back, and the
// conversion that pybind11 needs for functions of its own.
#pragma once

#include "../buffer_object.hpp"
#include "../view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Returns the View of a View object; null for any other object.
View* view_of(const py::handle& object) noexcept;

/// Returns a new object. It needs the GIL.
py::object to_python(View&& view);

/// Returns a new object of a View of a Buffer object, by View::open.
py::object open_view(py::object buffer, const Buffer& memory, const ElementType& type, const std::size_t* extents,
                     std::size_t ndim, std::size_t offset, const View::Shape& strides = {});

/// Makes the type. methods and attributes: what Python finds without pybind11; each ends with a null name. get: the
/// buffer protocol, of which release_py_buffer is the other half. make: the class, called.
PyTypeObject* make_view_type(PyMethodDef* methods, PyGetSetDef* attributes, getbufferproc get, newfunc make);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python

namespace pybind11::detail {

template <>
class type_caster<portamem::python::View> : public plain_caster<portamem::python::View, portamem::python::view_of> {
  public:
    static handle cast(portamem::python::View&& view, return_value_policy, handle) {
        return portamem::python::to_python(std::move(view)).release();
    }
    static constexpr auto name = const_name("View");
};

}  // namespace pybind11::detail
