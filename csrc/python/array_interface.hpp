// SPDX-License-Identifier: MIT
// python/array_interface.hpp: __array_interface__ and __cuda_array_interface__, both version 3.
#pragma once

#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Serves the host, and waits for the work declared on the memory. Throws AttributeError where the host cannot reach
/// the memory, because consumers look for the attribute to decide how to read.
py::dict host_interface(const View& view);

/// Serves the device, and names the stream that holds all declared work. Throws AttributeError where no device reaches
/// the memory.
py::dict device_interface(const View& view);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
