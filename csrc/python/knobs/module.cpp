// SPDX-License-Identifier: MIT
// python/knobs/module.cpp: portamem._knobs, the host runtime's own knobs, for tests and not for any backend's API.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "../main_interpreter.hpp"
#include "kernels.hpp"
#include "portamem/error.hpp"
#include "portamem/host/runtime_api.h"

namespace py = pybind11;

namespace {

void check(pmhError_t answer) {
    if (answer == pmhSuccess) return;
    portamem::refuse_forked();
    throw std::invalid_argument(pmhGetErrorString(answer));
}

void translate(std::exception_ptr thrown) {
    try {
        if (thrown) std::rethrow_exception(thrown);
    } catch (const portamem::Error& e) {
        const py::object type = py::module_::import("portamem.errors").attr("Error");
        const py::object error =
            type(e.what(), py::arg("code") = static_cast<int>(e.code()), py::arg("name") = e.name(),
                 py::arg("call") = e.call(), py::arg("backend") = portamem::rt::BackendName);
        PyErr_SetObject(type.ptr(), error.ptr());
    }
}

std::map<std::string, std::uintptr_t> kernel_addresses() {
    std::map<std::string, std::uintptr_t> addresses;
    for (const auto* kernels : {&portamem::knobs::memory_kernels(), &portamem::knobs::heap_kernels()})
        for (const auto& kernel : *kernels) addresses[kernel.name] = reinterpret_cast<std::uintptr_t>(kernel.function);
    return addresses;
}

}  // namespace

PORTAMEM_MODULE_OF_MAIN_INTERPRETER(_knobs, m) {
    portamem::python::refuse_other_interpreters();
    m.doc() = "Knobs of the CPU reference runtime, for tests.";
    py::register_local_exception_translator(&translate);
    m.def(
        "set_capacity", [](int device, std::size_t nbytes) { check(pmhKnobSetCapacity(device, nbytes)); },
        py::arg("device"), py::arg("nbytes"), "Bytes of a device from now on; what is out stays out.");
    m.def(
        "set_copy_delay", [](unsigned microseconds) { check(pmhKnobSetCopyDelay(microseconds)); },
        py::arg("microseconds"), "Every copy takes this much longer.");
    m.def(
        "fail_call",
        [](const std::optional<std::string>& call, unsigned nth, int code) {
            if (call && call->find('\0') != std::string::npos) throw py::value_error("a call's name has no NUL in it");
            check(pmhKnobFailCall(call ? call->c_str() : nullptr, nth, code));
        },
        py::arg("call"), py::arg("nth"), py::arg("code"),
        "The nth next call of that name (of any name for None) answers `code` and does nothing.");
    m.def(
        "kernels", [] { return kernel_addresses(); },
        "Addresses of the runtime's own kernels, by name, for pmhLaunchKernel.");
    m.def(
        "reset", [] { check(pmhKnobReset()); }, "Puts capacity, delay and failures back to what the environment says.");
}
