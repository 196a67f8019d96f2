// SPDX-License-Identifier: MIT
// python/fast/arrays.hpp: empty and zeros: typed memory in one call.
#pragma once

#include "../bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Defines empty and zeros in the module.
void register_arrays(py::module_& m);

/// Lets go of the objects of default resources that are not the default any more. It needs the GIL.
void forget_changed_defaults();

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
