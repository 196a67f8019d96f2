// SPDX-License-Identifier: MIT
// python/dlpack_import.cpp: foreign DLPack tensors as Views, and as ends of copies.
#include "dlpack_import.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "convert.hpp"
#include "dlpack.hpp"
#include "dlpack_contents.hpp"
#include "dlpack_exchange.hpp"
#include "fast/view_object.hpp"
#include "foreign.hpp"
#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Says where memory is: a device's, with streams and an ordinal, or the host's.
enum class Place { Device, Managed, Host };

Place place_of(const dlpack::Device& device) {
    if (device.type == rt::DlpackCpu) return Place::Host;
    if (device.type == rt::DlpackTypes.device) return Place::Device;
    if (device.type == rt::DlpackTypes.managed) return Place::Managed;
    if (std::count(std::begin(rt::DlpackPageLocked), std::end(rt::DlpackPageLocked), device.type) != 0) {
        return Place::Host;
    }
    throw py::type_error("the " + std::string(rt::BackendName) + " backend cannot reach " + to_text(device) +
                         ": copy it through host memory");
}

// Represents the stream of the device on which the producer is asked to make the memory ready, and DLPack's number for
// it.
struct ImportStream {
    std::shared_ptr<Stream> stream;
    std::int64_t number = 0;
};

std::optional<std::int64_t> number_of(const Stream& stream) {
    int number = rt::DlpackNoStream;
    if (stream.handle() == rt::StreamLegacy()) {
        number = rt::DlpackStreams.legacy;
    } else if (stream.is_default()) {
        number = rt::DlpackStreams.per_thread;
    } else {
        return static_cast<std::int64_t>(to_address(stream.handle()));
    }
    if (number == rt::DlpackNoStream) return std::nullopt;
    return number;
}

// Returns the caller's own stream where it is of the device and has a number; else the default one, which the caller's
// stream waits for.
ImportStream import_stream(const std::shared_ptr<Stream>& wanted, int device) {
    if (wanted && wanted->device() == device) {
        if (const auto number = number_of(*wanted)) return {wanted, *number};
    }
    return {Stream::default_stream(device), rt::DlpackStreams.legacy};
}

// Calls __dlpack__, with the stream's number where there is a stream, and with portamem's version or none.
py::object call_dlpack(const py::object& obj, PyObject* stream, PyObject* version) {
    static PyObject* const name = PyUnicode_InternFromString("__dlpack__");
    static PyObject* const keywords[] = {Py_BuildValue("()"), Py_BuildValue("(s)", "max_version"),
                                         Py_BuildValue("(s)", "stream"),
                                         Py_BuildValue("(ss)", "max_version", "stream")};
    PyObject* arguments[] = {obj.ptr(), version != nullptr ? version : stream, stream};
    const int which = (version != nullptr ? 1 : 0) + (stream != nullptr ? 2 : 0);
    PyObject* answer = PyObject_VectorcallMethod(name, arguments, 1, keywords[which]);
    if (answer == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(answer);
}

py::object ask(const py::object& obj, const std::optional<ImportStream>& on) {
    static PyObject* const version =
        Py_BuildValue("(ii)", static_cast<int>(dlpack::kVersion.major), static_cast<int>(dlpack::kVersion.minor));
    const py::object number = on ? py::object(py::int_(on->number)) : py::object();
    try {
        return call_dlpack(obj, number.ptr(), version);
    } catch (py::error_already_set& e) {
        if (!e.matches(PyExc_TypeError)) throw;
    }
    return call_dlpack(obj, number.ptr(), nullptr);  // a producer from before version 1
}

template <class Managed>
void call_deleter(Managed* managed) noexcept {
    if (managed->deleter != nullptr) managed->deleter(managed);
}

// Makes the owner of the producer's tensor: a Python object, so that its last holder lets go of it with the GIL, which
// producers' deleters may count on, or leaks it when the interpreter is gone.
template <class Managed>
py::object own(Managed* managed) {
    PyObject* owner = PyCapsule_New(managed, "portamem_dlpack_tensor", [](PyObject* self) {
        const PendingErrorKept pending;
        call_deleter(static_cast<Managed*>(PyCapsule_GetPointer(self, "portamem_dlpack_tensor")));
    });
    if (owner == nullptr) {
        call_deleter(managed);
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(owner);
}

struct Imported {
    py::object owner;
    dlpack::Tensor tensor{};
    bool read_only = false;
    bool is_versioned = false;
    bool is_padded = false;
};

template <class Managed>
Managed* take(const py::object& capsule) {
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Managed::kName));
    if (managed == nullptr || PyCapsule_SetName(capsule.ptr(), Managed::kUsedName) != 0) throw py::error_already_set();
    return managed;
}

