// SPDX-License-Identifier: MIT
// python/dlpack_methods.hpp: the DLPack methods that Views and Buffers share.
#pragma once

#include "fast/view_object.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Calls the function with the View of a View object, or with a View of a Buffer object's bytes, as uint8. Returns its
/// answer. Throws TypeError for any other object.
template <class Function>
auto with_view(const py::handle& object, const Function& function) {
    if (const View* view = view_of(object)) return function(*view);
    if (buffer_of(object) == nullptr) throw py::type_error("portamem's DLPack table takes Views and Buffers");
    return function(static_cast<const View&>(bytes_of(object)));
}

/// Describe __dlpack__, __dlpack_device__ and _dlpack_devices.
PyMethodDef dlpack_method();
PyMethodDef dlpack_device_method();
PyMethodDef dlpack_devices_method();

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
