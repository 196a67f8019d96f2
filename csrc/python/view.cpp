// SPDX-License-Identifier: MIT
// python/view.cpp: View.
#include "view.hpp"

#include "convert.hpp"
#include "event.hpp"
#include "hold.hpp"
#include "transfer.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

std::string text_of(const View::Shape& shape) {
    std::string text = "(";
    for (const std::size_t n : shape) text += std::to_string(n) + ", ";
    if (shape.size() > 1) text.resize(text.size() - 2);
    return (shape.size() == 1 ? text.substr(0, text.size() - 1) : text) + ")";
}

// Elements of a shape; throws where their bytes cannot be counted.
std::size_t elements(const View::Shape& shape, std::size_t itemsize) {
    std::size_t count = 1;
    for (const std::size_t n : shape) {
        if (n != 0 && count > static_cast<std::size_t>(PTRDIFF_MAX) / itemsize / n) {
            throw py::value_error("a view of shape " + text_of(shape) + " is larger than any memory");
        }
        count *= n;
    }
    return count;
}

View::Shape to_shape(const py::handle& shape) {
    if (PyIndex_Check(shape.ptr()) != 0) return {to_count(shape, "a dimension")};
    if (PySequence_Check(shape.ptr()) == 0 || PyUnicode_Check(shape.ptr())) {
        throw py::type_error("a shape is an int or a sequence of ints");
    }
    View::Shape dimensions;
    for (const auto& n : py::reinterpret_borrow<py::sequence>(shape)) dimensions.push_back(to_count(n, "a dimension"));
    return dimensions;
}

ElementType to_element_type(const py::handle& dtype) {
    const py::tuple parsed = py::module_::import("portamem._dtypes").attr("parse_dtype")(dtype);
    return {parsed[0].cast<std::string>(), parsed[1].cast<std::string>(), parsed[2].cast<std::string>(),
            parsed[3].cast<std::size_t>()};
}

py::tuple to_tuple(const View::Shape& values) {
    py::tuple tuple(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) tuple[i] = values[i];
    return tuple;
}

}  // namespace

View::View(py::object buffer, const Buffer& memory, ElementType type, Shape shape, std::size_t offset)
    : buffer_(std::move(buffer)),
      memory_(memory.sub(offset, elements(shape, type.itemsize) * type.itemsize)),
      type_(std::move(type)),
      shape_(std::move(shape)) {}

const Buffer& View::memory() const {
    if (memory_.is_closed()) throw std::invalid_argument("the view is closed");
    return memory_;
}

View::Shape View::strides() const {
    Shape strides(shape_.size());
    std::size_t bytes = type_.itemsize;
    for (std::size_t i = shape_.size(); i-- > 0;) {
        strides[i] = bytes;
        bytes *= shape_[i];
    }
    return strides;
}

std::size_t View::size() const noexcept {
    std::size_t count = 1;
    for (const std::size_t n : shape_) count *= n;
    return count;
}

View View::part(Shape shape, std::size_t offset) const {
    return View(buffer_, memory(), type_, std::move(shape), offset);
}

View View::reshaped(Shape shape) const {
    if (elements(shape, type_.itemsize) != size()) {
        throw py::value_error("a view of " + std::to_string(size()) + " elements cannot take the shape " +
                              text_of(shape));
    }
    return part(std::move(shape), 0);
}

View View::at(std::size_t index) const {
    return part(Shape(shape_.begin() + 1, shape_.end()), index * strides().front());
}

View View::rows(std::size_t begin, std::size_t end) const {
    Shape shape = shape_;
    shape.front() = end > begin ? end - begin : 0;
    return part(std::move(shape), shape.front() == 0 ? 0 : begin * strides().front());
}

HostExport View::host_export() const {
    HostExport exported{memory().sub(0, memory_.nbytes()), type_.format, {}, {}, 0};
    exported.itemsize = static_cast<Py_ssize_t>(type_.itemsize);
    for (const std::size_t n : shape_) exported.shape.push_back(static_cast<Py_ssize_t>(n));
    for (const std::size_t n : strides()) exported.strides.push_back(static_cast<Py_ssize_t>(n));
    return exported;
}

