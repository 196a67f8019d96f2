// SPDX-License-Identifier: MIT
// python/forks.cpp: how much of its parent's memory a child of os.fork may read.
#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

// Runs before the fork itself: the C library's own handlers may run while the runtime's are under way, and hold its
// locks.
void note_before_forks() {
    const py::cpp_function note([] {
        const WithoutGil nogil(portamem::detail::Hearing::Nothing);
        portamem::detail::note_what_has_run();
    });
    py::module_::import("os").attr("register_at_fork")(py::arg("before") = note);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