Imported imported(dlpack::ManagedTensorVersioned* managed) {
    py::object owner = own(managed);
    const dlpack::Version version = managed->version;
    if (version.major != dlpack::kVersion.major) {
        // For another major version, nothing behind the deleter may be read.
        throw ExportError("the producer speaks DLPack " + std::to_string(version.major) + "." +
                          std::to_string(version.minor) + ", and portamem knows version " +
                          std::to_string(dlpack::kVersion.major));
    }
    const auto has = [flags = managed->flags](dlpack::Flags flag) { return (flags & flag) != 0; };
    return {std::move(owner), managed->tensor, has(dlpack::ReadOnly), true, has(dlpack::IsPadded)};
}

Imported take(const py::object& capsule) {
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::ManagedTensor::kName) != 0) {
        auto* managed = take<dlpack::ManagedTensor>(capsule);
        // Before version 1 no producer could say that its memory is read-only, so whether it may be written is unknown.
        py::object owner = own(managed);
        return {std::move(owner), managed->tensor, true, false, false};
    }
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::ManagedTensorVersioned::kName) != 0) {
        return imported(take<dlpack::ManagedTensorVersioned>(capsule));
    }
    if (PyCapsule_CheckExact(capsule.ptr()) == 0) {
        throw ExportError(std::string("__dlpack__ answered a ") + type_name(capsule) + ", not a capsule");
    }
    const char* name = PyCapsule_GetName(capsule.ptr());
    if (name == nullptr) PyErr_Clear();
    const std::string_view text = name == nullptr ? "" : name;
    if (text == dlpack::ManagedTensor::kUsedName || text == dlpack::ManagedTensorVersioned::kUsedName) {
        throw ExportError("this DLPack capsule has been taken already: a capsule is good for one consumer");
    }
    throw ExportError("the capsule of __dlpack__ is called '" + std::string(text) +
                      "', which is not a DLPack tensor: '" + dlpack::ManagedTensorVersioned::kName + "' or '" +
                      dlpack::ManagedTensor::kName + "' is one");
}

// Returns the traits of the memory: as the tag says, and where the tag leaves something open, as the runtime says.
MemoryTraits imported_traits(const void* ptr, const dlpack::Device& device, Place place, int ordinal) {
    if (place == Place::Host) return foreign_traits(ptr, ordinal < 0 ? py::none() : py::object(py::int_(ordinal)));
    const PointerInfo info = pointer_info(ptr);
    if (place == Place::Device && info.type == rt::MemoryType::Device && info.device != ordinal) {
        throw py::value_error("the producer calls this " + to_text(device) +
                              ", and the runtime says that it is on device " + std::to_string(info.device));
    }
    MemoryTraits traits = foreign_traits(ptr, py::int_(ordinal));
    if (place == Place::Managed && info.device >= 0) traits.device = info.device;
    if (info.type == rt::MemoryType::Unregistered) {
        traits.is_host_memory = false;
        traits.host_accessible =
            portamem::detail::attribute(rt::DeviceAttr::DirectDeviceMemAccessFromHost, ordinal) != 0;
    }
    traits.device_accessible = true;
    return traits;
}

dlpack::Device device_of(const py::object& obj) {
    static PyObject* const name = PyUnicode_InternFromString("__dlpack_device__");
    const auto answer = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(obj.ptr(), name));
    if (!answer) throw py::error_already_set();
    try {
        const auto pair = answer.cast<std::pair<std::int32_t, std::int32_t>>();
        return {pair.first, pair.second};
    } catch (const py::cast_error&) {
        throw py::type_error("__dlpack_device__ answers a device type and an ID, not " +
                             py::repr(answer).cast<std::string>());
    }
}

// Represents a checked tensor of a producer: nothing of it is used before the check.
struct Incoming {
    py::object owner;
    dlpack::Tensor tensor{};
    dlpack::Contents contents;
    bool read_only = false;
    bool is_versioned = false;
    bool is_padded = false;
    Place place = Place::Host;
    int ordinal = -1;
    std::optional<ImportStream> on;  // the stream that the producer was told
};

// Returns what the producer itself says of the same memory by an array interface, if it has one: DLPack had no word for
// it before version 1.
bool says_writable(const py::object& obj, const void* ptr) {
    for (const char* name : {"__array_interface__", "__cuda_array_interface__"}) {
        try {
            if (!py::hasattr(obj, name)) continue;
            const py::tuple data = obj.attr(name)["data"];
            return py::int_(to_address(ptr)).equal(data[0]) && py::object(data[1]).is(py::bool_(false));
        } catch (const py::error_already_set&) {
            continue;
        }
    }
    return false;
}

