// SPDX-License-Identifier: MIT
// python/arrow.cpp: Views as arrays of Apache Arrow, by its C data interface and its C device data interface.
#include "arrow.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "convert.hpp"
#include "dlpack.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {
namespace arrow {

namespace {

// Have the layouts of Arrow's ArrowSchema, ArrowArray and ArrowDeviceArray. A struct whose release is null is taken, or
// released.
struct Schema {
    const char* format;
    const char* name;
    const char* metadata;
    std::int64_t flags;
    std::int64_t n_children;
    Schema** children;
    Schema* dictionary;
    void (*release)(Schema*);
    void* owner;

    static constexpr const char* kName = "arrow_schema";
    void end() {
        if (release != nullptr) release(this);
    }
};

struct Array {
    std::int64_t length;
    std::int64_t null_count;
    std::int64_t offset;
    std::int64_t n_buffers;
    std::int64_t n_children;
    const void** buffers;
    Array** children;
    Array* dictionary;
    void (*release)(Array*);
    void* owner;

    static constexpr const char* kName = "arrow_array";
    void end() {
        if (release != nullptr) release(this);
    }
};

struct DeviceArray {
    Array array;
    std::int64_t device_id;
    std::int32_t device_type;  // DLPack's numbers
    void* sync_event;
    std::int64_t reserved[3];

    static constexpr const char* kName = "arrow_device_array";
    void end() { array.end(); }
};

static_assert(offsetof(Schema, release) == 56 && sizeof(Schema) == 72);
static_assert(offsetof(Array, release) == 64 && sizeof(Array) == 80);
static_assert(offsetof(DeviceArray, sync_event) == 96 && sizeof(DeviceArray) == 128);

constexpr std::int64_t kNullable = 2;  // as arrays of Arrow's own libraries are, of which none has to have a null

// ----- the capsules

// A consumer moves the struct out and sets the release that it leaves behind to null. What it has not taken is released
// with the capsule.
template <class Struct>
void destroy_capsule(PyObject* capsule) {
    const PendingErrorKept pending;
    auto* made = static_cast<Struct*>(PyCapsule_GetPointer(capsule, Struct::kName));
    if (made == nullptr) return;
    made->end();
    delete made;
}

template <class Struct>
py::object make_capsule(std::unique_ptr<Struct> made) {
    PyObject* capsule = PyCapsule_New(made.get(), Struct::kName, destroy_capsule<Struct>);
    if (capsule == nullptr) {
        made->end();
        throw py::error_already_set();
    }
    (void)made.release();
    return py::reinterpret_steal<py::object>(capsule);
}

// ----- the schema

[[noreturn]] void refuse(const std::string& what) { throw ExportError(what); }

// Returns Arrow's name of the element type.
const char* format_of(const ElementType& type) {
    static constexpr const char* ints[] = {"c", "s", "i", "l"};
    static constexpr const char* uints[] = {"C", "S", "I", "L"};
    static constexpr const char* floats[] = {nullptr, "e", "f", "g"};
    const int power = type.bits == 8 ? 0 : type.bits == 16 ? 1 : type.bits == 32 ? 2 : type.bits == 64 ? 3 : -1;
    const char* format = nullptr;
    if (power >= 0 && type.code == dlpack::Int) format = ints[power];
    if (power >= 0 && type.code == dlpack::UInt) format = uints[power];
    if (power >= 0 && type.code == dlpack::Float) format = floats[power];
    if (format != nullptr) return format;
    if (type.code == dlpack::Bool) {
        refuse("Arrow packs eight bools into a byte, and these have a byte each: give them as view(\"uint8\")");
    }
    const bool is_complex = type.code == dlpack::Complex;
    const std::string bits = std::to_string(is_complex ? type.bits / 2 : 8 * type.itemsize);
    refuse("Arrow has no type for " + type.name + ": convert the elements, or give their " +
           (is_complex ? "parts as view(\"float" : "bits as view(\"uint") + bits + "\")");
}

py::object make_schema(const char* format) {
    auto schema = std::make_unique<Schema>();
    *schema = {format, "", nullptr, kNullable, 0, nullptr, nullptr, [](Schema* ended) { ended->release = nullptr; },
               nullptr};
    return make_capsule(std::move(schema));
}

// ----- the array

// Owns what an array shows. Its end needs no Python, so a consumer may let go on any thread, and also when the
// interpreter is gone.
struct Exported {
    Buffer memory;                                // the export
    const void* buffers[2] = {nullptr, nullptr};  // which elements are null: none; and the elements

