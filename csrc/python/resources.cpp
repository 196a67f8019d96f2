// SPDX-License-Identifier: MIT
// python/resources.cpp: MemoryResource and the resources over one vendor call each.
#include "resources.hpp"
#include "convert.hpp"
#include "fastcall.hpp"
#include "hold.hpp"

#include "portamem/mr/detail/bytes_text.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using Resource = std::shared_ptr<MemoryResource>;

// Makes a Buffer without the GIL, because allocating may wait.
template <class T, class... Args>
T unlocked_buffer(Args&&... args) {
    const WithoutGil nogil;
    return T(std::forward<Args>(args)...);
}

PyObject* allocate(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return answer_python([&]() -> PyObject* {
        static const Parameters<3> parameters("allocate", 1, {"nbytes", "stream", "alignment"});
        const auto [nbytes, stream, alignment] = parameters.parse(args, nargs, keywords);
        if (nbytes == nullptr) parameters.missing(0);
        const std::size_t size = to_size(nbytes);
        auto* known = value_of<MemoryResource>(self);
        if (known == nullptr)
            throw py::type_error("the resource was made without its __init__: call its class instead of __new__");
        const std::size_t aligned = alignment == nullptr ? MemoryResource::kAlignment : to_size(alignment, "alignment");
        return allocate_buffer(self, *known, size, stream, aligned);
    });
}

void deallocate(const Resource& self, const py::object& ptr, const py::object& nbytes, const py::object& stream) {
    void* address = from_address(ptr, "an address");
    const std::optional<std::size_t> size = nbytes.is_none() ? std::nullopt : std::optional(to_size(nbytes));
    auto on = to_stream(stream);
    if (!on) on = Stream::default_stream(self->device());
    const WithoutGil nogil;
    if (size) {
        self->deallocate(address, *size, on);
    } else {
        self->deallocate(address, on);
    }
}

std::optional<std::size_t> size_of(const MemoryResource& self, const py::object& ptr) {
    const void* address = from_address(ptr, "an address");
    const WithoutGil nogil;
    return self.size_of(address);
}

// Drops the GIL, because the thread that has the resource's lock may be waiting for it.
std::optional<std::size_t> cached_bytes(const MemoryResource& self) {
    refuse_forked();
    const WithoutGil nogil;
    return self.cached();
}

PitchedBuffer allocate_pitched(const std::shared_ptr<DeviceMemoryResource>& self, const py::object& width,
                               const py::object& height, const py::object& stream) {
    const std::size_t w = to_size(width, "width");
    const std::size_t h = to_count(height, "height");
    if (h != 0 && w > static_cast<std::size_t>(PTRDIFF_MAX) / h) {
        throw py::value_error(std::to_string(h) + " rows of " + std::to_string(w) +
                              " bytes are larger than any memory");
    }
    auto on = allocation_stream(*self, stream);
    return unlocked_buffer<PitchedBuffer>(self, w, h, std::move(on));
}

void close_resource(MemoryResource& self) {
    const WithoutGil nogil;
    self.close();
}

constexpr Spelling<rt::MemAttach> kAttach[] = {{"global", rt::MemAttach::Global}, {"host", rt::MemAttach::Host}};

void define_allocate(const py::handle& type) {
    static PyMethodDef definition = fast_method<allocate>("allocate");
    auto* of = reinterpret_cast<PyTypeObject*>(type.ptr());
    type.attr("allocate") = py::reinterpret_steal<py::object>(PyDescr_NewMethod(of, &definition));
    for (const py::handle derived : type.attr("__subclasses__")()) define_allocate(derived);
}

// The classes of the resources below, from the upstream down.
std::string text_of_upstreams(const py::object& resource) {
    std::string text;
    for (py::object at = resource; py::hasattr(at, "upstream");) {
        at = at.attr("upstream");
        text += " over " + type_name(at);
    }
    return text;
}

// Asks no runtime and waits for no work: it is also for a line of a log while something else goes wrong.
std::string repr_of(const py::object& self) {
    const auto& r = self.cast<const MemoryResource&>();
    const std::string kind = r.kind() == ResourceKind::Device ? "" : std::string(to_string(r.kind())) + " memory of ";
    return "<" + public_module() + "." + type_name(self) + text_of_upstreams(self) + ", " + kind + "device " +
           std::to_string(r.device()) + ", " +
           (r.is_closed() ? "closed" : portamem::detail::bytes_text(r.live_bytes()) + " out") + ">";
}

