// SPDX-License-Identifier: MIT
// python/hold.cpp: Python objects held by C++.
#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Runs with the GIL, or not at all.
template <class Function>
void with_gil(Function&& function) {
    if (Py_IsInitialized() != 0 && holds_gil()) {
        const PendingErrorKept pending;
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

void drop_embedder_refs(const portamem::detail::EmbedderRefs& refs) noexcept {
    with_gil([&refs] {
        Py_DECREF(static_cast<PyObject*>(refs.stream));
        Py_DECREF(static_cast<PyObject*>(refs.resource));
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

std::shared_ptr<const Py_buffer> hold_buffer(const py::handle& object) {
    // The Py_buffer stays where it is, because shape and strides of a view may point into the view itself. If getting
    // the view fails it has no object, and its release does nothing.
    auto owner = std::make_shared<PythonBuffer>();
    if (PyObject_GetBuffer(object.ptr(), &owner->view, PyBUF_FULL_RO) != 0) throw py::error_already_set();
    return {owner, &owner->view};
}

void drop_gil_in_destructors() {
    portamem::detail::embedder().unlocked = [](void (*run)(void*), void* argument) {
        if (Py_IsInitialized() == 0 || !holds_gil()) {
            const portamem::detail::HearingScope deaf(portamem::detail::Hearing::Nothing);
            run(argument);
            return;
        }
        using portamem::detail::Hearing;
        const bool is_at_once = portamem::detail::hearing() == Hearing::AtOnce;
        const WithoutGil nogil(is_at_once ? Hearing::AtOnce : hearing_in_calls(Hearing::Dropping));
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
