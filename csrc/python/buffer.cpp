// SPDX-License-Identifier: MIT
// python/buffer.cpp: Buffer and PitchedBuffer.
#include "convert.hpp"
#include "dlpack_methods.hpp"
#include "dlpack_table.hpp"
#include "event.hpp"
#include "fast/transfers.hpp"
#include "fastcall.hpp"
#include "foreign.hpp"
#include "hold.hpp"
#include "host_export.hpp"
#include "transfer.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

constexpr Spelling<rt::MemoryAdvise> kAdvice[] = {
    {"read_mostly", rt::MemoryAdvise::SetReadMostly},
    {"unset_read_mostly", rt::MemoryAdvise::UnsetReadMostly},
    {"preferred_location", rt::MemoryAdvise::SetPreferredLocation},
    {"unset_preferred_location", rt::MemoryAdvise::UnsetPreferredLocation},
    {"accessed_by", rt::MemoryAdvise::SetAccessedBy},
    {"unset_accessed_by", rt::MemoryAdvise::UnsetAccessedBy},
    {"coarse_grain", rt::MemoryAdvise::SetCoarseGrain},
    {"unset_coarse_grain", rt::MemoryAdvise::UnsetCoarseGrain},
};

constexpr Spelling<rt::MemRangeAttribute> kRangeAttributes[] = {
    {"read_mostly", rt::MemRangeAttribute::ReadMostly},
    {"preferred_location", rt::MemRangeAttribute::PreferredLocation},
    {"accessed_by", rt::MemRangeAttribute::AccessedBy},
    {"last_prefetch_location", rt::MemRangeAttribute::LastPrefetchLocation},
    {"coherency_mode", rt::MemRangeAttribute::CoherencyMode},
};

Buffer from_handle(const py::object& handle, const py::object& nbytes, const py::object& owner,
                   const py::object& device, const py::object& stream, const py::object& readonly) {
    const bool read_only = to_flag(readonly, "readonly");
    void* ptr = from_address(handle, "an address");
    const std::size_t size = to_size(nbytes);
    if (ptr == nullptr && size != 0) throw py::value_error("address 0 has no bytes: give the address of the memory");
    MemoryTraits traits = foreign_traits(ptr, device);
    traits.read_only = read_only;
    auto on = to_stream(stream);
    if (!on) on = Stream::default_stream(traits.device);
    return Buffer::from_handle(ptr, size, on, traits, hold(owner));
}

Buffer get_item(const Buffer& self, const py::object& key) {
    if (!py::isinstance<py::slice>(key)) {
        throw py::type_error("a part of a buffer is a slice of bytes; take view(dtype) for elements");
    }
    py::ssize_t start = 0, stop = 0, step = 0, count = 0;
    const auto length = static_cast<Py_ssize_t>(self.nbytes());
    if (!key.cast<py::slice>().compute(length, &start, &stop, &step, &count)) throw py::error_already_set();
    if (step != 1) throw py::value_error("a buffer is contiguous: a slice of it has step 1");
    return self.sub(static_cast<std::size_t>(start), static_cast<std::size_t>(count));
}

int buffer_getbuffer(PyObject* self, Py_buffer* view, int flags) {
    return get_py_buffer(self, view, flags, [self] {
        const Buffer& buffer = *buffer_of(self);
        const auto length = static_cast<Py_ssize_t>(buffer.nbytes());
        return HostExport{buffer.sub(0, buffer.nbytes()), "B", {length}, {1}, 1};
    });
}

py::object prefetch_to(const Buffer& self, const py::object& location, const py::object& stream) {
    const rt::Location where = to_location(location);
    const auto on = to_stream(stream);
    const Span span = Span::of(self);
    std::shared_ptr<Event> done;
    {
        const WithoutGil nogil;
        done = prefetch(span, where, on);
    }
    return to_python(std::move(done));
}

void advise_on(const Buffer& self, const py::object& advice, const py::object& location) {
    const auto what = from_text("advice", advice, kAdvice);
    const bool needs_location = what == rt::MemoryAdvise::SetPreferredLocation ||
                                what == rt::MemoryAdvise::SetAccessedBy || what == rt::MemoryAdvise::UnsetAccessedBy;
    if (location.is_none() && needs_location) {
        throw py::value_error("advice '" + to_text(what, kAdvice) +
                              "' needs a location: a Device, an ordinal or 'host'");
    }
    const rt::Location where =
        location.is_none() ? rt::Location{rt::LocationType::Device, self.traits().device} : to_location(location);
    const Span span = Span::of(self);
    const WithoutGil nogil;
    advise(span, what, where);
}

// Returns a location as prefetch and advise take it: an ordinal, "host", or None.
py::object location_to_python(int id) {
    if (id == rt::CpuDeviceId) return py::str("host");
    if (id < 0) return py::none();
    return py::int_(id);
}

