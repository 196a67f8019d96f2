// SPDX-License-Identifier: MIT
// python/convert.cpp: Python's arguments as C++ ones.
#include "convert.hpp"

#include <cstring>
#include <map>

#include "dlpack_import.hpp"
#include "fast/view_object.hpp"
#include "fastcall.hpp"
#include "hold.hpp"
#include "host_bytes.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Returns an int that is no bool, by __index__, as Python itself takes a size.
py::int_ to_int(const py::handle& value, const char* what) {
    if (PyBool_Check(value.ptr()) || PyIndex_Check(value.ptr()) == 0) {
        throw py::type_error(std::string(what) + " is an int, not " + type_name(value));
    }
    auto number = py::reinterpret_steal<py::int_>(PyNumber_Index(value.ptr()));
    if (number) return number;
    py::error_already_set raised;
    if (!raised.matches(PyExc_TypeError)) throw raised;
    // An array of several elements has the method, and its error has other words.
    py::raise_from(raised, PyExc_TypeError, (std::string(what) + " is an int, not " + type_name(value)).c_str());
    throw py::error_already_set();
}

// Shows an int in a message. Python refuses to turn an int of more than some thousand digits into text.
std::string shown(const py::int_& number) {
    const auto text = py::reinterpret_steal<py::object>(PyObject_Str(number.ptr()));
    if (text) return py::str(text);
    PyErr_Clear();
    return "an int of thousands of digits";
}

}  // namespace

std::string to_text(const py::handle& value, const char* what) {
    if (PyUnicode_Check(value.ptr()) == 0) {
        throw py::type_error(std::string(what) + " is text, not " + type_name(value));
    }
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &length);
    if (text != nullptr) return {text, static_cast<std::size_t>(length)};
    PyErr_Clear();
    throw py::value_error(std::string(what) + " is text that no encoding has: " +
                          py::reinterpret_steal<py::str>(PyObject_ASCII(value.ptr())).cast<std::string>());
}

bool is_flag(const py::handle& value) {
    if (PyBool_Check(value.ptr())) return true;
    const std::string_view name = Py_TYPE(value.ptr())->tp_name;
    return name == "numpy.bool" || name == "numpy.bool_";
}

bool to_flag(const py::handle& value, const char* what) {
    if (!is_flag(value)) throw py::type_error(std::string(what) + " is True or False, not " + type_name(value));
    return py::bool_(py::reinterpret_borrow<py::object>(value));
}

std::size_t to_count(const py::handle& value, const char* what) {
    const py::int_ number = to_int(value, what);
    const Py_ssize_t count = PyLong_AsSsize_t(number.ptr());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    const bool negative = py::bool_(number < py::int_(0));
    throw py::value_error(std::string(what) + (negative ? " must not be negative: " : " is larger than any memory: ") +
                          shown(number));
}

std::size_t to_size_by_rules(const py::handle& value, const char* what) {
    if (PyUnicode_Check(value.ptr())) {
        return to_count(py::module_::import("portamem._sizes").attr("parse_size")(value), what);
    }
    if (PyBool_Check(value.ptr()) || PyIndex_Check(value.ptr()) == 0) {
        throw py::type_error(std::string(what) + " is an int or text such as '64 MiB', not " + type_name(value));
    }
    return to_count(value, what);
}

unsigned char to_byte(const py::handle& value) {
    if (PyLong_Check(value.ptr()) == 0) refuse_more_than_bytes(value, "a fill value");
    const py::int_ number = to_int(value, "a fill value");
    const long byte = PyLong_AsLong(number.ptr());
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    if (byte < 0 || byte > 255) {
        throw py::value_error("a fill value is one byte, 0 to 255, not " + shown(number));
    }
    return static_cast<unsigned char>(byte);
}

