// SPDX-License-Identifier: MIT
// python/dlpack_export.cpp: Views as DLPack tensors.
#include "dlpack_export.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>

#include "buffer_object.hpp"
#include "convert.hpp"
#include "dlpack.hpp"
#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

constexpr dlpack::Device kCpu{rt::DlpackCpu, 0};

// ----- what is asked for

struct Request {
    std::optional<std::int64_t> stream;  // none: Python's None
    std::optional<dlpack::Version> version;
    std::optional<dlpack::Device> device;
    std::optional<bool> copy;
};

bool is_given(py::handle value) noexcept { return value.ptr() != nullptr && !value.is_none(); }

std::int64_t to_int64(const py::handle& value, const char* what) {
    if (PyIndex_Check(value.ptr()) == 0) {
        throw py::type_error(std::string(what) + " is made of ints, not " + type_name(value));
    }
    const bool is_int = PyLong_CheckExact(value.ptr());  // the usual case
    const auto number = is_int ? py::reinterpret_borrow<py::object>(value)
                               : py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!number) throw py::error_already_set();
    int overflow = 0;
    const long long result = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow != 0) throw py::value_error(std::string(what) + " is made of ints of at most 64 bits");
    return result;
}

std::pair<std::int64_t, std::int64_t> to_pair(const py::handle& value, const char* what) {
    if (PySequence_Check(value.ptr()) == 0 || PySequence_Size(value.ptr()) != 2) {
        PyErr_Clear();
        throw py::type_error(std::string(what) + " is a pair of ints, or None");
    }
    if (PyTuple_CheckExact(value.ptr())) {  // the usual case
        return {to_int64(PyTuple_GET_ITEM(value.ptr(), 0), what), to_int64(PyTuple_GET_ITEM(value.ptr(), 1), what)};
    }
    const auto pair = py::reinterpret_borrow<py::sequence>(value);
    return {to_int64(py::object(pair[0]), what), to_int64(py::object(pair[1]), what)};
}

Request to_request(py::handle stream, py::handle max_version, py::handle dl_device, py::handle copy) {
    Request request;
    if (is_given(stream)) request.stream = to_int64(stream, "a DLPack stream");
    if (is_given(max_version)) {
        const auto [major, minor] = to_pair(max_version, "max_version");
        if (major >= 1) {
            const bool older = major == 1 && minor >= 0 && minor < dlpack::kVersion.minor;
            request.version = older ? dlpack::Version{1, static_cast<std::uint32_t>(minor)} : dlpack::kVersion;
        }
    }
    if (is_given(dl_device)) {
        const auto [type, id] = to_pair(dl_device, "dl_device");
        if (type < 0 || type > INT32_MAX || id < 0 || id > INT32_MAX) {
            throw py::value_error("dl_device is a DLPack device type and an ID, both from 0");
        }
        request.device = dlpack::Device{static_cast<std::int32_t>(type), static_cast<std::int32_t>(id)};
    }
    if (is_given(copy)) request.copy = static_cast<bool>(py::bool_(py::reinterpret_borrow<py::object>(copy)));
    return request;
}

// ----- the consumer's stream

[[noreturn]] void refuse_stream(std::int64_t number, const dlpack::Device& device) {
    std::string text = "stream " + std::to_string(number) + " has no meaning for " + to_text(device) + ": pass None";
    if (device.type != rt::DlpackCpu) {
        text += ", " + std::to_string(rt::DlpackStreams.legacy) + " (the default stream)";
        if (rt::DlpackStreams.per_thread != rt::DlpackNoStream) {
            text += ", " + std::to_string(rt::DlpackStreams.per_thread) + " (the calling thread's own)";
        }
        text += ", a stream's handle";
    }
    throw py::value_error(text + " or -1 (no waiting)");
}

// Says which of three uses the memory next: a stream, which waits for its work; the host (`waits` without a stream); or
// a consumer that waits on its own.
struct Consumer {
    std::shared_ptr<Stream> stream{};
    bool waits = true;
};

