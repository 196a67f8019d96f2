// SPDX-License-Identifier: MIT
// python/own_class.hpp: portamem's objects keep the class that they were made of.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Makes `object.__class__ = other` a TypeError for objects of every class that the module has when this is called.
/// Python allows the assignment between classes of equal layout; the methods of one class would then run on the data of
/// the other.
void keep_own_classes(const py::module_& m);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
