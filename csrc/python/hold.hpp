// SPDX-License-Identifier: MIT
// python/hold.hpp: Python objects held by C++, and C++ objects let go by Python.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Keeps a Python object alive for C++ code, which may let go on any thread. Once the interpreter is going down the
/// reference is leaked. Null for None.
std::shared_ptr<void> hold(const py::object& object);

/// The object that hold() keeps; None for null.
py::object held_object(const std::shared_ptr<void>& held);

/// The memory of an object with the buffer protocol, and the Python buffer that keeps it in place.
struct HostBytes {
    void* ptr = nullptr;
    std::size_t nbytes = 0;
    std::shared_ptr<void> owner;
};

/// Throws ValueError where it is not C-contiguous, or read-only and `writable`; TypeError where it has no memory.
/// `role` names the object in the message: "the source".
HostBytes host_bytes(const py::handle& object, bool writable, const char* role);

/// Calls a function without the GIL, on a thread that may hold it or not.
template <class Function>
void run_without_gil(Function&& function) {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
        const WithoutGil nogil;
        function();
    } else {
        function();
    }
}

/// Deletes without the GIL: what goes may have to wait for work that needs it.
struct DeleteWithoutGil {
    template <class T>
    void operator()(T* object) const {
        run_without_gil([object] { delete object; });
    }
};

/// An object for Python whose last reference goes without the GIL.
template <class T, class... Args>
std::shared_ptr<T> make_for_python(Args&&... args) {
    return std::shared_ptr<T>(new T(std::forward<Args>(args)...), DeleteWithoutGil{});
}

/// Ends the reaper before the interpreter takes itself down: it may let go of Python objects.
void stop_reaper_at_exit();

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
