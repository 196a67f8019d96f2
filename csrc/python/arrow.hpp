// SPDX-License-Identifier: MIT
// python/arrow.hpp: Views as arrays of Apache Arrow, by its C data interface and its C device data interface.
#pragma once

#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Implements __arrow_c_array__: returns the capsules "arrow_schema" and "arrow_array" of memory that the host reaches,
/// once declared work has run. The memory counts as exported until the consumer calls the array's release. Throws
/// ExportError for memory that the host cannot reach, and for what Arrow has no array for: elements without a type
/// there, several dimensions, gaps. `requested_schema` is a wish of the consumer's, which it converts to itself.
py::tuple export_arrow(const View& view, const py::object& requested_schema);

/// Implements __arrow_c_device_array__: does the same for memory of the host or of a device, with the capsule
/// "arrow_device_array". The memory is ready on return, so its event is null. Throws NotImplementedError for a keyword
/// of a newer protocol, unless it is None.
py::tuple export_arrow_device(const View& view, const py::object& requested_schema, const py::kwargs& keywords);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
