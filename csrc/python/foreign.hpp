// SPDX-License-Identifier: MIT
// python/foreign.hpp: memory that others own.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// What foreign memory is, asked of the runtime. `device`: as Python gives it; None is the one that the runtime names,
/// or the current one.
MemoryTraits foreign_traits(const void* ptr, const py::object& device);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
