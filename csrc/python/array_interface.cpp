// SPDX-License-Identifier: MIT
// python/array_interface.cpp: __array_interface__ and __cuda_array_interface__.
#include "array_interface.hpp"

#include "buffer_object.hpp"
#include "convert.hpp"
#include "host_export.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

[[noreturn]] void missing(const char* attribute, const std::string& why) {
    throw py::attribute_error(std::string(attribute) + ": " + why);
}

void require_typestr(const View& view, const char* attribute) {
    if (view.type().format.empty()) {
        missing(attribute, "array interfaces have no name for " + view.type().name + ": use DLPack");
    }
}

py::dict array_interface(const View& view, int version) {
    py::dict interface;
    interface["shape"] = to_tuple(view.shape());
    interface["typestr"] = view.type().typestr;
    interface["data"] = py::make_tuple(to_address(address_for_program(view.memory())), view.is_read_only());
    interface["strides"] = view.is_contiguous() ? py::object(py::none()) : py::object(to_tuple(view.strides()));
    interface["version"] = version;
    return interface;
}

}  // namespace

py::dict host_interface(const View& view) {
    if (!view.memory().traits().host_accessible) missing("__array_interface__", "the host cannot reach this memory");
    require_typestr(view, "__array_interface__");
    refuse_after_signal();
    const auto allocation = view.memory().allocation();  // another thread may close the view meanwhile
    {
        const WithoutGil nogil;
        allocation->synchronize_declared();
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
    require_typestr(view, "__cuda_array_interface__");
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
    // The protocol has no number for this stream, so its work is waited for, and no stream is named.
    {
        const WithoutGil nogil;
        stream->synchronize();
    }
    interface["stream"] = py::none();
    return interface;
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