Device to_device(const py::handle& value) {
    if (value.is_none()) return Device::current();
    if (py::isinstance<Device>(value)) return value.cast<Device>();
    if (py::hasattr(value, "ordinal") && py::hasattr(value, "backend")) {
        throw py::type_error("a device of backend " + py::str(value.attr("backend")).cast<std::string>() +
                             " is not a device of " + rt::BackendName);
    }
    const py::int_ number = to_int(value, "a device");
    const long ordinal = PyLong_AsLong(number.ptr());
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    if (ordinal < 0 || ordinal > 0x7fffffff) {
        throw py::value_error("there is no device " + shown(number) + " on " + rt::BackendName + ": there are " +
                              std::to_string(device_count()));
    }
    return Device(static_cast<int>(ordinal));
}

std::shared_ptr<Stream> wrap_stream(const py::handle& value) {
    const py::object handle = py::module_::import("portamem._foreign").attr("stream_handle")(value, rt::BackendName);
    const auto address = to_address(from_address(handle, "a stream's handle"));
    const auto native = reinterpret_cast<rt::Stream_t>(address);
    // A default stream differs on each device and on each thread, whatever object stands for it.
    if (address <= 2) return Stream::from_handle(native, current_device());
    // The map needs the GIL. It stays small: entries of streams that are gone are replaced when their address comes
    // back.
    static auto* known = new std::map<std::pair<const void*, std::uintptr_t>, std::weak_ptr<Stream>>;
    std::weak_ptr<Stream>& entry = (*known)[{value.ptr(), address}];
    if (auto stream = entry.lock(); stream && !stream->is_closed()) return stream;
    int device = 0;
    rt::Error_t answer{};
    {
        const WithoutGil nogil;
        answer = rt::StreamGetDevice(native, &device);
    }
    check(answer, "StreamGetDevice");
    if (auto stream = entry.lock(); stream && !stream->is_closed()) return stream;  // another thread was first
    auto stream = Stream::from_handle(native, device, hold(py::reinterpret_borrow<py::object>(value)));
    entry = stream;
    return stream;
}

std::optional<int> device_of_stream(rt::Stream_t handle) {
    const bool is_default = reinterpret_cast<std::uintptr_t>(handle) <= 2 || handle == rt::StreamLegacy() ||
                            handle == rt::StreamPerThread();
    if (is_default || portamem_forked() != 0) return std::nullopt;
    std::optional<WithoutGil> nogil;
    if (holds_gil()) nogil.emplace();
    int device = 0;
    if (rt::StreamGetDevice(handle, &device) != rt::Error_t::Success) return std::nullopt;
    return device;
}

std::shared_ptr<Stream> stream_of_any_device(rt::Stream_t handle, int otherwise) {
    return Stream::from_handle(handle, device_of_stream(handle).value_or(otherwise));
}

const PyTypeObject* stream_type = nullptr;

void remember_stream_type() { stream_type = reinterpret_cast<PyTypeObject*>(py::type::of<Stream>().ptr()); }

std::shared_ptr<Stream> to_stream(const py::handle& value) {
    if (value.is_none()) return nullptr;
    if (const auto* stream = stream_in(value.ptr())) return *stream;
    if (Py_TYPE(value.ptr()) != stream_type) return wrap_stream(value);
    throw py::type_error("the stream was made without its __init__: call Stream() instead of __new__");
}

rt::Location to_location(const py::handle& value) {
    if (PyUnicode_Check(value.ptr())) {
        const std::string text = to_text(value, "a location");
        if (text == "host" || text == "cpu") return {rt::LocationType::Host, 0};
        if (text == "host_numa_current") return {rt::LocationType::HostNumaCurrent, 0};
        if (text.rfind("host_numa:", 0) == 0 && text.size() > 10 && text.size() < 15 &&
            text.find_first_not_of("0123456789", 10) == std::string::npos) {
            return {rt::LocationType::HostNuma, std::stoi(text.substr(10))};
        }
        throw py::value_error(
            "a location is a Device, an ordinal, 'host', 'host_numa:<node>' or 'host_numa_current', not '" + text +
            "'");
    }
    if (value.is_none()) throw py::type_error("a location is a Device, an ordinal or 'host', not None");
    if (py::isinstance<py::int_>(value) && py::int_(rt::CpuDeviceId).equal(value)) return {rt::LocationType::Host, 0};
    return {rt::LocationType::Device, to_device(value).ordinal()};
}

