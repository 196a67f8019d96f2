// SPDX-License-Identifier: MIT
// python/words.hpp: what Python's help() and inspect say of the module.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Gives the module's classes, their members and its functions the signatures and docstrings of portamem._words, which
/// are the stub's. The module calls it after everything is bound, and before refuse_in_words.
void say_in_words(const py::module_& m);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
