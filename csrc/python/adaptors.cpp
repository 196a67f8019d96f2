// SPDX-License-Identifier: MIT
// python/adaptors.cpp: resources that add something to another resource.
#include "callbacks.hpp"
#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

FailureCallbackAdaptor::Callback to_failure_callback(const py::object& callback) {
    if (PyCallable_Check(callback.ptr()) == 0) {
        throw py::type_error(std::string("the callback is a function of a number of bytes, not ") +
                             type_name(callback));
    }
    return [held = hold(callback)](std::size_t nbytes) {
        return call_python([&] {
            const py::object again = call(held_object(held), nbytes);
            if (PyBool_Check(again.ptr())) return again.ptr() == Py_True;
            throw py::type_error(std::string("the failure callback answers True (try again) or False, not ") +
                                 type_name(again));
        });
    };
}

std::optional<rt::Location> to_prefetch_location(const py::object& location) {
    if (location.is_none()) return std::nullopt;
    return to_location(location);
}

py::object prefetch_location(const PrefetchAdaptor& self) {
    if (!self.location()) return py::none();
    switch (self.location()->type) {
        case rt::LocationType::Device:
            return py::int_(self.location()->id);
        case rt::LocationType::HostNuma:
            return py::str("host_numa:" + std::to_string(self.location()->id));
        case rt::LocationType::HostNumaCurrent:
            return py::str("host_numa_current");
        default:
            return py::str("host");
    }
}

}  // namespace

void register_adaptors(py::module_& m) {
    py::class_<ResourceAdaptor, std::shared_ptr<ResourceAdaptor>, MemoryResource>(m, "ResourceAdaptor")
        .def_property_readonly("upstream", &ResourceAdaptor::upstream);

    py::class_<LimitingAdaptor, std::shared_ptr<LimitingAdaptor>, ResourceAdaptor>(m, "LimitingAdaptor", py::is_final())
        .def(py::init([](const py::object& upstream, const py::object& limit) {
                 return std::make_shared<LimitingAdaptor>(to_upstream(upstream), to_size(limit, "limit"));
             }),
             py::arg("upstream"), py::arg("limit"))
        .def_property_readonly("limit", &LimitingAdaptor::limit)
        .def_property_readonly("allocated", &LimitingAdaptor::allocated)
        .def_property_readonly("available", &LimitingAdaptor::available);

    py::class_<FailureCallbackAdaptor, std::shared_ptr<FailureCallbackAdaptor>, ResourceAdaptor>(
        m, "FailureCallbackAdaptor", py::is_final())
        .def(py::init([](const py::object& upstream, const py::object& callback) {
                 return std::make_shared<FailureCallbackAdaptor>(to_upstream(upstream), to_failure_callback(callback));
             }),
             py::arg("upstream"), py::arg("callback"));

    py::class_<FallbackAdaptor, std::shared_ptr<FallbackAdaptor>, ResourceAdaptor>(m, "FallbackAdaptor", py::is_final())
        .def(py::init([](const py::object& upstream, const py::object& alternate) {
                 return std::make_shared<FallbackAdaptor>(to_upstream(upstream), to_upstream(alternate, "alternate"));
             }),
             py::arg("upstream"), py::arg("alternate"))
        .def_property_readonly("alternate", &FallbackAdaptor::alternate)
        .def_property_readonly("alternate_live_buffers", &FallbackAdaptor::alternate_live_buffers)
        .def_property_readonly("alternate_live_bytes", &FallbackAdaptor::alternate_live_bytes);

    py::class_<PrefetchAdaptor, std::shared_ptr<PrefetchAdaptor>, ResourceAdaptor>(m, "PrefetchAdaptor", py::is_final())
        .def(py::init([](const py::object& upstream, const py::object& location) {
                 return std::make_shared<PrefetchAdaptor>(to_upstream(upstream), to_prefetch_location(location));
             }),
             py::arg("upstream"), py::arg("location") = py::none())
        .def_property_readonly("location", &prefetch_location);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