void take_over(Incoming& incoming, Imported&& imported) {
    incoming.owner = std::move(imported.owner);
    incoming.tensor = imported.tensor;
    incoming.read_only = imported.read_only;
    incoming.is_versioned = imported.is_versioned;
    incoming.is_padded = imported.is_padded;
}

// Receives by the producer's C table, whose function does not wait for the producer's work: put_behind() does. Returns
// nothing where the function fails, because __dlpack__ then says in the producer's own words why.
std::optional<Incoming> receive_by_table(const dlpack::ExchangeTable& table, const py::object& obj,
                                         const std::shared_ptr<Stream>& wanted) {
    dlpack::ManagedTensorVersioned* managed = nullptr;
    if (table.from_object(obj.ptr(), &managed) != 0) {
        if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) == 0) throw py::error_already_set();
        PyErr_Clear();
        return std::nullopt;
    }
    if (managed == nullptr) throw ExportError("the DLPack table of the producer gave no tensor and no reason");
    Incoming incoming;
    take_over(incoming, imported(managed));
    const dlpack::Device& device = incoming.tensor.device;
    incoming.place = place_of(device);
    incoming.ordinal = wanted ? wanted->device() : -1;
    incoming.contents = dlpack::contents_of(incoming.tensor, incoming.is_padded);
    if (incoming.place == Place::Host) return incoming;
    incoming.ordinal = incoming.place == Place::Device ? Device(device.id).ordinal() : current_device();
    void* handle = nullptr;
    if (table.current_stream(device.type, device.id, &handle) != 0) {
        if (PyErr_Occurred() != nullptr) throw py::error_already_set();
        throw ExportError("the DLPack table of the producer does not say on which stream it works");
    }
    incoming.on = ImportStream{Stream::from_handle(static_cast<rt::Stream_t>(handle), incoming.ordinal), 0};
    incoming.on->stream->refuse_capture("from_dlpack");
    if (wanted) wanted->refuse_capture("from_dlpack");
    return incoming;
}

Incoming receive(const py::object& obj, const std::shared_ptr<Stream>& wanted) {
    if (const auto* table = dlpack::table_for(obj)) {
        if (auto incoming = receive_by_table(*table, obj, wanted)) return *std::move(incoming);
    }
    const dlpack::Device said = device_of(obj);
    Incoming incoming;
    incoming.place = place_of(said);
    incoming.ordinal = wanted ? wanted->device() : -1;
    if (incoming.place != Place::Host) {
        incoming.ordinal = incoming.place == Place::Device ? Device(said.id).ordinal() : current_device();
        incoming.on = import_stream(wanted, incoming.ordinal);
        incoming.on->stream->refuse_capture("from_dlpack");
    }
    take_over(incoming, take([&] {
                  // Producers look at the current device, and some give away no memory of any other.
                  std::optional<DeviceGuard> guard;
                  if (incoming.place == Place::Device) guard.emplace(incoming.ordinal);
                  return ask(obj, incoming.on);
              }()));
    const dlpack::Device& device = incoming.tensor.device;
    if (place_of(device) != incoming.place || (incoming.place == Place::Device && device.id != said.id)) {
        throw py::value_error("the producer says " + to_text(said) + ", and its tensor says " + to_text(device));
    }
    incoming.contents = dlpack::contents_of(incoming.tensor, incoming.is_padded);
    if (!incoming.is_versioned && says_writable(obj, incoming.contents.ptr)) incoming.read_only = false;
    return incoming;
}

// Waits for the producer's work where no stream was named; else makes that stream wait.
void put_behind(const Incoming& incoming, const std::shared_ptr<Stream>& wanted) {
    if (!incoming.on) return;
    const WithoutGil nogil;
    if (!wanted) {
        incoming.on->stream->synchronize();
    } else if (wanted != incoming.on->stream) {
        wanted->wait(*incoming.on->stream);
    }
}

py::object to_buffer(const Incoming& incoming, const std::shared_ptr<Stream>& wanted) {
    const dlpack::Contents& contents = incoming.contents;
    MemoryTraits traits = imported_traits(contents.ptr, incoming.tensor.device, incoming.place, incoming.ordinal);
    traits.read_only = incoming.read_only;
    put_behind(incoming, wanted);
    const auto home = wanted ? wanted : Stream::default_stream(traits.device);
    return to_python(Buffer::from_handle(contents.ptr, contents.nbytes, home, traits, hold(incoming.owner)));
}

