// SPDX-License-Identifier: MIT
// python/dlpack_import.hpp: DLPack tensors of others as Views.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Memory of a DLPack producer as a View, where it lies. The View's Buffer owns the producer's tensor and calls its
/// deleter once, after all declared work has run. A View of this backend is answered as it is.
/// stream: a Stream, a foreign stream, or None; the producer's work is put before what is submitted to it, or, for
/// None, waited for. TypeError for what is no producer or is another backend's memory; ValueError for read-only,
/// strided or unknown elements; BufferError for a newer major version; and whatever the producer raises.
py::object from_dlpack(const py::object& obj, const py::object& stream);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
