// SPDX-License-Identifier: MIT
// python/dlpack_export.hpp: Views as DLPack tensors.
#pragma once

#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// __dlpack__: a capsule with the memory, which counts as an export of it until the consumer's deleter has run.
/// The arguments are the protocol's, null where not given; BufferError for what cannot be had, ValueError for a stream
/// that has no meaning.
py::object export_dlpack(const View& view, py::handle stream, py::handle max_version, py::handle dl_device,
                         py::handle copy);

/// __dlpack_device__: (type, ID).
py::tuple dlpack_device(const View& view);

/// All (type, ID) as which the memory may be had without a copy, the one of __dlpack_device__ first.
py::list dlpack_devices(const View& view);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
