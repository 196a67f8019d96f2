// SPDX-License-Identifier: MIT
// python/host_bytes.hpp: the memory of the host's own objects, as bytes.
#pragma once

#include <optional>

#include "bindings.hpp"
#include "portamem/strided_span.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Holds the memory of an object, and a reference that keeps it in place.
struct HostBytes {
    void* ptr = nullptr;
    std::size_t nbytes = 0;
    std::shared_ptr<void> owner;
};

/// Returns the memory of an object with the buffer protocol, with __array_interface__, or with DLPack and in host
/// memory. Throws ValueError where it is read-only and `writable`, and for masked arrays. Throws TypeError where it has
/// no memory, or holds references to Python objects. `role` names the object in the message: "the source".
///
/// Memory that is not C-contiguous goes into `strided`, and what is returned is empty. With null it raises ValueError.
HostBytes host_bytes(const py::handle& object, bool writable, const char* role,
                     std::optional<StridedSpan>* strided = nullptr);

/// Throws ValueError for a masked array, and TypeError for one of references to Python objects, also where another
/// protocol of the object does not say so. Other objects pass.
void refuse_more_than_bytes(const py::handle& object, const char* role);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
