// SPDX-License-Identifier: MIT
// python/strides.hpp: where the elements of a shape lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace portamem::python {

/// Returns the strides of C order, in bytes.
inline std::vector<std::size_t> c_strides(const std::size_t* extents, std::size_t ndim, std::size_t itemsize) {
    std::vector<std::size_t> strides(ndim);
    std::size_t bytes = itemsize;
    for (std::size_t i = ndim; i-- > 0;) {
        strides[i] = bytes;
        bytes *= extents[i];
    }
    return strides;
}

/// Returns whether elements lie in C order without gaps. The stride of an axis with one element does not matter. The
/// shape has elements.
template <class Number>
bool is_c_order(const Number* extents, const Number* strides, std::size_t ndim, Number itemsize) {
    Number expected = itemsize;
    for (std::size_t i = ndim; i-- > 0;) {
        if (extents[i] != 1 && strides[i] != expected) return false;
        expected *= extents[i];
    }
    return true;
}

/// Returns the bytes from the first element to the last; nothing where they cannot be counted. The shape has elements.
inline std::optional<std::size_t> reach(const std::size_t* extents, const std::vector<std::size_t>& strides,
                                        std::size_t itemsize) {
    std::size_t nbytes = itemsize;
    for (std::size_t i = 0; i < strides.size(); ++i) {
        std::size_t axis = 0;
        if (__builtin_mul_overflow(extents[i] - 1, strides[i], &axis) ||
            __builtin_add_overflow(nbytes, axis, &nbytes) || nbytes > static_cast<std::size_t>(PTRDIFF_MAX)) {
            return std::nullopt;
        }
    }
    return nbytes;
}

}  // namespace portamem::python