    static void release(Array* array) noexcept {
        delete static_cast<Exported*>(array->owner);
        array->owner = nullptr;
        array->release = nullptr;
    }
};

void fill(Array& array, const View& view, Buffer memory) {
    static const char nothing = 0;  // some consumers refuse a null address, even of no bytes
    const void* data = view.size() == 0 ? nullptr : address_for_program(memory);
    auto owner = std::unique_ptr<Exported>(new Exported{std::move(memory)});
    owner->buffers[1] = data == nullptr ? &nothing : data;
    array = {static_cast<std::int64_t>(view.size()),
             0,
             0,
             2,
             0,
             owner->buffers,
             nullptr,
             nullptr,
             Exported::release,
             nullptr};
    array.owner = owner.release();
}

// Returns the format of the View's elements where Arrow has an array for it.
const char* require_array(const View& view) {
    const char* format = format_of(view.type());
    if (view.shape().size() != 1) {
        refuse("Arrow's arrays have one dimension, and the view has the shape " + text_of(view.shape()) +
               ": give its ravel()");
    }
    if (!view.is_contiguous()) {
        refuse("Arrow's arrays have no gaps, and the view has strides of " + text_of(view.strides()) +
               " bytes: copy it first (to_numpy)");
    }
    return format;
}

void require_schema(const py::object& requested) {
    if (requested.is_none() || PyCapsule_IsValid(requested.ptr(), Schema::kName) != 0) return;
    throw py::type_error("requested_schema is a capsule \"arrow_schema\" or None, not " + type_name(requested));
}

void refuse_keywords(const py::kwargs& keywords) {
    for (const auto& [name, value] : keywords) {
        if (value.is_none()) continue;
        PyErr_SetString(
            PyExc_NotImplementedError,
            ("__arrow_c_device_array__ does not know the keyword " + py::str(name).cast<std::string>()).c_str());
        throw py::error_already_set();
    }
}

// Waits for the declared work. A consumer of device memory has no way to say on which stream it works, so the default
// stream counts as declared from here on.
void make_ready(const Buffer& memory, bool is_device) {
    const auto allocation = memory.allocation();  // another thread may close the view meanwhile
    const WithoutGil nogil;
    allocation->synchronize_declared();
    if (is_device) allocation->hand_over(Stream::default_stream(memory.traits().device));
}

}  // namespace

}  // namespace arrow

py::tuple export_arrow(const View& view, const py::object& requested_schema) {
    refuse_forked();
    Buffer memory = view.memory().sub(0, view.memory().nbytes());
    arrow::require_schema(requested_schema);
    const char* format = arrow::require_array(view);
    require_host_access(memory, "an Arrow array");
    arrow::make_ready(memory, false);
    py::object schema = arrow::make_schema(format);
    auto array = std::make_unique<arrow::Array>();
    arrow::fill(*array, view, std::move(memory));
    return py::make_tuple(std::move(schema), arrow::make_capsule(std::move(array)));
}

py::tuple export_arrow_device(const View& view, const py::object& requested_schema, const py::kwargs& keywords) {
    refuse_forked();
    Buffer memory = view.memory().sub(0, view.memory().nbytes());
    arrow::require_schema(requested_schema);
    arrow::refuse_keywords(keywords);
    const char* format = arrow::require_array(view);
    // Arrow's consumers cannot ask for a device: they take the one that they are given, or refuse it. PyArrow refuses
    // the types of page-locked and of managed memory, so what the host reaches is given as the CPU's.
    const bool is_cpu = memory.traits().host_accessible;
    const dlpack::Devices devices = dlpack::devices_of(memory);
    if (devices.empty()) require_host_access(memory, "an Arrow array of this backend");
    arrow::make_ready(memory, !is_cpu);
    py::object schema = arrow::make_schema(format);
    auto array = std::make_unique<arrow::DeviceArray>();
    array->device_id = is_cpu ? -1 : memory.traits().device;  // Arrow's CPU is -1
    array->device_type = is_cpu ? rt::DlpackCpu : devices.begin()->type;
    arrow::fill(array->array, view, std::move(memory));
    return py::make_tuple(std::move(schema), arrow::make_capsule(std::move(array)));
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
