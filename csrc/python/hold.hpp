// SPDX-License-Identifier: MIT
// python/hold.hpp: Python objects held by C++, and C++ objects let go by Python.
#pragma once

#include "bindings.hpp"
#include "portamem/detail/embedder.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Lets go of EmbedderRefs to two Python objects.
void drop_embedder_refs(const portamem::detail::EmbedderRefs& refs) noexcept;

/// Keeps a Python object alive for C++ code, which may let go on any thread. Once the interpreter is going down the
/// reference is leaked. Returns null for None.
std::shared_ptr<void> hold(const py::object& object);

/// Returns the object that hold() keeps; None for null.
py::object held_object(const std::shared_ptr<void>& held);

/// Returns the Python buffer of an object, released with its last reference in the same way. Throws what the object
/// raises.
std::shared_ptr<const Py_buffer> hold_buffer(const py::handle& object);

/// Lets destructors drop the GIL for calls that may block.
void drop_gil_in_destructors();

/// Ends the reaper before the interpreter takes itself down, because it may let go of Python objects.
void stop_reaper_at_exit();

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