py::object range_attribute_of(const Buffer& self, const py::object& name) {
    const auto which = from_text("an attribute", name, kRangeAttributes);
    std::vector<int> values;
    {
        const Span span = Span::of(self);
        const WithoutGil nogil;
        values = range_attribute(span, which);
    }
    if (which == rt::MemRangeAttribute::ReadMostly) return py::bool_(values.front() != 0);
    if (which == rt::MemRangeAttribute::CoherencyMode) return py::int_(values.front());
    if (which != rt::MemRangeAttribute::AccessedBy) return location_to_python(values.front());
    py::list devices;
    for (const int id : values) {
        if (id != rt::InvalidDeviceId) devices.append(location_to_python(id));
    }
    return devices;
}

// Closes on a stream. Two threads may close one object at once: each takes its own share of the memory under the GIL,
// waits without it, and takes the object apart under it again.
void close_on(Buffer& self, const std::shared_ptr<Stream>& stream) {
    const auto memory = self.shared();
    if (!memory) return;
    if (!self.is_sub_view()) {
        const WithoutGil nogil;
        memory->close(stream);
    }
    self.abandon();
}

// Changes the size. Another thread may close the object meanwhile: then the new memory goes back.
void reallocate_on(Buffer& self, const py::object& nbytes, const py::object& stream, const py::object& alignment) {
    const std::size_t size = to_size(nbytes);
    const std::size_t aligned = to_size(alignment, "alignment");
    const auto on = to_stream(stream);
    const auto old = portamem::detail::reallocatable(self);
    const std::size_t had = self.nbytes();
    std::shared_ptr<Allocation> made;
    {
        const WithoutGil nogil;
        made = portamem::detail::reallocated(old, had, size, on, aligned);
    }
    if (self.shared() == old) self = Buffer(std::move(made), size);
}

// The with block is written in Python.
py::object preferred_within(const py::object& self, const py::object& location) {
    if (buffer_of(self) == nullptr) throw py::type_error("preferred is a method of Buffers");
    return py::module_::import("portamem._advice").attr("preferred")(self, location);
}

// Python has the files.
void move_by_file(const char* how, const py::object& self, const py::object& file, const py::object& stream) {
    if (buffer_of(self) == nullptr) throw py::type_error(std::string(how) + " is a method of Buffers");
    py::module_::import("portamem._files").attr(how)(self, file, stream);
}

void save_to(const py::object& self, const py::object& file, const py::object& stream) {
    move_by_file("save", self, file, stream);
}

void load_from(const py::object& self, const py::object& file, const py::object& stream) {
    move_by_file("load", self, file, stream);
}

PyObject* close(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    if (nargs == 0 && keywords == nullptr && close_cached(*buffer_of(self))) Py_RETURN_NONE;
    return answer_python([&] {
        if (nargs == 0 && keywords == nullptr && close_unshared(*buffer_of(self))) return py::none().release().ptr();
        static const Parameters<1> parameters("close", 0, {"stream"});
        const auto [stream] = parameters.parse(args, nargs, keywords);
        close_on(*buffer_of(self), stream == nullptr ? nullptr : to_stream(stream));
        return py::none().release().ptr();
    });
}

PyObject* view(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return answer_python([&] {
        static const Parameters<3> parameters("view", 2, {"dtype", "shape", "offset"});
        static PyObject* const uint8 = PyUnicode_InternFromString("uint8");
        const auto [dtype, shape, offset] = parameters.parse(args, nargs, keywords);
        return to_python(make_view(self, dtype == nullptr ? uint8 : dtype, shape == nullptr ? Py_None : shape, offset,
                                   nullptr))
            .release()
            .ptr();
    });
}

PyObject* get_handle(PyObject* self, void*) {
    return answer_python([&] { return PyLong_FromVoidPtr(address_for_program(*buffer_of(self))); });
}

PyObject* get_nbytes(PyObject* self, void*) { return PyLong_FromSize_t(buffer_of(self)->nbytes()); }

PyObject* get_is_closed(PyObject* self, void*) { return PyBool_FromLong(buffer_of(self)->is_closed()); }

// Never hides the exception that ends the block: a buffer that cannot be closed goes with its last export.
void exit_block(Buffer& self, const py::object& exception) {
    if (portamem_forked() != 0 || close_cached(self)) return;
    if (exception.is_none()) {
        if (!close_unshared(self)) close_on(self, nullptr);
        return;
    }
    // The wait that Ctrl-C has ended is not begun again here.
    if (PyErr_GivenExceptionMatches(exception.ptr(), PyExc_KeyboardInterrupt) != 0) {
        const portamem::detail::HearingScope leaving(portamem::detail::Hearing::AtOnce);
        return self.abandon();
    }
    try {
        close_on(self, nullptr);
    } catch (const std::exception&) {
        keep_interrupt();
        self.abandon();
    }
}

}  // namespace