Consumer consumer_of(const Request& request, const dlpack::Device& device) {
    const bool has_streams = device.type != rt::DlpackCpu;
    const bool is_device = has_streams && device.type == rt::DlpackTypes.device;
    if (!request.stream) {
        // The host waits for memory that it may be about to read.
        return is_device ? Consumer{Stream::default_stream(device.id)} : Consumer{};
    }
    const std::int64_t number = *request.stream;
    if (number == -1) return {nullptr, false};
    if (!has_streams || number < 0) refuse_stream(number, device);
    const int ordinal = is_device ? device.id : current_device();
    if (number == rt::DlpackStreams.legacy) return {Stream::default_stream(ordinal)};
    if (number == rt::DlpackStreams.per_thread) return {Stream::per_thread(ordinal)};
    if (number < 3) refuse_stream(number, device);
    return {stream_of_any_device(reinterpret_cast<rt::Stream_t>(number), ordinal)};
}

// Makes the memory ready for the consumer. Runs without the GIL.
void hand_over(Allocation& allocation, const Consumer& consumer) {
    if (consumer.stream) {
        allocation.hand_over(consumer.stream);
    } else if (consumer.waits) {
        allocation.synchronize_users();
    }
}

// ----- copies

// Returns a resource of the same kind, or for foreign memory a resource of the kind that the device names.
std::shared_ptr<MemoryResource> resource_for(const Buffer& memory, const dlpack::Device& device, bool own) {
    if (own && memory.resource()) return memory.resource();
    const int ordinal = memory.traits().device;
    if (device.type == rt::DlpackCpu) return std::make_shared<SystemMemoryResource>(ordinal);
    if (device.type == rt::DlpackTypes.pinned) return std::make_shared<PinnedMemoryResource>(ordinal);
    if (device.type == rt::DlpackTypes.device) return current_resource(ordinal);
    return std::make_shared<ManagedMemoryResource>(ordinal);
}

// Returns the stream for a copy. It has to be one that stays: the consumer's may be gone when the copy goes back, so
// that one only waits.
std::shared_ptr<Stream> stream_for_copy(const Buffer& memory) {
    auto stream = memory.stream();
    if (stream->is_closed() || stream->is_elsewhere()) return Stream::default_stream(memory.traits().device);
    return stream;
}

// Runs without the GIL.
Buffer copied(const Buffer& memory, const dlpack::Device& device, bool own, const Consumer& consumer) {
    const auto resource = resource_for(memory, device, own);
    const auto on = stream_for_copy(memory);
    Buffer target(resource, memory.nbytes(), on);
    if (!consumer.stream) {
        (void)portamem::copy(target, memory);
        return target;
    }
    memory.allocation()->order_behind_users(*on);
    (void)portamem::copy(target, memory, on);
    target.allocation()->hand_over(consumer.stream);
    return target;
}

// ----- the capsule

// Represents a tensor, and behind it in one block its shape and strides.
template <class Managed>
struct Exported {
    Managed managed{};
    std::optional<Buffer> memory;  // an export, or a copy of its own

    std::int64_t* extents() noexcept { return reinterpret_cast<std::int64_t*>(this + 1); }

    static Exported* make(std::size_t ndim) {
        return new (::operator new(sizeof(Exported) + 2 * ndim * sizeof(std::int64_t))) Exported;
    }

    // Needs no Python, so it may run on any thread, and also when the interpreter is gone.
    static void destroy(Managed* managed) noexcept {
        auto* self = static_cast<Exported*>(managed->context);
        self->~Exported();
        ::operator delete(self);
    }
};

template <class Managed>
void destroy_capsule(PyObject* capsule) {
    const PendingErrorKept pending;
    if (PyCapsule_IsValid(capsule, Managed::kName) == 0) return;  // a consumer has taken the tensor
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
    managed->deleter(managed);
}

