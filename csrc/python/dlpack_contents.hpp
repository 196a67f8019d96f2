// SPDX-License-Identifier: MIT
// python/dlpack_contents.hpp: the contents of a producer's tensor, once every field of it has been checked.
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
/// Throws std::invalid_argument for a well-made tensor of no use here: one that is not C-contiguous, or whose elements
/// are not whole bytes.
Contents contents_of(const Tensor& tensor);

}  // namespace dlpack
}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
