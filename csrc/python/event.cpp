// SPDX-License-Identifier: MIT
// python/event.cpp: Event.
#include "event.hpp"

#include "convert.hpp"
#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

ClosableEvent make_event(const py::object& device, bool timing, bool blocking) {
    const int ordinal = to_device(device).ordinal();
    const unsigned flags =
        (timing ? rt::EventDefault : rt::EventDisableTiming) | (blocking ? rt::EventBlockingSync : rt::EventDefault);
    const WithoutGil nogil;
    return {Event::create(ordinal, flags)};
}

bool query(const ClosableEvent& self) {
    const auto event = self.open();
    const WithoutGil nogil;
    return event->query();
}

}  // namespace

void register_event(py::module_& m) {
    py::class_<ClosableEvent>(m, "Event", py::is_final())
        .def(py::init(&make_event), py::arg("device") = py::none(), py::kw_only(), py::arg("timing") = false,
             py::arg("blocking") = false)
        .def_static(
            "from_handle",
            [](const py::object& handle, const py::object& device, const py::object& owner) {
                auto* native = static_cast<rt::Event_t>(from_address(handle, "an event handle"));
                if (native == nullptr)
                    throw py::value_error("an event handle cannot be 0: give the handle of an event");
                return ClosableEvent{Event::from_handle(native, to_device(device).ordinal(), hold(owner))};
            },
            py::arg("handle"), py::kw_only(), py::arg("device") = py::none(), py::arg("owner") = py::none())
        .def_static(
            "wrap",
            [](const py::object& obj, const py::object& device) {
                if (py::isinstance<ClosableEvent>(obj)) return obj.cast<ClosableEvent>();
                const py::object handle =
                    py::module_::import("portamem._foreign").attr("event_handle")(obj, rt::BackendName);
                auto* native = static_cast<rt::Event_t>(from_address(handle, "an event handle"));
                return ClosableEvent{Event::from_handle(native, to_device(device).ordinal(), hold(obj))};
            },
            py::arg("obj"), py::kw_only(), py::arg("device") = py::none())
        .def_property_readonly("handle", [](const ClosableEvent& e) { return to_address(e.open()->handle()); })
        .def_property_readonly("device", [](const ClosableEvent& e) { return Device(e.open()->device()); })
        .def_property_readonly("is_closed", [](const ClosableEvent& e) { return !e.event; })
        .def_property_readonly("is_done", &query)
        .def("query", &query)
        .def(
            "record",
            [](const ClosableEvent& self, const py::object& on) {
                const auto event = self.open();
                auto stream = to_stream(on);
                if (!stream) stream = Stream::default_stream(event->device());
                const WithoutGil nogil;
                stream->record(*event);
            },
            py::arg("stream") = py::none())
        .def("synchronize",
             [](const ClosableEvent& self) {
                 const auto event = self.open();
                 const WithoutGil nogil;
                 event->synchronize();
             })
        .def(
            "elapsed_time",
            [](const ClosableEvent& self, const ClosableEvent& end) {
                const auto first = self.open();
                const auto last = end.open();
                const WithoutGil nogil;
                return first->elapsed_time(*last);
            },
            py::arg("end"))
        .def("close", [](ClosableEvent& self) { self.event.reset(); })
        .def("__repr__",
             [](const ClosableEvent& e) {
                 const std::string what = e.event ? std::to_string(to_address(e.event->handle())) + " on device " +
                                                        std::to_string(e.event->device())
                                                  : std::string("closed");
                 return "<portamem." + std::string(rt::BackendName) + ".Event " + what + ">";
             })
        .def("__enter__", [](const py::object& self) { return self; })
        .def(
            "__exit__",
            [](ClosableEvent& self, const py::object&, const py::object&, const py::object&) { self.event.reset(); },
            py::arg("exc_type"), py::arg("exc"), py::arg("tb"), py::pos_only());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
