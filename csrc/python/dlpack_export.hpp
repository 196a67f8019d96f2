// SPDX-License-Identifier: MIT
// python/dlpack_export.hpp: Views as DLPack tensors.
#pragma once

#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Implements __dlpack__: returns a capsule with the memory, which counts as an export of it until the consumer's
/// deleter has run. The arguments are the protocol's, null where not given. Throws BufferError for what cannot be had,
/// and ValueError for a stream that has no meaning.
py::object export_dlpack(const View& view, py::handle stream, py::handle max_version, py::handle dl_device,
                         py::handle copy);

/// Implements __dlpack_device__: returns (type, ID).
py::tuple dlpack_device(const View& view);

/// Returns every (type, ID) by which the memory may be had without a copy, the one of __dlpack_device__ first.
py::list dlpack_devices(const View& view);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
