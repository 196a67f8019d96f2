// SPDX-License-Identifier: MIT
// python/dlpack_import.cpp: DLPack tensors of others as Views.
#include "dlpack_import.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "convert.hpp"
#include "dlpack.hpp"
#include "foreign.hpp"
#include "hold.hpp"
#include "view.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Whose memory it is: a device's, with streams and an ordinal, or the host's.
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

// The stream of the device on which the producer is asked to make the memory ready, and DLPack's number for it.
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

// The caller's own stream where it is of the device and has a number; else the default one, for which that waits.
ImportStream import_stream(const std::shared_ptr<Stream>& wanted, int device) {
    if (wanted && wanted->device() == device) {
        if (const auto number = number_of(*wanted)) return {wanted, *number};
    }
    return {Stream::default_stream(device), rt::DlpackStreams.legacy};
}

py::object ask(const py::object& obj, const std::optional<ImportStream>& on) {
    py::dict keywords;
    if (on) keywords["stream"] = on->number;
    const py::object method = obj.attr("__dlpack__");
    try {
        return method(py::arg("max_version") = py::make_tuple(dlpack::kVersion.major, dlpack::kVersion.minor),
                      **keywords);
    } catch (py::error_already_set& e) {
        if (!e.matches(PyExc_TypeError)) throw;
    }
    return method(**keywords);  // a producer of before version 1
}

template <class Managed>
void call_deleter(Managed* managed) noexcept {
    if (managed->deleter != nullptr) managed->deleter(managed);
}

// The owner of the producer's tensor: a Python object, so that whoever lets go of it last does so with the GIL, which
// producers' deleters may count on, or leaks it when the interpreter is gone.
template <class Managed>
py::object own(Managed* managed) {
    PyObject* owner = PyCapsule_New(managed, "portamem_dlpack_tensor", [](PyObject* self) {
        const py::error_scope kept;  // whatever is being raised, a deleter in Python must not see it
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
};

template <class Managed>
Managed* take(const py::object& capsule) {
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Managed::kName));
    if (managed == nullptr || PyCapsule_SetName(capsule.ptr(), Managed::kUsedName) != 0) throw py::error_already_set();
    return managed;
}

Imported take(const py::object& capsule) {
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::ManagedTensor::kName) != 0) {
        auto* managed = take<dlpack::ManagedTensor>(capsule);
        return {own(managed), managed->tensor, false};
    }
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::ManagedTensorVersioned::kName) != 0) {
        auto* managed = take<dlpack::ManagedTensorVersioned>(capsule);
        py::object owner = own(managed);
        const dlpack::Version version = managed->version;
        if (version.major != dlpack::kVersion.major) {
            // Of another major version, nothing behind the deleter may be read.
            throw ExportError("the producer speaks DLPack " + std::to_string(version.major) + "." +
                              std::to_string(version.minor) + ", and portamem knows version " +
                              std::to_string(dlpack::kVersion.major));
        }
        return {std::move(owner), managed->tensor, (managed->flags & dlpack::ReadOnly) != 0};
    }
    if (PyCapsule_CheckExact(capsule.ptr()) != 0) {
        throw py::value_error(
            "this DLPack capsule has been taken already, or is none: a capsule is good for one "
            "consumer");
    }
    throw py::type_error(std::string("__dlpack__ answered a ") + Py_TYPE(capsule.ptr())->tp_name + ", not a capsule");
}

std::string element_type_name(const dlpack::DataType& dtype) {
    const std::string bits = std::to_string(dtype.bits);
    if (dtype.lanes == 1) {
        switch (dtype.code) {
            case dlpack::Int:
                return "int" + bits;
            case dlpack::UInt:
                return "uint" + bits;
            case dlpack::Float:
                return "float" + bits;
            case dlpack::BFloat:
                return "bfloat" + bits;
            case dlpack::Complex:
                return "complex" + bits;
            case dlpack::Bool:
                if (dtype.bits == 8) return "bool";
                break;
            default:
                break;
        }
    }
    throw py::value_error("DLPack elements of code " + std::to_string(dtype.code) + " with " + bits + " bits and " +
                          std::to_string(dtype.lanes) + " lanes are no element type here: convert them first");
}

