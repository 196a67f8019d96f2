// SPDX-License-Identifier: MIT
// python/fast/arrays.cpp: empty and zeros: typed memory in one call.
//
// A pool hands memory out in less time than Python takes to call a function. So the way from the arguments to the View
// runs no Python code, makes only the two objects that it returns, and keeps the objects that it looked up: those of
// default resources and of default streams.
#include "arrays.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "../convert.hpp"
#include "../resources.hpp"
#include "view_object.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Represents a shape, as Python gives it. A shape of a few dimensions takes no memory of its own.
class Extents {
  public:
    explicit Extents(PyObject* shape) {
        if (!add_plain(shape)) add_by_rules(shape);
    }

    const std::size_t* data() const noexcept { return many_.empty() ? few_.data() : many_.data(); }
    std::size_t ndim() const noexcept { return ndim_; }

    // Returns the bytes of the elements. Throws ValueError where that is more than any memory has.
    std::size_t nbytes(std::size_t itemsize) const {
        std::size_t product = itemsize;
        for (std::size_t i = 0; i < ndim_; ++i) {
            const std::size_t extent = data()[i];
            if (extent == kTooLarge || __builtin_mul_overflow(product, extent, &product) || product > PTRDIFF_MAX) {
                refuse(itemsize);
            }
        }
        return product;
    }

  private:
    static constexpr std::size_t kTooLarge = ~std::size_t{0};

    // Adds an int, or a tuple or list of ints, which is the usual case. Returns false, and adds nothing, for all else.
    bool add_plain(PyObject* shape) {
        if (PyLong_CheckExact(shape)) return add_plain(&shape, 1);
        if (PyTuple_CheckExact(shape)) return add_plain(&PyTuple_GET_ITEM(shape, 0), PyTuple_GET_SIZE(shape));
        if (PyList_CheckExact(shape)) return add_plain(&PyList_GET_ITEM(shape, 0), PyList_GET_SIZE(shape));
        return false;
    }
    bool add_plain(PyObject* const* extents, Py_ssize_t ndim) {
        if (static_cast<std::size_t>(ndim) > few_.size()) return false;
        for (Py_ssize_t i = 0; i < ndim; ++i) {
            if (!PyLong_CheckExact(extents[i])) return false;
            const Py_ssize_t extent = PyLong_AsSsize_t(extents[i]);
            if (extent < 0) {
                PyErr_Clear();
                return false;
            }
            few_[static_cast<std::size_t>(i)] = static_cast<std::size_t>(extent);
        }
        ndim_ = static_cast<std::size_t>(ndim);
        return true;
    }

    // Adds any other shape, by the rules in Python, which refuse an object that is no shape.
    void add_by_rules(PyObject* shape) {
        given_ = py::module_::import("portamem._arrays").attr("extents_of")(py::handle(shape));
        for (const py::handle extent : given_) {
            const Py_ssize_t value = PyLong_AsSsize_t(extent.ptr());
            PyErr_Clear();
            many_.push_back(value < 0 ? kTooLarge : static_cast<std::size_t>(value));
        }
        ndim_ = many_.size();
    }

    [[noreturn]] void refuse(std::size_t itemsize) const {
        py::tuple extents = given_;
        if (many_.empty()) extents = to_tuple(View::Shape(few_.begin(), few_.begin() + ndim_));
        py::int_ nbytes = itemsize;
        for (const py::handle extent : extents) nbytes = py::int_(nbytes * py::reinterpret_borrow<py::object>(extent));
        (void)to_size(nbytes);  // throws, unless an extent is 0
        throw py::value_error("a view of shape " + py::str(extents).cast<std::string>() + " is larger than any memory");
    }

    std::array<std::size_t, 8> few_{};
    std::vector<std::size_t> many_;
    std::size_t ndim_ = 0;
    py::tuple given_{0};
};

// Keeps objects by device. It needs the GIL.
class KeptObjects {
  public:
    PyObject*& of(int device) {
        const auto index = static_cast<std::size_t>(device);
        if (index >= objects_.size()) objects_.resize(index + 1, nullptr);
        return objects_[index];
    }

    void forget() {
        for (PyObject* const object : std::exchange(objects_, {})) Py_XDECREF(object);
    }

  private:
    std::vector<PyObject*> objects_;
};

// Returns the object of a device's default stream; borrowed.
PyObject* default_stream_object(int device) {
    static auto* kept = new KeptObjects;
    if (PyObject* known = kept->of(device)) return known;
    PyObject* made = py::cast(Stream::default_stream(device)).release().ptr();
    return kept->of(device) = made;
}

KeptObjects& default_objects() {
    static auto* kept = new KeptObjects;
    return *kept;
}

// Returns where the object of a device's default resource is kept: null after the process's defaults have changed.
PyObject*& default_object(int device) {
    forget_changed_defaults();
    return default_objects().of(device);
}

bool is_named(PyObject* argument) noexcept { return argument != nullptr && argument != Py_None; }

