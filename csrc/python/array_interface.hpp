// SPDX-License-Identifier: MIT
// python/array_interface.hpp: __array_interface__ and __cuda_array_interface__, both version 3.
#pragma once

#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// For the host, which waits here for the work declared on the memory. AttributeError where it cannot reach the memory:
/// consumers look for the attribute to decide how to read.
py::dict host_interface(const View& view);

/// For the device, with the stream behind which all declared work is. AttributeError where no device reaches the memory.
py::dict device_interface(const View& view);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
