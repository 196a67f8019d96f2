// SPDX-License-Identifier: MIT
// python/call_site.hpp: where in a Python program a call is made.
#pragma once

#include <cstddef>

namespace portamem::python {

/// Writes "file:line" of the innermost frame outside portamem that the calling thread is in, and answers 1; 0 where it
/// runs no Python. Without the GIL: of where it was given up, if that was noted (gil.hpp).
int provide_site(char* text, std::size_t size);

}  // namespace portamem::python
