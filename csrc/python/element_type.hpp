// SPDX-License-Identifier: MIT
// python/element_type.hpp: what the elements of a View are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Represents an element type, in the spellings of each protocol. There is one object for each, which is kept for good.
struct ElementType {
    std::string name;     ///< NumPy's, or ml_dtypes': float32
    std::string typestr;  ///< the array interfaces': <f4
    std::string format;   ///< the buffer protocol's: f; empty where neither protocol can name the type
    std::size_t itemsize = 1;
    std::uint8_t code = 0;  ///< DLPack's
    std::uint8_t bits = 8;
    mutable PyObject* dtype = nullptr;  ///< what numpy_dtype() has answered

    /// Returns whether an element is of less than a byte, and has a byte of its own.
    bool is_padded() const noexcept { return bits < 8; }
};

/// Returns the element type that a Python value means, by portamem._dtypes. It needs the GIL, as do those below.
const ElementType& to_element_type(const py::handle& dtype);

/// Returns the element type that DLPack means. Throws ValueError for one that is none here.
const ElementType& element_type_of_dlpack(unsigned code, unsigned bits, unsigned lanes);

/// Returns its numpy.dtype. Throws ImportError for a type that only ml_dtypes gives to NumPy, where that is missing.
py::object numpy_dtype(const ElementType& type);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