dlpack::DataType to_dlpack(const ElementType& type) { return {type.code, type.bits, 1}; }

// Returns the address by which the device sees the memory. Page-locked memory may have another one there.
void* address_on(const Buffer& memory, const dlpack::Device& device) {
    void* ptr = address_for_program(memory);
    if (!memory.traits().is_host_memory || device.type == rt::DlpackCpu) return ptr;
    if (device.type != rt::DlpackTypes.device) return ptr;
    const PointerInfo info = [&] {
        const WithoutGil nogil;
        const DeviceGuard guard(device.id);
        return pointer_info(ptr);
    }();
    if (info.type != rt::MemoryType::Host) return ptr;
    if (info.device_pointer == nullptr)
        throw ExportError("the device has no address for this page-locked memory: copy it to device memory first");
    return info.device_pointer;
}

template <class Managed>
using Owned = std::unique_ptr<Managed, void (*)(Managed*)>;

// Makes a tensor that owns the memory. `write` writes its shape and strides.
template <class Managed, class Write>
Owned<Managed> make_managed(Managed header, Buffer memory, void* data, const dlpack::Device& device,
                            const dlpack::DataType& dtype, std::size_t ndim, const Write& write) {
    auto* exported = Exported<Managed>::make(ndim);
    Managed& managed = exported->managed;
    managed = header;
    managed.context = exported;
    managed.deleter = Exported<Managed>::destroy;
    std::int64_t* extents = exported->extents();
    managed.tensor = {data, device, static_cast<std::int32_t>(ndim), dtype, extents, extents + ndim, 0};
    write(extents);
    Owned<Managed> owned(&managed, managed.deleter);
    exported->memory.emplace(std::move(memory));
    return owned;
}

template <class Managed>
Owned<Managed> make_managed(const View& view, Buffer memory, const dlpack::Device& device, Managed header) {
    void* data = view.size() == 0 ? nullptr : address_on(memory, device);
    return make_managed(header, std::move(memory), data, device, to_dlpack(view.type()), view.shape().size(),
                        [&view](std::int64_t* extents) { view.write_extents(extents); });
}

template <class Managed>
py::object make_capsule(Owned<Managed> managed) {
    PyObject* capsule = PyCapsule_New(managed.get(), Managed::kName, destroy_capsule<Managed>);
    if (capsule == nullptr) throw py::error_already_set();
    (void)managed.release();
    return py::reinterpret_steal<py::object>(capsule);
}

constexpr const char* kPadded = ", each in a byte of its own, which ";

dlpack::ManagedTensorVersioned header_of(const Buffer& memory, const ElementType* type, const dlpack::Version& version,
                                         bool is_copied) {
    dlpack::ManagedTensorVersioned header{};
    header.version = version;
    if (type != nullptr && type->is_padded()) header.flags |= dlpack::IsPadded;
    if (is_copied) header.flags |= dlpack::IsCopied;
    if (memory.traits().read_only) header.flags |= dlpack::ReadOnly;
    return header;
}

py::object make_capsule(const View& view, Buffer memory, const dlpack::Device& device,
                        const std::optional<dlpack::Version>& version, bool is_copied) {
    if (!version) return make_capsule(make_managed(view, std::move(memory), device, dlpack::ManagedTensor{}));
    const auto header = header_of(memory, &view.type(), *version, is_copied);
    return make_capsule(make_managed(view, std::move(memory), device, header));
}

// Makes the memory ready for the consumer, with the GIL where that takes no wait.
void make_ready(const Buffer& memory, const Consumer& consumer) {
    if (!consumer.waits) return;
    const auto allocation = memory.allocation();  // another thread may close the view meanwhile
    if (consumer.stream && allocation->hand_over_at_once(consumer.stream)) return;
    const WithoutGil nogil;
    hand_over(*allocation, consumer);
}

