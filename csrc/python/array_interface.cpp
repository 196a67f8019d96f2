// SPDX-License-Identifier: MIT
// python/array_interface.cpp: __array_interface__ and __cuda_array_interface__.
#include "array_interface.hpp"

#include "buffer_object.hpp"
#include "convert.hpp"
#include "host_export.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

py::dict array_interface(const View& view, int version) {
    py::dict interface;
    interface["shape"] = to_tuple(view.shape());
    interface["typestr"] = view.type().typestr;
    interface["data"] = py::make_tuple(to_address(address_for_program(view.memory())), view.is_read_only());
    interface["strides"] = py::none();
    interface["version"] = version;
    return interface;
}

[[noreturn]] void missing(const char* attribute, const char* why) {
    throw py::attribute_error(std::string(attribute) + ": " + why);
}

}  // namespace

py::dict host_interface(const View& view) {
    if (!view.memory().traits().host_accessible) missing("__array_interface__", "the host cannot reach this memory");
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
