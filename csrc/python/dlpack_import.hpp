// SPDX-License-Identifier: MIT
// python/dlpack_import.hpp: foreign DLPack tensors as Views.
#pragma once

#include "dlpack.hpp"
#include "host_bytes.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Returns memory of a DLPack producer as a View, where it lies.
/// - The View's Buffer owns the producer's tensor and calls its deleter once, after all declared work has run. A View
///   of this backend is returned as it is.
/// - stream: a Stream, a foreign stream, or None. The producer's work comes before work that is submitted to it later;
///   for None the call waits for that work.
/// - Read-only memory gives a read-only View. So does a capsule from before version 1, which cannot tell, unless an
///   array interface of the producer says that the memory is writable.
/// - Throws TypeError for an object that is no producer, or is another backend's memory; ValueError for strided or
///   unknown elements; BufferError for a tensor that is malformed, taken already, or of a newer major version; and
///   whatever the producer raises.
py::object from_dlpack(const py::object& obj, const py::object& stream);

/// Returns the tensor as a View, for the C exchange table: nothing is waited for, and the View's stream is the default
/// one of the tensor's device. It takes the tensor over, also where it throws; it throws as from_dlpack does.
py::object from_managed(dlpack::ManagedTensorVersioned* managed);

bool is_dlpack_producer(const py::handle& obj);

/// Return the memory of a host producer as bytes, and of any producer as the end of a copy on `stream`, for all
/// elements that are whole bytes. Both throw as from_dlpack and host_bytes do. Host memory that is not C-contiguous
/// goes into `strided`, as to_span says.
HostBytes dlpack_bytes(const py::handle& value, bool writable, const char* role);
Span dlpack_span(const py::handle& value, bool writable, const char* role, const std::shared_ptr<Stream>& stream,
                 std::optional<StridedSpan>* strided);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
