// SPDX-License-Identifier: MIT
// python/virtual_resource.cpp: VirtualMemoryResource and GrowableBuffer.
#include "access.hpp"
#include "buffer_object.hpp"
#include "convert.hpp"
#include "hold.hpp"
#include "resources.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

constexpr Spelling<SleepContents> kContents[] = {{"keep", SleepContents::Keep}, {"drop", SleepContents::Drop}};

GrowableBuffer allocate_growable(const std::shared_ptr<VirtualMemoryResource>& self, const py::object& nbytes,
                                 const py::object& capacity, const py::object& stream) {
    const std::size_t size = to_size(nbytes);
    const std::size_t most = capacity.is_none() ? 0 : to_size(capacity, "capacity");
    if (!capacity.is_none() && most == 0)
        throw py::value_error(
            "a capacity of 0 bytes leaves no room for the buffer: leave it out, or give at least nbytes");
    auto on = allocation_stream(*self, stream);
    const WithoutGil nogil;
    return GrowableBuffer(self, size, most, std::move(on));
}

// Changes the size. Another thread may close the object meanwhile.
void resize_on(GrowableBuffer& self, const py::object& nbytes, const py::object& stream) {
    const std::size_t size = to_size(nbytes);
    const auto on = to_stream(stream);
    const auto memory = self.allocation();
    {
        const WithoutGil nogil;
        GrowableBuffer::resize_memory(*memory, size, on);
    }
    if (self.shared() == memory) static_cast<Buffer&>(self) = Buffer(memory, size);
}

void sleep(VirtualMemoryResource& self, const py::object& contents) {
    const SleepContents choice = from_text("contents", contents, kContents);
    const WithoutGil nogil;
    self.sleep(choice);
}

void wake(VirtualMemoryResource& self) {
    const WithoutGil nogil;
    self.wake();
}

// The resource's lock may be held by a thread that waits for the GIL.
template <class T, std::size_t (T::*Get)() const>
std::size_t bytes_of(const T& self) {
    const WithoutGil nogil;
    return (self.*Get)();
}

}  // namespace

void register_virtual_resource(py::module_& m) {
    py::class_<VirtualMemoryResource, std::shared_ptr<VirtualMemoryResource>, MemoryResource>(
        m, "VirtualMemoryResource", py::is_final())
        .def(py::init([](const py::object& device, const py::object& reserve) {
                 return std::make_shared<VirtualMemoryResource>(to_device(device).ordinal(),
                                                                to_size(reserve, "reserve"));
             }),
             py::arg("device") = py::none(), py::kw_only(), py::arg("reserve") = 0)
        .def_property_readonly("granularity", &VirtualMemoryResource::granularity)
        .def_property_readonly("reserve", &VirtualMemoryResource::reserve)
        .def_property_readonly("mapped", &bytes_of<VirtualMemoryResource, &VirtualMemoryResource::mapped>)
        .def_property_readonly("kept", &bytes_of<VirtualMemoryResource, &VirtualMemoryResource::kept>)
        .def_property_readonly("is_asleep", &VirtualMemoryResource::is_asleep)
        .def("allocate_growable", &allocate_growable, py::arg("nbytes"), py::arg("capacity") = py::none(),
             py::kw_only(), py::arg("stream") = py::none())
        .def("sleep", &sleep, py::kw_only(), py::arg("contents") = "keep")
        .def("wake", &wake)
        .def("access", &access_of<VirtualMemoryResource>, py::arg("device"))
        .def("set_access", &set_access_of<VirtualMemoryResource>, py::arg("device"), py::arg("access"));

    PyTypeObject* growable = make_growable_buffer_type();
    m.add_object("GrowableBuffer", reinterpret_cast<PyObject*>(growable));
    PlainClass<GrowableBuffer>(growable)
        .def_property_readonly("capacity", &bytes_of<GrowableBuffer, &GrowableBuffer::capacity>)
        .def_property_readonly("mapped", &bytes_of<GrowableBuffer, &GrowableBuffer::mapped>)
        .def("resize", &resize_on, py::arg("nbytes"), py::kw_only(), py::arg("stream") = py::none())
        .def("__repr__", [](const GrowableBuffer& b) {
            const std::string what = b.is_closed() ? "closed" : std::string(to_string(b.traits().kind));
            return "<" + public_module() + ".GrowableBuffer " + std::to_string(b.nbytes()) + " bytes, " + what + ">";
        });
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
