// SPDX-License-Identifier: MIT
// python/resources.hpp: memory of a resource as a Buffer object, for callers that name the resource themselves.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Returns a new Buffer object of the resource, which is in `object`. stream: as Python gives it, or null. Throws as
/// allocate.
PyObject* allocate_buffer(PyObject* object, MemoryResource& resource, std::size_t nbytes, PyObject* stream,
                          std::size_t alignment);

/// Returns the stream that memory is allocated on. The caller must name it for a stream-ordered resource, whose order
/// cannot be guessed.
std::shared_ptr<Stream> allocation_stream(const MemoryResource& resource, const py::handle& stream);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