void View::close() {
    memory_.abandon();
    buffer_ = py::none();
}

View make_view(const py::object& buffer, const py::object& dtype, const py::object& shape, const py::object& offset) {
    if (buffer_of(buffer) == nullptr) throw py::type_error("a View is a view of a Buffer");
    const Buffer& memory = *buffer_of(buffer);
    ElementType type = to_element_type(dtype);
    const std::size_t first = to_size(offset, "offset");
    if (first % type.itemsize != 0) {
        throw py::value_error("an offset of " + std::to_string(first) + " bytes is no multiple of the " +
                              std::to_string(type.itemsize) + " bytes of " + type.name);
    }
    if (!shape.is_none()) return View(buffer, memory, std::move(type), to_shape(shape), first);
    if (first > memory.nbytes() || (memory.nbytes() - first) % type.itemsize != 0) {
        throw py::value_error(std::to_string(memory.nbytes()) + " bytes from offset " + std::to_string(first) +
                              " are no whole number of " + type.name + ": give a shape");
    }
    const std::size_t count = (memory.nbytes() - first) / type.itemsize;
    return View(buffer, memory, std::move(type), {count}, first);
}

namespace {

py::dict array_interface(const View& view, int version) {
    py::dict interface;
    interface["shape"] = to_tuple(view.shape());
    interface["typestr"] = view.type().typestr;
    interface["data"] = py::make_tuple(to_address(view.memory().ptr()), false);
    interface["strides"] = py::none();
    interface["version"] = version;
    return interface;
}

// Shown as missing where the memory is out of reach: consumers look for the attribute to decide how to read.
[[noreturn]] void missing(const char* attribute, const char* why) {
    throw py::attribute_error(std::string(attribute) + ": " + why);
}

py::dict host_interface(const View& view) {
    if (!view.memory().traits().host_accessible) missing("__array_interface__", "the host cannot reach this memory");
    {
        const WithoutGil nogil;
        view.memory().allocation()->synchronize_declared();
    }
    return array_interface(view, 3);
}

py::dict device_interface(const View& view) {
    if (!rt::HasDeviceArrayInterface) {
        missing("__cuda_array_interface__", "memory of this backend is no GPU's");
    }
    if (!view.memory().traits().device_accessible) {
        missing("__cuda_array_interface__", "the device cannot reach this memory");
    }
    py::dict interface = array_interface(view, 3);
    const auto allocation = view.memory().allocation();
    std::shared_ptr<Stream> stream;
    {
        const WithoutGil nogil;
        stream = allocation->exchange_stream();
    }
    const auto handle = to_address(stream->handle());
    if (handle != 0) {
        interface["stream"] = handle;
        return interface;
    }
    // The protocol has no number for this stream: its work is waited for, and there is no stream to name.
    {
        const WithoutGil nogil;
        stream->synchronize();
    }
    interface["stream"] = py::none();
    return interface;
}

View view_item(const View& view, const py::object& key) {
    if (view.shape().empty()) throw py::index_error("a view without dimensions has no parts");
    const auto length = static_cast<Py_ssize_t>(view.shape().front());
    if (py::isinstance<py::slice>(key)) {
        py::ssize_t start = 0, stop = 0, step = 0, count = 0;
        if (!key.cast<py::slice>().compute(length, &start, &stop, &step, &count)) throw py::error_already_set();
        if (step != 1) throw py::value_error("a view is contiguous: a slice of it has step 1");
        return view.rows(static_cast<std::size_t>(start), static_cast<std::size_t>(start + count));
    }
    if (PyIndex_Check(key.ptr()) == 0) throw py::type_error("a part of a view is an int or a slice of its first axis");
    Py_ssize_t index = PyNumber_AsSsize_t(key.ptr(), PyExc_IndexError);
    if (index == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (index < 0) index += length;
    if (index < 0 || index >= length) throw py::index_error("index is out of the view's " + std::to_string(length));
    return view.at(static_cast<std::size_t>(index));
}

py::object to_numpy(const View& view, const py::object& stream) {
    const py::object array = py::module_::import("numpy").attr("empty")(to_tuple(view.shape()), view.type().typestr);
    const auto on = to_stream(stream);
    const Span source = Span::of(view.memory());
    const HostBytes target = host_bytes(array, true, "the target");
    {
        const WithoutGil nogil;
        const auto done = copy(Span::host(target.ptr, target.nbytes, target.owner), source, on);
        if (done) done->synchronize();
    }
    return array;
}

int view_getbuffer(PyObject* self, Py_buffer* view, int flags) {
    return get_py_buffer(self, view, flags, [self] { return py::handle(self).cast<const View&>().host_export(); });
}

View reshape(const View& view, const py::args& shape) {
    const bool one_sequence = shape.size() == 1 && PyIndex_Check(py::object(shape[0]).ptr()) == 0;
    return view.reshaped(to_shape(one_sequence ? py::object(shape[0]) : py::object(shape)));
}

}  // namespace

void register_view(py::module_& m) {
    auto setup = py::custom_type_setup([](PyHeapTypeObject* type) { install_buffer_protocol(type, view_getbuffer); });
    py::class_<View, std::shared_ptr<View>> type(m, "View", py::is_final(), setup,
                                                 "Typed, C-contiguous memory of a Buffer, and an export of it.");
    type.def(py::init([](const py::object& buffer, const py::object& dtype, const py::object& shape,
                         const py::object& offset) {
                 return std::make_shared<View>(make_view(buffer, dtype, shape, offset));
             }),
             py::arg("buffer"), py::arg("dtype") = "uint8", py::arg("shape") = py::none(), py::kw_only(),
             py::arg("offset") = 0)
        .def_property_readonly("buffer", [](const View& v) { return v.memory(), v.buffer(); })
        .def_property_readonly("handle", [](const View& v) { return to_address(v.memory().ptr()); })
        .def_property_readonly("nbytes", &View::nbytes)
        .def_property_readonly("dtype", [](const View& v) { return v.type().name; })
        .def_property_readonly("typestr", [](const View& v) { return v.type().typestr; })
        .def_property_readonly("itemsize", [](const View& v) { return v.type().itemsize; })
        .def_property_readonly("shape", [](const View& v) { return to_tuple(v.shape()); })
        .def_property_readonly("strides", [](const View& v) { return to_tuple(v.strides()); })
        .def_property_readonly("ndim", [](const View& v) { return v.shape().size(); })
        .def_property_readonly("size", &View::size)
        .def_property_readonly("backend", [](const View&) { return rt::BackendName; })
        .def_property_readonly("device_id", [](const View& v) { return v.memory().traits().device_id(); })
        .def_property_readonly("is_host_accessible", [](const View& v) { return v.memory().traits().host_accessible; })
        .def_property_readonly("is_device_accessible",
                               [](const View& v) { return v.memory().traits().device_accessible; })
        .def_property_readonly("is_closed", &View::is_closed)
        .def("reshape", &reshape, "The same elements in another shape.")
        .def("to_numpy", &to_numpy, py::kw_only(), py::arg("stream") = py::none(),
             "A new NumPy array with the contents; done on return, also with a stream.")
        .def("close", &View::close, "Ends the export.")
        .def_property_readonly("__array_interface__", &host_interface)
        .def_property_readonly("__cuda_array_interface__", &device_interface)
        .def("__len__",
             [](const View& v) {
                 if (v.shape().empty()) throw py::type_error("a view without dimensions has no length");
                 return v.shape().front();
             })
        .def("__getitem__", &view_item, py::arg("key"), py::pos_only())
        .def("__enter__", [](const py::object& self) { return self; })
        .def(
            "__exit__", [](View& v, const py::object&, const py::object&, const py::object&) { v.close(); },
            py::arg("exc_type"), py::arg("exc"), py::arg("tb"), py::pos_only())
        .def("__repr__", [](const View& v) {
            return "<portamem." + std::string(rt::BackendName) + ".View " + v.type().name + text_of(v.shape()) +
                   (v.is_closed() ? " closed>" : ">");
        });
    define_array_refusal(type, [](const View& v) -> const Buffer& { return v.memory(); });
    define_transfers(type, [](View& v) { return Span::of(v.memory()); });
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
