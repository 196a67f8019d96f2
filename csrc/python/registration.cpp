// SPDX-License-Identifier: MIT
// python/registration.cpp: HostRegistration.
#include "convert.hpp"
#include "host_bytes.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

std::shared_ptr<HostRegistration> make_registration(const py::object& object, const py::object& device, bool portable,
                                                    bool mapped, bool read_only) {
    const int ordinal = to_device(device).ordinal();
    HostBytes bytes = host_bytes(object, !read_only, "the memory to register");
    const unsigned flags = (portable ? rt::HostRegisterPortable : rt::HostRegisterDefault) |
                           (mapped ? rt::HostRegisterMapped : rt::HostRegisterDefault) |
                           (read_only ? rt::HostRegisterReadOnly : rt::HostRegisterDefault);
    const WithoutGil nogil;
    return std::make_shared<HostRegistration>(bytes.ptr, bytes.nbytes, ordinal, flags, bytes.owner);
}

void unregister(HostRegistration& self) {
    const WithoutGil nogil;
    self.close();
}

// Throws for a closed registration, whose memory is no longer page-locked.
const HostRegistration& registered(const HostRegistration& registration) {
    if (registration.is_closed()) throw std::invalid_argument("the registration is closed");
    return registration;
}

}  // namespace

void register_registration(py::module_& m) {
    py::class_<HostRegistration, std::shared_ptr<HostRegistration>>(m, "HostRegistration", py::is_final())
        .def(py::init(&make_registration), py::arg("obj"), py::kw_only(), py::arg("device") = py::none(),
             py::arg("portable") = true, py::arg("mapped") = true, py::arg("read_only") = false)
        .def_property_readonly("handle",
                               [](const HostRegistration& r) { return to_address(registered(r).buffer().ptr()); })
        .def_property_readonly("device_handle",
                               [](const HostRegistration& r) {
                                   const WithoutGil nogil;
                                   return to_address(registered(r).device_ptr());
                               })
        .def_property_readonly("nbytes", [](const HostRegistration& r) { return r.buffer().nbytes(); })
        .def_property_readonly("backend", [](const HostRegistration&) { return rt::BackendName; })
        .def_property_readonly("is_closed", &HostRegistration::is_closed)
        .def("close", &unregister)
        .def("__repr__",
             [](const HostRegistration& r) {
                 const std::string what = r.is_closed() ? "closed" : std::to_string(r.buffer().nbytes()) + " bytes";
                 return "<portamem." + std::string(rt::BackendName) + ".HostRegistration " + what + ">";
             })
        .def("__enter__", [](const py::object& self) { return self; })
        .def(
            "__exit__",
            [](HostRegistration& r, const py::object& exc_type, const py::object&, const py::object&) {
                if (portamem_forked() == 0) leave_block(exc_type, [&r] { unregister(r); });
            },
            py::arg("exc_type"), py::arg("exc"), py::arg("tb"), py::pos_only());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
