// SPDX-License-Identifier: MIT
// python/fast/transfers.hpp: copies between whole pieces of memory, which bypass pybind11.
#pragma once

#include "../fastcall.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Return copy_to and copy_from of Buffer and View, for their tables of methods.
PyMethodDef copy_to_method();
PyMethodDef copy_from_method();

/// Defines copy in the module.
void register_transfers(py::module_& m);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