// Makes the memory ready for a consumer of the C table. The host waits only for work that was declared.
void make_ready_by_table(const Buffer& memory, const dlpack::Device& device) {
    const Consumer consumer = consumer_of(Request{}, device);
    if (consumer.stream || memory.allocation()->is_declared()) make_ready(memory, consumer);
}

[[noreturn]] void refuse_unnamed(const Buffer& memory) {
    throw ExportError(std::string("DLPack has no device for ") + to_string(memory.traits().kind) + " memory of the " +
                      rt::BackendName +
                      " backend, which the CPU cannot reach: copy it to host memory first (copy_to, View.to_numpy), or "
                      "ask for a copy with dl_device=(1, 0)");
}

[[noreturn]] void refuse_device(const dlpack::Device& wanted, const dlpack::Devices& devices, const char* why) {
    std::string text = "the memory is no " + to_text(wanted) + why + ". Without a copy it is ";
    if (devices.empty()) text += "nothing that DLPack has a name for";
    for (const auto& device : devices) text += (&device == devices.begin() ? "" : " or ") + to_text(device);
    throw ExportError(text);
}

py::tuple to_tuple_of(const dlpack::Device& device) {
    py::tuple pair(2);
    PyTuple_SET_ITEM(pair.ptr(), 0, py::int_(device.type).release().ptr());
    PyTuple_SET_ITEM(pair.ptr(), 1, py::int_(device.id).release().ptr());
    return pair;
}

}  // namespace

py::object export_dlpack(const View& view, py::handle stream, py::handle max_version, py::handle dl_device,
                         py::handle copy) {
    refuse_forked();
    // The memory is an export from here on: another thread may close the view while this one is without the GIL.
    Buffer memory = view.memory().sub(0, view.memory().nbytes());
    const Request request = to_request(stream, max_version, dl_device, copy);
    const dlpack::Devices devices = dlpack::devices_of(memory);
    if (!request.device && devices.empty()) refuse_unnamed(memory);
    const dlpack::Device device = request.device ? *request.device : *devices.begin();
    const bool fits = devices.has(device);
    const bool copies = request.copy.value_or(!fits);
    if (!fits && !copies) refuse_device(device, devices, ", and copy=False forbids to copy it there");
    if (!fits && !(device == kCpu))
        refuse_device(device, devices, "; copies are made to the CPU only, dl_device=(1, 0)");
    const Consumer consumer = consumer_of(request, device);
    if (!copies && !request.version && memory.traits().read_only) {
        throw ExportError(
            "the memory is read-only, which DLPack can say only from version 1 on: ask with max_version=(1, 0), or for "
            "a copy with copy=True");
    }
    if (view.type().is_padded() && (!request.version || request.version->minor < 1)) {
        throw ExportError("the elements are " + view.type().name + kPadded +
                          "DLPack can say only from version 1.1 on: ask with max_version=(1, 1)");
    }
    if (!copies) {
        make_ready(memory, consumer);
        return make_capsule(view, std::move(memory), device, request.version, false);
    }
    Buffer target = [&] {
        const WithoutGil nogil;
        return copied(memory, device, fits, consumer);
    }();
    return make_capsule(view, std::move(target), device, request.version, true);
}

dlpack::ManagedTensorVersioned* export_managed(const View& view) {
    refuse_forked();
    Buffer memory = view.memory().sub(0, view.memory().nbytes());
    const dlpack::Devices devices = dlpack::devices_of(memory);
    if (devices.empty()) refuse_unnamed(memory);
    const dlpack::Device device = *devices.begin();
    make_ready_by_table(memory, device);
    const auto header = header_of(memory, &view.type(), dlpack::kVersion, false);
    return make_managed(view, std::move(memory), device, header).release();
}

