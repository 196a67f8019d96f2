// SPDX-License-Identifier: MIT
// python/call_site.hpp: where in a Python program a call is made.
#pragma once

#include <cstddef>

namespace portamem::python {

/// Writes "file:line" of the calling thread's innermost frame outside portamem, and returns 1; returns 0 where the
/// thread runs no Python. Without the GIL it gives the site where the GIL was given up, if that was noted (gil.hpp).
int provide_site(char* text, std::size_t size);

}  // namespace portamem::python
