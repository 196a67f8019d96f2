// SPDX-License-Identifier: MIT
// python/stream.cpp: Stream.
#include "convert.hpp"
#include "event.hpp"
#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Returns the handle as text, for any stream, also for one that another thread closes meanwhile.
std::string text_of_handle(const Stream& stream) {
    try {
        return std::to_string(to_address(stream.handle()));
    } catch (const std::invalid_argument&) {
        return stream.is_elsewhere() ? "of another thread" : "closed";
    }
}

constexpr Spelling<rt::StreamCaptureMode> kCaptureModes[] = {
    {"global", rt::StreamCaptureMode::Global},
    {"thread_local", rt::StreamCaptureMode::ThreadLocal},
    {"relaxed", rt::StreamCaptureMode::Relaxed},
};

constexpr Spelling<rt::StreamCaptureStatus> kCaptureStatus[] = {
    {"none", rt::StreamCaptureStatus::None},
    {"active", rt::StreamCaptureStatus::Active},
    {"invalidated", rt::StreamCaptureStatus::Invalidated},
};

std::shared_ptr<Stream> make_stream(const py::object& device, bool nonblocking, std::optional<int> priority) {
    const int ordinal = to_device(device).ordinal();
    const WithoutGil nogil;
    return Stream::create(ordinal, nonblocking ? rt::StreamNonBlocking : rt::StreamDefault, priority.value_or(0));
}

void wait(Stream& self, const py::object& other) {
    if (py::isinstance<ClosableEvent>(other)) {
        const auto event = other.cast<ClosableEvent>().open();
        const WithoutGil nogil;
        self.wait(*event);
        return;
    }
    const auto stream = to_stream(other);
    if (!stream) throw py::type_error("a stream waits for an Event or a Stream, not for None");
    const WithoutGil nogil;
    self.wait(*stream);
}

py::object record(Stream& self, const py::object& event) {
    if (event.is_none()) {
        std::shared_ptr<Event> made;
        {
            const WithoutGil nogil;
            (void)self.handle();  // refuses a closed stream before anything is made
            made = Event::create_to_record(self.device());
            self.record(*made);
        }
        return to_python(std::move(made));
    }
    if (!py::isinstance<ClosableEvent>(event)) throw py::type_error("record takes an Event or None");
    const auto given = event.cast<ClosableEvent&>().open();
    {
        const WithoutGil nogil;
        self.record(*given);
    }
    return event;
}

// Is called on a thread of the runtime. An exception has nowhere to go but sys.unraisablehook.
void call_python(void* function) {
    if (interpreter_is_going()) return;
    const portamem::detail::InHostFunction inside;
    const WithGil gil;
    auto* callable = static_cast<PyObject*>(function);
    // The interpreter may go down while the callable waits: this thread then ends here, with the GIL gone.
    detail::stay_at_exit([callable] {
        PyObject* result = PyObject_CallNoArgs(callable);
        if (result == nullptr) PyErr_WriteUnraisable(callable);
        Py_XDECREF(result);
        Py_DECREF(callable);
    });
}

void launch_host_func(const Stream& self, const py::object& fn) {
    if (PyCallable_Check(fn.ptr()) == 0) throw py::type_error("launch_host_func takes a callable without arguments");
    // Each replay of the graph would run a captured callable, and its reference serves one run.
    PyObject* callable = fn.inc_ref().ptr();
    try {
        const WithoutGil nogil;
        self.refuse_capture("launch_host_func");
        self.launch_host_func(call_python, callable);
    } catch (...) {
        Py_DECREF(callable);
        throw;
    }
}

// Drops the GIL for calls that only ask, too: the runtime may be in a lock whose holder waits for a function of
// launch_host_func.
template <auto Method>
auto unlocked(Stream& self) {
    const WithoutGil nogil;
    return (self.*Method)();
}

