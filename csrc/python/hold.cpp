// SPDX-License-Identifier: MIT
// python/hold.cpp: Python objects held by C++.
#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Runs with the GIL, or not at all.
template <class Function>
void with_gil(Function&& function) {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
        detail::stay_at_exit(function);
    } else if (!interpreter_is_going()) {
        const WithGil gil;
        detail::stay_at_exit(function);
    }
}

struct PythonBuffer {
    Py_buffer view{};
    ~PythonBuffer() {
        with_gil([this] { PyBuffer_Release(&view); });
    }
};

}  // namespace

void drop_keeper(const Allocation::Keeper& keeper) noexcept {
    with_gil([&keeper] {
        Py_DECREF(static_cast<PyObject*>(keeper.stream));
        Py_DECREF(static_cast<PyObject*>(keeper.resource));
    });
}

std::shared_ptr<void> hold(const py::object& object) {
    if (object.is_none()) return nullptr;
    PyObject* reference = object.inc_ref().ptr();
    return std::shared_ptr<void>(reference,
                                 [](void* held) { with_gil([held] { Py_DECREF(static_cast<PyObject*>(held)); }); });
}

py::object held_object(const std::shared_ptr<void>& held) {
    if (!held) return py::none();
    return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(held.get()));
}

HostBytes host_bytes(const py::handle& object, bool writable, const char* role) {
    if (PyObject_CheckBuffer(object.ptr()) == 0) {
        throw py::type_error(std::string(role) + " is a " + Py_TYPE(object.ptr())->tp_name +
                             ": take a Buffer, a View, a HostRegistration, or an object with the buffer protocol");
    }
    // Not through new and delete of a Py_buffer that was never filled: release only what was got.
    Py_buffer view{};
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_FULL_RO) != 0) throw py::error_already_set();
    auto owner = std::make_shared<PythonBuffer>();
    owner->view = view;
    if (PyBuffer_IsContiguous(&view, 'C') == 0) {
        throw py::value_error(std::string(role) + " is not C-contiguous: copy it with numpy.ascontiguousarray first");
    }
    if (writable && view.readonly != 0) {
        throw py::value_error(std::string(role) + " is read-only: give writable memory, such as a bytearray");
    }
    return {view.buf, static_cast<std::size_t>(view.len), owner};
}

void drop_gil_in_destructors() {
    portamem::detail::unlocked_hook() = [](void (*run)(void*), void* argument) {
        if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) {
            run(argument);
            return;
        }
        const WithoutGil nogil;
        run(argument);
    };
}

void stop_reaper_at_exit() {
    py::module_::import("atexit").attr("register")(py::cpp_function([] {
        const WithoutGil nogil;
        Reaper::instance().stop();
    }));
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
