// SPDX-License-Identifier: MIT
// python/dlpack_import.hpp: DLPack tensors of others as Views.
#pragma once

#include "host_bytes.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Memory of a DLPack producer as a View, where it lies. The View's Buffer owns the producer's tensor and calls its
/// deleter once, after all declared work has run. A View of this backend is answered as it is.
/// stream: a Stream, a foreign stream, or None; the producer's work is put before what is submitted to it, or, for
/// None, waited for. Memory that may be read only gives a read-only View, and so does a capsule of before
/// version 1, which cannot tell, unless an array interface of the producer does. TypeError for what is no producer or is
/// another backend's memory; ValueError for strided or unknown elements; BufferError for what is malformed, taken
/// already, or of a newer major version; and whatever the producer raises.
py::object from_dlpack(const py::object& obj, const py::object& stream);

bool is_dlpack_producer(const py::handle& obj);

/// The memory of a producer of the host's as bytes, and of any as the end of a copy on `stream`, of all elements that
/// are whole bytes. Both throw as from_dlpack and host_bytes do.
HostBytes dlpack_bytes(const py::handle& value, bool writable, const char* role);
Span dlpack_span(const py::handle& value, bool writable, const char* role, const std::shared_ptr<Stream>& stream);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