// Returns the calling thread's current device, or the device that is named.
int ordinal_of(PyObject* device) {
    if (is_named(device)) return to_device(device).ordinal();
    int current = 0;
    int count = 0;
    refuse_forked();
    // Where a process has one device, the question which is current costs a microsecond on a thread without a context.
    if (rt::GetDeviceCount(&count) == rt::Error_t::Success && count == 1) return 0;
    if (rt::GetDevice(&current) == rt::Error_t::Success && current >= 0) return current;
    return to_device(py::none()).ordinal();  // says why there is none
}

py::object current_resource_object(PyObject* device) {
    const int ordinal = ordinal_of(device);
    if (has_resource_scope(ordinal)) return py::cast(current_resource(ordinal));
    if (PyObject* known = default_object(ordinal)) return py::reinterpret_borrow<py::object>(known);
    const int checked = Device(ordinal).ordinal();
    const std::uint64_t changes = portamem_default_changes();
    const auto resource = [checked] {
        const WithoutGil nogil;
        return default_resource(checked);
    }();
    py::object object = py::cast(resource);
    PyObject*& kept = default_object(ordinal);
    if (kept == nullptr && changes == portamem_default_changes()) kept = Py_NewRef(object.ptr());
    return object;
}

std::string text_of_object(const py::handle& object) { return py::repr(object).cast<std::string>(); }

// Returns the resource to take from, as an object.
py::object resource_object(PyObject* resource, PyObject* device) {
    static const auto* type = reinterpret_cast<PyTypeObject*>(py::type::of<MemoryResource>().release().ptr());
    if (!is_named(resource)) return current_resource_object(device);
    if (!PyObject_TypeCheck(resource, const_cast<PyTypeObject*>(type))) {
        throw py::type_error(text_of_object(resource) + " is not a memory resource of portamem." + rt::BackendName);
    }
    const auto* known = value_of<MemoryResource>(resource);
    if (known == nullptr)
        throw py::type_error("the resource was made without its __init__: call its class instead of __new__");
    if (is_named(device) && to_device(device).ordinal() != known->device()) {
        throw py::value_error("the resource is of " + text_of_object(py::cast(Device(known->device()))) + ", not of " +
                              text_of_object(py::cast(to_device(device))) + ": name that device, or none");
    }
    return py::reinterpret_borrow<py::object>(resource);
}

struct ArrayRequest {
    PyObject* shape;
    PyObject* dtype;
    PyObject* resource;
    PyObject* device;
    PyObject* stream;
};

// Says whether the memory waits to be there for all streams, as that of empty without a stream does. The memory of
// zeros goes to the next work on its stream first.
enum class There { ForAllStreams, ForItsStream };

py::object make_array(const ArrayRequest& request, There there) {
    const Extents extents(request.shape);
    const ElementType& type = to_element_type(request.dtype);
    const std::size_t nbytes = extents.nbytes(type.itemsize);
    const py::object resource = resource_object(request.resource, request.device);
    auto& known = *value_of<MemoryResource>(resource.ptr());
    const bool unnamed = !is_named(request.stream) && known.is_stream_ordered();
    PyObject* stream = unnamed ? default_stream_object(known.device()) : request.stream;
    auto buffer = py::reinterpret_steal<py::object>(
        allocate_buffer(resource.ptr(), known, nbytes, stream, MemoryResource::kAlignment));
    const Buffer& memory = *buffer_of(buffer);
    if (unnamed && there == There::ForAllStreams) memory.settle_when_exposed();
    return open_view(std::move(buffer), memory, type, extents.data(), extents.ndim(), 0);
}

ArrayRequest parse(const Parameters<5>& parameters, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    static PyObject* const float64 = PyUnicode_InternFromString("float64");
    const auto [shape, dtype, resource, device, stream] = parameters.parse(args, nargs, keywords);
    if (shape == nullptr) parameters.missing(0);
    return {shape, dtype == nullptr ? float64 : dtype, resource, device, stream};
}

constexpr std::array<const char*, 5> kParameters = {"shape", "dtype", "resource", "device", "stream"};

PyObject* empty(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return answer_python([&] {
        static const Parameters<5> parameters("empty", 2, kParameters);
        return make_array(parse(parameters, args, nargs, keywords), There::ForAllStreams).release().ptr();
    });
}

PyObject* zeros(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return answer_python([&] {
        static const Parameters<5> parameters("zeros", 2, kParameters);
        const ArrayRequest request = parse(parameters, args, nargs, keywords);
        py::object view = make_array(request, There::ForItsStream);
        const auto on = to_stream(is_named(request.stream) ? py::handle(request.stream) : py::none());
        {
            const Span span = Span::of(view_of(view)->memory());
            const WithoutGil nogil;
            (void)fill(span, 0, on);
        }
        return view.release().ptr();
    });
}

}  // namespace

void forget_changed_defaults() {
    static std::uint64_t changes = 0;
    const std::uint64_t now = portamem_default_changes();
    if (now == changes) return;
    changes = now;
    default_objects().forget();
}

void register_arrays(py::module_& m) {
    static PyMethodDef functions[] = {
        fast_method<empty>("empty"),
        fast_method<zeros>("zeros"),
        {nullptr, nullptr, 0, nullptr},
    };
    if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw py::error_already_set();
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
