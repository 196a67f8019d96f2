// SPDX-License-Identifier: MIT
// python/refusals.hpp: what pybind11 refuses, in words of portamem's.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Lets every function that pybind11 has bound in the module and its classes say in plain words which argument it
/// refused, what that was and what to pass; and so each class that Python makes no objects of. After all have been
/// bound. A call that succeeds costs one more jump.
void refuse_in_words(const py::module_& m);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
