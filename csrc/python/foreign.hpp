// SPDX-License-Identifier: MIT
// python/foreign.hpp: memory that the program owns.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Returns the traits of foreign memory, asked of the runtime. `device`: as Python gives it; None means the device that
/// the runtime names, or the current one.
MemoryTraits foreign_traits(const void* ptr, const py::object& device);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
