// SPDX-License-Identifier: MIT
// python/dlpack_export.hpp: Views as DLPack tensors.
#pragma once

#include "dlpack.hpp"
#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Implements __dlpack__: returns a capsule with the memory, which counts as an export of it until the consumer's
/// deleter has run. The arguments are the protocol's, null where not given. Throws BufferError for what cannot be had,
/// and ValueError for a stream that has no meaning.
py::object export_dlpack(const View& view, py::handle stream, py::handle max_version, py::handle dl_device,
                         py::handle copy);

/// Returns the tensor that __dlpack__ gives for version 1 without arguments, for the C exchange table: memory of the
/// device is ready on its default stream, and memory of the host once declared work has run. The caller calls the
/// deleter once. Throws as export_dlpack does.
dlpack::ManagedTensorVersioned* export_managed(const View& view);

/// Returns a tensor of the View's memory for one call of a consumer, which must not keep it. It counts as no export, so
/// the memory must not be closed meanwhile. `extents` holds the shape, and behind it the strides in elements, and stays
/// as long. The memory is ready as for export_managed; work on the default stream may go on using it. Throws
/// ExportError for read-only memory, and as export_dlpack does.
dlpack::Tensor lend(const View& view, std::int64_t* extents);

/// Returns new, C-contiguous memory of the prototype's device, type and shape. The caller calls the deleter once.
/// - from: serves the device that it is of, and the host where that reaches its memory. Otherwise, and where it is
///   null, the host's memory is the C library's, and a device's is from its current resource.
/// - handle: the stream whose work may use the memory at once; null is the device's default stream.
/// - It needs no GIL, and leaves one that the caller holds while it may wait; scopes of Python count where the caller
///   holds it.
/// Throws ExportError for a prototype that cannot be, and as MemoryResource::allocate does.
dlpack::ManagedTensorVersioned* allocate_managed(const dlpack::Tensor& like,
                                                 const std::shared_ptr<MemoryResource>& from = nullptr,
                                                 rt::Stream_t handle = {});

/// Implements __dlpack_device__: returns (type, ID).
py::tuple dlpack_device(const View& view);

/// Returns every (type, ID) by which the memory may be had without a copy, the one of __dlpack_device__ first.
py::list dlpack_devices(const View& view);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