dlpack::Tensor lend(const View& view, std::int64_t* extents) {
    refuse_forked();
    const Buffer& memory = view.memory();
    const dlpack::Devices devices = dlpack::devices_of(memory);
    if (devices.empty()) refuse_unnamed(memory);
    if (memory.traits().read_only) {
        throw ExportError("the memory is read-only, which a tensor that is lent cannot say: use __dlpack__");
    }
    if (view.type().is_padded()) {
        throw ExportError("the elements are " + view.type().name + kPadded +
                          "a tensor that is lent cannot say: use __dlpack__");
    }
    const dlpack::Device device = *devices.begin();
    const dlpack::DataType dtype = to_dlpack(view.type());
    void* data = view.size() == 0 ? nullptr : address_on(memory, device);
    const std::size_t ndim = view.shape().size();
    make_ready_by_table(memory, device);
    return {data, device, static_cast<std::int32_t>(ndim), dtype, extents, extents + ndim, 0};
}

namespace {

std::size_t bytes_of_prototype(const dlpack::Tensor& like) {
    if (like.ndim < 0 || (like.ndim != 0 && like.shape == nullptr)) {
        throw ExportError("the DLPack prototype has no shape: give one extent for each dimension");
    }
    std::size_t nbytes = (std::size_t{like.dtype.bits} * like.dtype.lanes + 7) / 8;
    for (std::int32_t i = 0; i < like.ndim; ++i) {
        if (like.shape[i] < 0 || __builtin_mul_overflow(nbytes, static_cast<std::size_t>(like.shape[i]), &nbytes)) {
            throw ExportError("the DLPack prototype has an extent that no memory can have: " +
                              std::to_string(like.shape[i]));
        }
    }
    return nbytes;
}

}  // namespace

dlpack::ManagedTensorVersioned* allocate_managed(const dlpack::Tensor& like,
                                                 const std::shared_ptr<MemoryResource>& from, rt::Stream_t handle) {
    refuse_forked();
    const std::size_t nbytes = bytes_of_prototype(like);
    const bool is_cpu = like.device.type == rt::DlpackCpu;
    if (!is_cpu && like.device.type != rt::DlpackTypes.device) {
        throw ExportError("portamem." + std::string(rt::BackendName) + " allocates no " + to_text(like.device));
    }
    int ordinal = is_cpu ? current_device() : Device(like.device.id).ordinal();
    const bool is_served = from != nullptr && (is_cpu ? from->is_host_accessible() : from->device() == ordinal);
    std::shared_ptr<MemoryResource> resource = is_served ? from : nullptr;
    if (is_served) ordinal = from->device();
    if (!resource && is_cpu) resource = std::make_shared<SystemMemoryResource>(ordinal);
    if (!resource && has_resource_scope(ordinal)) resource = current_resource(ordinal);  // Python's scopes need the GIL
    Buffer memory = [&] {
        std::optional<WithoutGil> nogil;
        if (holds_gil()) nogil.emplace();
        if (!resource) resource = default_resource(ordinal);
        const auto stream = Stream::from_handle(handle, ordinal);
        Buffer made(resource, nbytes, stream);
        // The host follows no stream; a pool hands it memory that is idle.
        if (is_cpu && resource->is_stream_ordered() && resource->as_pool() == nullptr) stream->settle();
        return made;
    }();
    void* data = memory.ptr();
    const auto header = header_of(memory, nullptr, dlpack::kVersion, false);
    const auto ndim = static_cast<std::size_t>(like.ndim);
    return make_managed(header, std::move(memory), data, like.device, like.dtype, ndim,
                        [&](std::int64_t* extents) { dlpack::write_extents(extents, like.shape, ndim); })
        .release();
}

py::tuple dlpack_device(const View& view) {
    const dlpack::Devices devices = dlpack::devices_of(view.memory());
    if (devices.empty()) refuse_unnamed(view.memory());
    return to_tuple_of(*devices.begin());
}

py::list dlpack_devices(const View& view) {
    py::list all;
    for (const auto& device : dlpack::devices_of(view.memory())) all.append(to_tuple_of(device));
    return all;
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