void register_base(py::module_& m) {
    py::class_<MemoryResource, Resource> type(m, "MemoryResource");
    type.def("deallocate", &deallocate, py::arg("ptr"), py::arg("nbytes") = py::none(), py::kw_only(),
             py::arg("stream") = py::none())
        .def("size_of", &size_of, py::arg("ptr"))
        .def_property_readonly("device", [](const MemoryResource& r) { return Device(r.device()); })
        .def_property_readonly("device_id", &MemoryResource::device_id)
        .def_property_readonly("backend", [](const MemoryResource&) { return rt::BackendName; })
        .def_property_readonly("kind", [](const MemoryResource& r) { return std::string(to_string(r.kind())); })
        .def_property_readonly("is_host_accessible", &MemoryResource::is_host_accessible)
        .def_property_readonly("is_device_accessible", &MemoryResource::is_device_accessible)
        .def_property_readonly("is_stream_ordered", &MemoryResource::is_stream_ordered)
        .def_property_readonly("is_closed", &MemoryResource::is_closed)
        .def_property_readonly("live_buffers", &MemoryResource::live_buffers)
        .def_property_readonly("live_bytes", &MemoryResource::live_bytes)
        .def_property_readonly("cached", &cached_bytes)
        .def("close", &close_resource)
        .def("__enter__", [](const py::object& self) { return self; })
        .def(
            "__exit__",
            [](MemoryResource& r, const py::object& exc_type, const py::object&, const py::object&) {
                if (portamem_forked() != 0 || r.is_permanent()) return;
                leave_block(exc_type, [&r] { close_resource(r); });
            },
            py::arg("exc_type"), py::arg("exc"), py::arg("tb"), py::pos_only())
        .def("__repr__", &repr_of);
}

}  // namespace

std::shared_ptr<Stream> allocation_stream(const MemoryResource& resource, const py::handle& stream) {
    auto on = to_stream(stream);
    if (on) return on;
    if (resource.is_stream_ordered()) {
        throw py::type_error(
            "stream-ordered memory needs a stream: allocate(nbytes, stream=...); "
            "device.default_stream is one");
    }
    return Stream::default_stream(resource.device());
}

PyObject* allocate_buffer(PyObject* object, MemoryResource& resource, std::size_t nbytes, PyObject* stream,
                          std::size_t alignment) {
    if (const auto* held = stream == nullptr ? nullptr : stream_in(stream)) {
        if (PyObject* made = cached_buffer(object, resource, nbytes, stream, *held, alignment)) return made;
        if (PyObject* made = unshared_buffer(object, resource, nbytes, stream, *held, alignment)) return made;
    }
    auto on = allocation_stream(resource, stream == nullptr ? py::none() : py::handle(stream));
    return to_python(unlocked_buffer<Buffer>(resource.shared_from_this(), nbytes, std::move(on), alignment))
        .release()
        .ptr();
}

void give_each_resource_its_allocate() { define_allocate(py::type::of<MemoryResource>()); }

void register_resources(py::module_& m) {
    register_base(m);

    py::class_<DeviceMemoryResource, std::shared_ptr<DeviceMemoryResource>, MemoryResource>(m, "DeviceMemoryResource",
                                                                                            py::is_final())
        .def(py::init([](const py::object& device, const py::object& coherence) {
                 const auto choice = from_text("coherence", coherence, kCoherence);
                 return std::make_shared<DeviceMemoryResource>(to_device(device).ordinal(), choice);
             }),
             py::arg("device") = py::none(), py::kw_only(), py::arg("coherence") = "default")
        .def_property_readonly("coherence",
                               [](const DeviceMemoryResource& r) { return to_text(r.coherence(), kCoherence); })
        .def("allocate_pitched", &allocate_pitched, py::arg("width"), py::arg("height"), py::kw_only(),
             py::arg("stream") = py::none());

    py::class_<PinnedMemoryResource, std::shared_ptr<PinnedMemoryResource>, MemoryResource>(m, "PinnedMemoryResource",
                                                                                            py::is_final())
        .def(py::init([](const py::object& device, bool portable, bool mapped, bool write_combined,
                         const py::object& coherence) {
                 const auto choice = from_text("coherence", coherence, kCoherence);
                 const unsigned flags = (portable ? rt::HostMallocPortable : rt::HostMallocDefault) |
                                        (mapped ? rt::HostMallocMapped : rt::HostMallocDefault) |
                                        (write_combined ? rt::HostMallocWriteCombined : rt::HostMallocDefault);
                 return std::make_shared<PinnedMemoryResource>(to_device(device).ordinal(), flags, choice);
             }),
             py::arg("device") = py::none(), py::kw_only(), py::arg("portable") = true, py::arg("mapped") = true,
             py::arg("write_combined") = false, py::arg("coherence") = "default")
        .def_property_readonly("coherence",
                               [](const PinnedMemoryResource& r) { return to_text(r.coherence(), kCoherence); });

    py::class_<ManagedMemoryResource, std::shared_ptr<ManagedMemoryResource>, MemoryResource>(
        m, "ManagedMemoryResource", py::is_final())
        .def(py::init([](const py::object& device, const py::object& attach) {
                 const auto choice = from_text("attach", attach, kAttach);
                 return std::make_shared<ManagedMemoryResource>(to_device(device).ordinal(), choice);
             }),
             py::arg("device") = py::none(), py::kw_only(), py::arg("attach") = "global");

    py::class_<SystemMemoryResource, std::shared_ptr<SystemMemoryResource>, MemoryResource>(m, "SystemMemoryResource",
                                                                                            py::is_final())
        .def(py::init([](const py::object& device) {
                 return std::make_shared<SystemMemoryResource>(to_device(device).ordinal());
             }),
             py::arg("device") = py::none());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
