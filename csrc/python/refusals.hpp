// SPDX-License-Identifier: MIT
// python/refusals.hpp: errors of portamem's in place of pybind11's refusals.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Lets every function that pybind11 has bound in the module and its classes say in plain words which argument it
/// refused, what that was and what to pass. Classes that Python makes no objects of do the same. It is called after all
/// functions have been bound. A call that succeeds costs one more jump.
void refuse_in_words(const py::module_& m);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
