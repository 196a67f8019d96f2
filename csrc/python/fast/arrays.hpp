// SPDX-License-Identifier: MIT
// python/fast/arrays.hpp: empty and zeros: typed memory in one call.
#pragma once

#include "../bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Defines empty and zeros in the module.
void register_arrays(py::module_& m);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