// Returns the device of a bare handle: the one that the caller names, or else the one that the runtime tells, or else
// the current one. Throws ValueError where the runtime tells another than is named.
int device_named(rt::Stream_t handle, const py::object& named) {
    const std::optional<int> told = device_of_stream(handle);
    if (named.is_none() && told) return *told;
    const int ordinal = to_device(named).ordinal();
    if (!told || *told == ordinal) return ordinal;
    throw py::value_error("the handle is that of a stream of device " + std::to_string(*told) + ", not of device " +
                          std::to_string(ordinal) + ": name the stream's device, or none");
}

}  // namespace

void register_stream(py::module_& m) {
    py::class_<Stream, std::shared_ptr<Stream>>(m, "Stream", py::is_final())
        .def(py::init(&make_stream), py::arg("device") = py::none(), py::kw_only(), py::arg("nonblocking") = true,
             py::arg("priority") = py::none())
        .def_static(
            "from_handle",
            [](const py::object& handle, const py::object& device, const py::object& owner, bool ends_announced) {
                auto* native = static_cast<rt::Stream_t>(from_address(handle, "a stream handle"));
                const int ordinal = device_named(native, device);
                if (owner.is_none() && !ends_announced) return Stream::from_handle_alone(native, ordinal);
                return Stream::from_handle(native, ordinal, hold(owner), ends_announced);
            },
            py::arg("handle"), py::kw_only(), py::arg("device") = py::none(), py::arg("owner") = py::none(),
            py::arg("ends_announced") = false)
        .def_static(
            "wrap",
            [](const py::object& obj) {
                if (py::isinstance<Stream>(obj)) return obj.cast<std::shared_ptr<Stream>>();
                return wrap_stream(obj);
            },
            py::arg("obj"))
        .def_property_readonly("handle", [](const Stream& s) { return to_address(s.handle()); })
        .def_property_readonly("identity", &Stream::identity)
        .def_property_readonly("device", [](const Stream& s) { return Device(s.device()); })
        .def_property_readonly("backend", [](const Stream&) { return rt::BackendName; })
        .def_property_readonly("priority", &unlocked<&Stream::priority>)
        .def_property_readonly("is_nonblocking", &unlocked<&Stream::is_nonblocking>)
        .def_property_readonly("is_default", &Stream::is_default)
        .def_property_readonly("is_closed", &Stream::is_closed)
        .def_property_readonly("capture_status",
                               [](Stream& s) { return to_text(unlocked<&Stream::capture_status>(s), kCaptureStatus); })
        .def(
            "begin_capture",
            [](const Stream& s, const py::object& mode) {
                const auto how = from_text("a mode", mode, kCaptureModes);
                const WithoutGil nogil;
                s.begin_capture(how);
            },
            py::arg("mode") = "global")
        .def("end_capture", &Stream::end_capture, py::call_guard<WithoutGil>())
        .def("query", &unlocked<&Stream::query>)
        .def("synchronize", &unlocked<&Stream::synchronize>)
        .def("wait", &wait, py::arg("other"))
        .def("record", &record, py::arg("event") = py::none())
        .def("launch_host_func", &launch_host_func, py::arg("fn"))
        .def("close", &unlocked<&Stream::close>)
        .def("__cuda_stream__", [](const Stream& s) { return py::make_tuple(0, to_address(s.handle())); })
        .def("__enter__", [](const py::object& self) { return self; })
        .def(
            "__exit__",
            [](Stream& s, const py::object& exc_type, const py::object&, const py::object&) {
                if (portamem_forked() != 0) return;  // a child leaks what it inherits, in silence
                leave_block(exc_type, [&s] { unlocked<&Stream::close>(s); });
            },
            py::arg("exc_type"), py::arg("exc"), py::arg("tb"), py::pos_only())
        .def(
            "__eq__",
            [](const std::shared_ptr<Stream>& a, const py::object& b) {
                return py::isinstance<Stream>(b) && a->identity() == b.cast<std::shared_ptr<Stream>>()->identity();
            },
            py::arg("other"), py::pos_only())
        .def("__hash__", [](const Stream& s) { return s.identity(); })
        .def("__repr__", [](const Stream& s) {
            return "<portamem." + std::string(rt::BackendName) + ".Stream " + text_of_handle(s) + " on device " +
                   std::to_string(s.device()) + ">";
        });
    remember_stream_type();
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