void refuse_what_is_no_end(const Incoming& incoming, bool writable, const char* role, bool takes_strides = false) {
    const dlpack::DataType& type = incoming.tensor.dtype;
    if (type.code == dlpack::Opaque) {
        throw py::type_error(std::string(role) + " is a DLPack tensor of handles, which are no bytes to copy");
    }
    if (!incoming.contents.strides.empty() && !takes_strides) {
        throw py::value_error(std::string(role) +
                              " is a DLPack tensor that is not C-contiguous: make a contiguous "
                              "copy of it first");
    }
    if (!writable || !incoming.read_only) return;
    throw py::value_error(std::string(role) +
                          (incoming.is_versioned ? " is read-only memory of its DLPack producer"
                                                 : " is a DLPack tensor of before version 1, which cannot say that "
                                                   "it may be written, so it is read-only") +
                          ": copy to memory of your own");
}

StridedSpan with_strides(const Incoming& incoming) {
    const dlpack::Contents& contents = incoming.contents;
    const std::vector<std::size_t> shape(contents.shape.begin(), contents.shape.end());
    const std::vector<std::ptrdiff_t> strides(contents.strides.begin(), contents.strides.end());
    return {contents.ptr, contents.itemsize, shape.size(), shape.data(), strides.data(), hold(incoming.owner)};
}

}  // namespace

bool is_dlpack_producer(const py::handle& obj) {
    return py::hasattr(obj, "__dlpack__") && py::hasattr(obj, "__dlpack_device__");
}

HostBytes dlpack_bytes(const py::handle& value, bool writable, const char* role) {
    const auto obj = py::reinterpret_borrow<py::object>(value);
    if (const dlpack::Device said = device_of(obj); place_of(said) != Place::Host) {
        throw py::type_error(std::string(role) + " is " + to_text(said) + ", and has to be the host's");
    }
    const Incoming incoming = receive(obj, nullptr);
    if (incoming.place != Place::Host) {
        throw py::type_error(std::string(role) + " calls itself memory of the host, and its tensor is " +
                             to_text(incoming.tensor.device));
    }
    refuse_what_is_no_end(incoming, writable, role);
    return {incoming.contents.ptr, incoming.contents.nbytes, hold(incoming.owner)};
}

Span dlpack_span(const py::handle& value, bool writable, const char* role, const std::shared_ptr<Stream>& stream,
                 std::optional<StridedSpan>* strided) {
    const auto obj = py::reinterpret_borrow<py::object>(value);
    const Incoming incoming = receive(obj, stream);
    const bool takes_strides = strided != nullptr && incoming.place == Place::Host;
    refuse_what_is_no_end(incoming, writable, role, takes_strides);
    if (takes_strides && !incoming.contents.strides.empty()) {
        *strided = with_strides(incoming);
        return {};
    }
    if (incoming.place == Place::Host) {
        return Span::host(incoming.contents.ptr, incoming.contents.nbytes, hold(incoming.owner));
    }
    return Span::of(*buffer_of(to_buffer(incoming, stream)));
}

namespace {

py::object to_view(const Incoming& incoming, const std::shared_ptr<Stream>& wanted) {
    const dlpack::DataType& dtype = incoming.tensor.dtype;
    const ElementType& type = element_type_of_dlpack(dtype.code, dtype.bits, dtype.lanes);
    py::object buffer = to_buffer(incoming, wanted);
    const Buffer& memory = *buffer_of(buffer);
    const View::Shape& shape = incoming.contents.shape;
    return open_view(std::move(buffer), memory, type, shape.data(), shape.size(), 0, incoming.contents.strides);
}

}  // namespace

py::object from_managed(dlpack::ManagedTensorVersioned* managed) {
    if (managed == nullptr) throw ExportError("the DLPack tensor to be taken over is null");
    Incoming incoming;
    take_over(incoming, imported(managed));
    refuse_forked();
    const dlpack::Device& device = incoming.tensor.device;
    incoming.place = place_of(device);
    incoming.contents = dlpack::contents_of(incoming.tensor, incoming.is_padded);
    if (incoming.place == Place::Device) incoming.ordinal = Device(device.id).ordinal();
    if (incoming.place == Place::Managed) incoming.ordinal = current_device();
    return to_view(incoming, nullptr);
}

py::object from_dlpack(const py::object& obj, const py::object& stream) {
    refuse_forked();
    if (view_of(obj) != nullptr) return obj;
    if (!is_dlpack_producer(obj)) {
        throw py::type_error(std::string("an object of type ") + type_name(obj) +
                             " is not a DLPack producer: it has no __dlpack__ and __dlpack_device__");
    }
    refuse_more_than_bytes(obj, "the DLPack producer");
    const auto wanted = to_stream(stream);
    return to_view(receive(obj, wanted), wanted);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