namespace {

// Returns whether objects of a type are the host's memory and nothing else, which is the usual case and needs no
// further question.
bool is_host_data(const PyTypeObject* type) noexcept {
    return type == &PyBytes_Type || type == &PyByteArray_Type || std::strcmp(type->tp_name, "numpy.ndarray") == 0;
}

Span host_span(const py::handle& value, bool writable, const char* role, std::optional<StridedSpan>* strided) {
    HostBytes bytes = host_bytes(value, writable, role, strided);
    return Span::host(bytes.ptr, bytes.nbytes, std::move(bytes.owner));
}

Span interface_span(const py::handle& value, const char* role, const std::shared_ptr<Stream>& stream) {
    const py::object native = py::module_::import((std::string("portamem._") + rt::BackendName).c_str());
    const py::object on = stream ? py::cast(stream) : py::object(py::none());
    const py::object pair =
        py::module_::import("portamem.interop.array_interface").attr("device_buffer")(native, value, on, role);
    return Span::of(*buffer_of(pair[py::int_(0)]));
}

}  // namespace

Span to_span(const py::handle& value, bool writable, const char* role, const std::shared_ptr<Stream>& stream,
             std::optional<StridedSpan>* strided) {
    if (const Buffer* buffer = buffer_of(value)) return Span::of(*buffer);
    if (const View* view = view_of(value)) return Span::of(view->contiguous_memory(role));
    if (is_host_data(Py_TYPE(value.ptr()))) return host_span(value, writable, role, strided);
    if (py::isinstance<HostRegistration>(value)) {
        const auto& registered = value.cast<const HostRegistration&>();
        if (writable && registered.is_read_only()) {
            throw py::value_error(std::string(role) + " is registered read-only: register it without read_only");
        }
        return Span::of(registered.buffer());
    }
    if (py::hasattr(value, "backend") && py::hasattr(value, "is_device_accessible") &&
        !py::bool_(value.attr("is_host_accessible"))) {
        throw py::type_error(std::string(role) + " is memory of backend " +
                             py::str(value.attr("backend")).cast<std::string>() + ", which " + rt::BackendName +
                             " cannot reach: copy through host memory");
    }
    if (PyObject_CheckBuffer(value.ptr()) == 0 && !py::hasattr(value, "__array_interface__")) {
        if (is_dlpack_producer(value)) return dlpack_span(value, writable, role, stream, strided);
        if (py::hasattr(value, "__cuda_array_interface__")) return interface_span(value, role, stream);
    }
    return host_span(value, writable, role, strided);
}

std::shared_ptr<MemoryResource> to_upstream(const py::handle& value, const char* what) {
    if (py::isinstance<MemoryResource>(value)) return value.cast<std::shared_ptr<MemoryResource>>();
    throw py::type_error("the " + std::string(what) + " is a MemoryResource of backend " + rt::BackendName + ", not " +
                         type_name(value));
}

std::uintptr_t to_address(const void* ptr) { return reinterpret_cast<std::uintptr_t>(ptr); }

void* from_address(const py::handle& value, const char* what) {
    const py::int_ number = to_int(value, what);
    const Py_ssize_t address = PyLong_AsSsize_t(number.ptr());
    if (address >= 0) return reinterpret_cast<void*>(address);
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    const bool negative = py::bool_(number < py::int_(0));
    throw py::value_error(std::string(what) + (negative ? " must not be negative: " : " is beyond all addresses: ") +
                          shown(number));
}

void refuse_spelling(const char* what, const std::string& given, const std::vector<std::string_view>& known) {
    std::string text = std::string(what) + " is ";
    for (std::size_t i = 0; i < known.size(); ++i) {
        if (i != 0) text += i + 1 == known.size() ? " or " : ", ";
        text += "'" + std::string(known[i]) + "'";
    }
    throw py::value_error(text + ", not '" + given + "'");
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
