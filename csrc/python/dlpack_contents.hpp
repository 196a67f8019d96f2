// SPDX-License-Identifier: MIT
// python/dlpack_contents.hpp: what a producer's tensor holds, once every field of it has been checked.
#pragma once

#include "dlpack.hpp"
#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {
namespace dlpack {

struct Contents {
    void* ptr = nullptr;  ///< null where there are no elements
    std::size_t nbytes = 0;
    View::Shape shape;
};

/// Reads nothing behind the tensor's pointers but shape and strides, and these only where they can be there. Throws
/// ExportError for a malformed tensor: a dimension, an extent, an address, an offset or an element type that cannot be.
/// Throws std::invalid_argument for one that is well made and of no use here: not C-contiguous, or of elements of no
/// whole bytes.
Contents contents_of(const Tensor& tensor);

}  // namespace dlpack
}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
