// SPDX-License-Identifier: MIT
// python/dlpack_contents.hpp: the contents of a producer's tensor, once every field of it has been checked.
#pragma once

#include "dlpack.hpp"
#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {
namespace dlpack {

struct Contents {
    void* ptr = nullptr;     ///< null where there are no elements
    std::size_t nbytes = 0;  ///< from the first element to the last
    std::size_t itemsize = 0;
    View::Shape shape;
    View::Shape strides;  ///< in bytes; empty for C order
};

/// Reads nothing behind the tensor's pointers but shape and strides, and these only where they can be there. Throws
/// ExportError for a malformed tensor: a dimension, an extent, an address, an offset or an element type that cannot be.
/// Throws std::invalid_argument for a well-made tensor of no use here: one with a negative stride, or whose elements
/// are not whole bytes. `is_padded` says that elements of less than a byte have one each.
Contents contents_of(const Tensor& tensor, bool is_padded);

}  // namespace dlpack
}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
