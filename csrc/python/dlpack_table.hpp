// SPDX-License-Identifier: MIT
// python/dlpack_table.hpp: DLPack's C exchange table of Views and Buffers.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Gives the type of Views or of Buffers the attribute __dlpack_c_exchange_api__, by which consumers in C take their
/// objects, make Views of their own tensors, and allocate. Memory of a device is handed over on its default stream, as
/// the table says.
void install_exchange_table(PyTypeObject* type);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
