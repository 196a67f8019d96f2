// SPDX-License-Identifier: MIT
// python/composed_resources.cpp: resources over another one's chunks, and over the program's own functions.
#include "callbacks.hpp"
#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using FixedSize = FixedSizeMemoryResource;
using Monotonic = MonotonicMemoryResource;
using Callback = CallbackMemoryResource;

constexpr Spelling<ResourceKind> kMemoryKinds[] = {
    {"device", ResourceKind::Device},   {"pinned", ResourceKind::Pinned}, {"managed", ResourceKind::Managed},
    {"system", ResourceKind::System},   {"async", ResourceKind::Async},   {"virtual", ResourceKind::Virtual},
    {"foreign", ResourceKind::Foreign},
};

std::shared_ptr<FixedSize> make_fixed_size(const py::object& upstream, const py::object& block_size,
                                           const py::object& blocks_per_chunk) {
    std::size_t count = 0;
    if (!blocks_per_chunk.is_none()) {
        count = to_count(blocks_per_chunk, "blocks_per_chunk");
        if (count == 0) throw py::value_error("blocks_per_chunk cannot be 0: a chunk has at least 1 block");
    }
    return std::make_shared<FixedSize>(to_upstream(upstream), to_size(block_size, "block_size"), count);
}

// Drops the GIL, because the thread that has the resource's lock may be waiting for it.
template <class Resource, auto Get>
std::size_t unlocked_figure(const Resource& self) {
    const WithoutGil nogil;
    return (self.*Get)();
}

// Returns the address of a C function: an int, a ctypes function pointer, or an object that has it, such as Numba's
// cfunc. Returns null for a function that Python calls.
void* native_function(const py::object& function, const char* what) {
    if (PyBool_Check(function.ptr())) throw py::type_error(std::string(what) + " is a function, not a bool");
    void* address = nullptr;
    if (PyIndex_Check(function.ptr()) != 0) {
        address = from_address(function, what);
    } else if (py::isinstance(function, py::module_::import("_ctypes").attr("CFuncPtr"))) {
        const py::object ctypes = py::module_::import("ctypes");
        const py::object value = ctypes.attr("cast")(function, ctypes.attr("c_void_p")).attr("value");
        if (!value.is_none()) address = from_address(value, what);
    } else if (py::hasattr(function, "address") && PyIndex_Check(py::object(function.attr("address")).ptr()) != 0) {
        address = from_address(function.attr("address"), what);
    } else if (PyCallable_Check(function.ptr()) != 0) {
        return nullptr;
    } else {
        throw py::type_error(std::string(what) + " is a Python function, a C function pointer of ctypes, or its " +
                             "address, not " + type_name(function));
    }
    if (address == nullptr) throw py::value_error(std::string(what) + " is a null pointer");
    return address;
}

void* native_stream(const Stream& stream) { return reinterpret_cast<void*>(stream.handle()); }

Callback::Allocate to_allocate(const py::object& function, void* user_data) {
    const auto held = hold(function);
    if (void* address = native_function(function, "allocate")) {
        const auto native = reinterpret_cast<Callback::AllocateFn>(address);
        return [held, native, user_data](std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
            return native(nbytes, native_stream(*stream), user_data);
        };
    }
    return [held](std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        return call_python([&] {
            return from_address(call(held_object(held), nbytes, stream),
                                "the address that the allocate function returned");
        });
    };
}

Callback::Deallocate to_deallocate(const py::object& function, void* user_data) {
    const auto held = hold(function);
    if (void* address = native_function(function, "deallocate")) {
        const auto native = reinterpret_cast<Callback::DeallocateFn>(address);
        return [held, native, user_data](void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
            native(ptr, nbytes, native_stream(*stream), user_data);
        };
    }
    return [held](void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        call_python([&] { (void)call(held_object(held), to_address(ptr), nbytes, stream); });
    };
}

std::shared_ptr<Callback> make_callback(const py::object& allocate, const py::object& deallocate,
                                        const py::object& device, const py::object& kind,
                                        const std::optional<bool>& host_accessible,
                                        const std::optional<bool>& stream_ordered, const py::object& user_data) {
    MemoryTraits traits = Callback::memory_of(from_text("kind", kind, kMemoryKinds), to_device(device).ordinal());
    traits.host_accessible = host_accessible.value_or(traits.host_accessible);
    traits.stream_ordered = stream_ordered.value_or(traits.stream_ordered);
    void* data = from_address(user_data, "user_data");
    return std::make_shared<Callback>(to_allocate(allocate, data), to_deallocate(deallocate, data), traits);
}

}  // namespace

void register_composed_resources(py::module_& m) {
    py::class_<FixedSize, std::shared_ptr<FixedSize>, MemoryResource>(m, "FixedSizeMemoryResource", py::is_final())
        .def(py::init(&make_fixed_size), py::arg("upstream"), py::arg("block_size"), py::kw_only(),
             py::arg("blocks_per_chunk") = py::none())
        .def_property_readonly("upstream", &FixedSize::upstream)
        .def_property_readonly("block_size", &FixedSize::block_size)
        .def_property_readonly("blocks_per_chunk", &FixedSize::blocks_per_chunk)
        .def_property_readonly("reserved", &unlocked_figure<FixedSize, &FixedSize::reserved>)
        .def(
            "trim",
            [](FixedSize& self, const py::object& keep) {
                const std::size_t bytes = to_size(keep, "keep");
                const WithoutGil nogil;
                self.trim(bytes);
            },
            py::arg("keep") = 0);

    py::class_<Monotonic, std::shared_ptr<Monotonic>, MemoryResource>(m, "MonotonicMemoryResource", py::is_final())
        .def(py::init([](const py::object& upstream, const py::object& initial_size) {
                 return std::make_shared<Monotonic>(to_upstream(upstream), to_size(initial_size, "initial_size"));
             }),
             py::arg("upstream"), py::kw_only(), py::arg("initial_size") = Monotonic::kInitialSize)
        .def_property_readonly("upstream", &Monotonic::upstream)
        .def_property_readonly("initial_size", &Monotonic::initial_size)
        .def_property_readonly("reserved", &unlocked_figure<Monotonic, &Monotonic::reserved>)
        .def("release", [](Monotonic& self) {
            const WithoutGil nogil;
            self.release();
        });

    py::class_<Callback, std::shared_ptr<Callback>, MemoryResource>(m, "CallbackMemoryResource", py::is_final())
        .def(py::init(&make_callback), py::arg("allocate"), py::arg("deallocate"), py::kw_only(),
             py::arg("device") = py::none(), py::arg("kind") = "device", py::arg("host_accessible") = py::none(),
             py::arg("stream_ordered") = py::none(), py::arg("user_data") = 0);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