View::Shape contiguous_shape(const dlpack::Tensor& tensor) {
    View::Shape shape;
    bool empty = false;
    for (std::int32_t i = 0; i < tensor.ndim; ++i) {
        if (tensor.shape[i] < 0) throw py::value_error("a DLPack tensor cannot have a negative extent");
        shape.push_back(static_cast<std::size_t>(tensor.shape[i]));
        empty = empty || tensor.shape[i] == 0;
    }
    if (tensor.strides == nullptr || empty) return shape;
    std::size_t expected = 1;  // of a shape beyond all memory, which a View refuses, it may wrap
    for (std::int32_t i = tensor.ndim; i-- > 0;) {
        if (tensor.shape[i] != 1 && static_cast<std::size_t>(tensor.strides[i]) != expected) {
            throw py::value_error("the DLPack tensor is not C-contiguous: make a contiguous copy of it first");
        }
        expected *= static_cast<std::size_t>(tensor.shape[i]);
    }
    return shape;
}

// What the memory is: as the tag says, and in what the tag leaves open as the runtime says.
MemoryTraits imported_traits(const void* ptr, const dlpack::Device& device, Place place, int ordinal) {
    if (place == Place::Host) return foreign_traits(ptr, ordinal < 0 ? py::none() : py::object(py::int_(ordinal)));
    MemoryTraits traits = foreign_traits(ptr, py::int_(ordinal));
    const PointerInfo info = pointer_info(ptr);
    if (place == Place::Device && info.type == rt::MemoryType::Device && info.device != ordinal) {
        throw py::value_error("the producer calls this " + to_text(device) +
                              ", and the runtime says that it is on device " + std::to_string(info.device));
    }
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
    const py::object answer = obj.attr("__dlpack_device__")();
    try {
        const auto pair = answer.cast<std::pair<std::int32_t, std::int32_t>>();
        return {pair.first, pair.second};
    } catch (const py::cast_error&) {
        throw py::type_error("__dlpack_device__ answers a device type and an ID, not " +
                             py::repr(answer).cast<std::string>());
    }
}

}  // namespace

py::object from_dlpack(const py::object& obj, const py::object& stream) {
    refuse_forked();
    if (py::isinstance<View>(obj)) return obj;
    if (!py::hasattr(obj, "__dlpack__") || !py::hasattr(obj, "__dlpack_device__")) {
        throw py::type_error(std::string("an object of type ") + Py_TYPE(obj.ptr())->tp_name +
                             " is no DLPack producer: it has no __dlpack__ and __dlpack_device__");
    }
    const dlpack::Device said = device_of(obj);
    const Place place = place_of(said);
    const auto wanted = to_stream(stream);
    std::optional<ImportStream> on;
    int ordinal = wanted ? wanted->device() : -1;
    if (place != Place::Host) {
        ordinal = place == Place::Device ? Device(said.id).ordinal() : current_device();
        on = import_stream(wanted, ordinal);
        on->stream->refuse_capture("from_dlpack");
    }
    const Imported imported = take([&] {
        // Producers look at the current device, and some give nothing away of any other.
        std::optional<DeviceGuard> guard;
        if (place == Place::Device) guard.emplace(ordinal);
        return ask(obj, on);
    }());
    const dlpack::Tensor& tensor = imported.tensor;
    if (place_of(tensor.device) != place || (place == Place::Device && tensor.device.id != said.id)) {
        throw py::value_error("the producer says " + to_text(said) + ", and its tensor says " + to_text(tensor.device));
    }
    if (imported.read_only) {
        throw py::value_error("the memory is read-only, and a View is not: make a copy of it first");
    }
    const ElementType& type = to_element_type(py::str(element_type_name(tensor.dtype)));
    View::Shape shape = contiguous_shape(tensor);
    std::size_t count = 1;
    for (const std::size_t n : shape) count *= n;
    void* ptr = count == 0 ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
    const MemoryTraits traits = imported_traits(ptr, tensor.device, place, ordinal);
    if (on) {
        const WithoutGil nogil;
        if (!wanted) {
            on->stream->synchronize();
        } else if (wanted != on->stream) {
            wanted->wait(*on->stream);
        }
    }
    const auto home = wanted ? wanted : Stream::default_stream(traits.device);
    const std::size_t nbytes = count * type.itemsize;
    const py::object buffer = to_python(Buffer::from_handle(ptr, nbytes, home, traits, hold(imported.owner)));
    return py::cast(std::make_shared<View>(buffer, *buffer_of(buffer), type, std::move(shape), 0));
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