void register_buffer(py::module_& m) {
    static PyMethodDef methods[] = {
        fast_method<close>("close"),
        copy_to_method(),
        copy_from_method(),
        fast_method<view>("view"),
        dlpack_method(),
        dlpack_device_method(),
        dlpack_devices_method(),
        {nullptr, nullptr, 0, nullptr},
    };
    static PyGetSetDef attributes[] = {
        {"handle", get_handle, nullptr, nullptr, nullptr},
        {"nbytes", get_nbytes, nullptr, nullptr, nullptr},
        {"is_closed", get_is_closed, nullptr, nullptr, nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr},
    };
    PyTypeObject* made = make_buffer_type(methods, attributes, buffer_getbuffer);
    m.add_object("Buffer", reinterpret_cast<PyObject*>(made));
    install_exchange_table(made);
    PlainClass<Buffer> type(made);
    type.def_static("from_handle", &from_handle, py::arg("handle"), py::arg("nbytes"), py::kw_only(),
                    py::arg("owner") = py::none(), py::arg("device") = py::none(), py::arg("stream") = py::none(),
                    py::arg("readonly") = false)
        .def_property_readonly("device_id", [](const Buffer& b) { return b.traits().device_id(); })
        .def_property_readonly("device", [](const Buffer& b) { return Device(b.traits().device); })
        .def_property_readonly("stream", &Buffer::stream)
        .def_property_readonly("resource", &Buffer::resource)
        .def_property_readonly("owner",
                               [](const Buffer& b) {
                                   if (b.traits().kind != ResourceKind::Foreign) return py::object(py::none());
                                   return held_object(b.allocation()->owner());
                               })
        .def_property_readonly("backend", [](const Buffer&) { return rt::BackendName; })
        .def_property_readonly("kind", [](const Buffer& b) { return std::string(to_string(b.traits().kind)); })
        .def_property_readonly("is_host_accessible", [](const Buffer& b) { return b.traits().host_accessible; })
        .def_property_readonly("is_device_accessible", [](const Buffer& b) { return b.traits().device_accessible; })
        .def_property_readonly("readonly", [](const Buffer& b) { return b.traits().read_only; })
        .def_property_readonly("exports", &Buffer::exports)
        .def("prefetch", &prefetch_to, py::arg("location"), py::kw_only(), py::arg("stream") = py::none())
        .def("advise", &advise_on, py::arg("advice"), py::arg("location") = py::none())
        .def("range_attribute", &range_attribute_of, py::arg("name"))
        .def("preferred", &preferred_within, py::arg("location"))
        .def(
            "record_stream",
            [](const Buffer& b, const py::object& stream) {
                const auto on = to_stream(stream);
                if (!on) throw py::type_error("record_stream takes a Stream, not None");
                const auto memory = b.allocation();
                const WithoutGil nogil;
                memory->use_on(on);
            },
            py::arg("stream"))
        .def("reallocate", &reallocate_on, py::arg("nbytes"), py::kw_only(), py::arg("stream") = py::none(),
             py::arg("alignment") = MemoryResource::kAlignment)
        .def("save", &save_to, py::arg("file"), py::kw_only(), py::arg("stream") = py::none())
        .def("load", &load_from, py::arg("file"), py::kw_only(), py::arg("stream") = py::none())
        .def("release",
             [](Buffer& b) {
                 settle_unlocked(b);
                 return to_address(b.release());
             })
        .def("__len__", &Buffer::nbytes)
        .def("__bool__", [](const Buffer& b) { return !b.is_closed(); })
        .def("__getitem__", &get_item, py::arg("key"), py::pos_only())
        .def("__enter__", [](const py::object& self) { return self; })
        .def(
            "__exit__",
            [](Buffer& b, const py::object& exc_type, const py::object&, const py::object&) {
                exit_block(b, exc_type);
            },
            py::arg("exc_type"), py::arg("exc"), py::arg("tb"), py::pos_only())
        .def("__repr__", [](const Buffer& b) {
            const std::string what = b.is_closed() ? "closed" : std::string(to_string(b.traits().kind));
            return "<portamem." + std::string(rt::BackendName) + ".Buffer " + std::to_string(b.nbytes()) + " bytes, " +
                   what + ">";
        });
    define_array_refusal(type, [](const Buffer& b) -> const Buffer& { return b; });
    define_fill(type, [](Buffer& b) { return Span::of(b); });

    PyTypeObject* rows = make_pitched_buffer_type();
    m.add_object("PitchedBuffer", reinterpret_cast<PyObject*>(rows));
    PlainClass<PitchedBuffer>(rows)
        .def_property_readonly("width", &PitchedBuffer::width)
        .def_property_readonly("height", &PitchedBuffer::height)
        .def_property_readonly("pitch", &PitchedBuffer::pitch)
        .def("__repr__", [](const PitchedBuffer& b) {
            return "<portamem." + std::string(rt::BackendName) + ".PitchedBuffer " + std::to_string(b.height()) +
                   " rows of " + std::to_string(b.width()) + " bytes, pitch " + std::to_string(b.pitch()) +
                   (b.is_closed() ? ", closed>" : ">");
        });
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
