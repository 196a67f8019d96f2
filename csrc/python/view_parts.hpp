// SPDX-License-Identifier: MIT
// python/view_parts.hpp: Views of the same memory: parts of a View, and its elements in another shape.
#pragma once

#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Implements __getitem__: returns the part that ints, slices with a step from 1 on, None and an ellipsis name. Throws
/// IndexError for too many of them and for an int beyond its axis, and TypeError for other keys.
View part_of(const View& view, const py::object& key);

/// Returns the elements with the axes in the order given; reversed, where none is given.
View transposed(const View& view, const py::args& axes);

/// Returns the elements in another shape, given as one sequence or as several ints. One extent may be -1: what the
/// others leave.
View reshaped(const View& view, const py::args& shape);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
