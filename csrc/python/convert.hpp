// SPDX-License-Identifier: MIT
// python/convert.hpp: Python's arguments as C++ ones. Everything here needs the GIL and throws before a runtime call.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "buffer_object.hpp"  // here, so that every file that binds a function of Buffers has their conversion
#include "fastcall.hpp"
#include "portamem/strided_span.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

// Slow path of to_size(), and the Stream type that stream_in() compares with (Stream is final, so an exact match is
// enough).
std::size_t to_size_by_rules(const py::handle& value, const char* what);
extern const PyTypeObject* stream_type;

/// Returns bytes from an int or text such as "64 MiB". `what` names it in messages.
inline std::size_t to_size(const py::handle& value, const char* what = "size") {
    if (PyLong_CheckExact(value.ptr())) {  // the usual case
        const Py_ssize_t size = PyLong_AsSsize_t(value.ptr());
        if (size >= 0) return static_cast<std::size_t>(size);
        PyErr_Clear();
    }
    return to_size_by_rules(value, what);
}

/// is_flag returns whether a value is True or False, or NumPy's; to_flag returns which. `what` names it in messages.
bool is_flag(const py::handle& value);
bool to_flag(const py::handle& value, const char* what);

/// Returns a count: an int from 0.
std::size_t to_count(const py::handle& value, const char* what);

/// Returns text that C++ can hold. Throws ValueError for text that no encoding has, such as half a pair of surrogates.
std::string to_text(const py::handle& value, const char* what);

/// Returns a byte value: an int from 0 to 255.
unsigned char to_byte(const py::handle& value);

/// Returns a Device, from a Device, an ordinal, or None for the calling thread's current device.
Device to_device(const py::handle& value);

/// Returns a Stream, from a Stream or a foreign stream object; null for None.
std::shared_ptr<Stream> to_stream(const py::handle& value);

/// Returns the reference in a Stream object, valid as long as the object is; null for any other object.
inline const std::shared_ptr<Stream>* stream_in(PyObject* object) noexcept {
    return Py_TYPE(object) == stream_type ? reference_of<Stream>(object) : nullptr;
}

/// Returns the device of a stream, as the runtime tells it; nothing for a default stream's handle, which each device
/// has, and where the runtime does not say.
std::optional<int> device_of_stream(rt::Stream_t handle);

/// Returns the Stream of a bare handle that a library names for a wait: a stream of any device can wait. `otherwise` is
/// the device of a default stream's handle, and of one of which the runtime does not say.
std::shared_ptr<Stream> stream_of_any_device(rt::Stream_t handle, int otherwise);

/// Is called once the class of streams exists.
void remember_stream_type();

/// Wraps a foreign stream object in a Stream that keeps it alive. The same object gives the same Stream while that is
/// in use.
std::shared_ptr<Stream> wrap_stream(const py::handle& value);

/// Returns a location, from a Device, an ordinal, "host" (or -1), "host_numa:<node>" or "host_numa_current".
rt::Location to_location(const py::handle& value);

/// Returns the memory of a Buffer, View or HostRegistration of this backend, of host memory as host_bytes takes it, or
/// of a foreign object with DLPack or __cuda_array_interface__. It is made ready for work on `stream`, or for null at
/// once. Host memory that is not C-contiguous goes into `strided`, and the Span is empty then; with null it raises
/// ValueError.
Span to_span(const py::handle& value, bool writable, const char* role, const std::shared_ptr<Stream>& stream,
             std::optional<StridedSpan>* strided = nullptr);

/// Returns a MemoryResource of this backend, to build another on.
std::shared_ptr<MemoryResource> to_upstream(const py::handle& value, const char* what = "upstream");

/// Convert an address to a Python int, 0 for null, and back.
std::uintptr_t to_address(const void* ptr);
void* from_address(const py::handle& value, const char* what);

/// Represents one spelling of a value.
template <class E>
struct Spelling {
    std::string_view text;
    E value;
};

[[noreturn]] void refuse_spelling(const char* what, const std::string& given,
                                  const std::vector<std::string_view>& known);

/// Returns the value of a text, or of an enum whose value is that text.
template <class E, std::size_t N>
E from_text(const char* what, const py::handle& given, const Spelling<E> (&table)[N]) {
    if (!py::isinstance<py::str>(given)) {
        throw py::type_error(std::string(what) + " is text, not " + type_name(given));
    }
    const py::object plain =
        py::hasattr(given, "value") ? py::object(given.attr("value")) : py::reinterpret_borrow<py::object>(given);
    const std::string text = to_text(plain, what);
    std::vector<std::string_view> known;
    for (const auto& entry : table) {
        if (entry.text == text) return entry.value;
        known.push_back(entry.text);
    }
    refuse_spelling(what, text, known);
}

template <class E, std::size_t N>
std::string to_text(E value, const Spelling<E> (&table)[N]) {
    for (const auto& entry : table) {
        if (entry.value == value) return std::string(entry.text);
    }
    return "unknown";
}

inline constexpr Spelling<rt::Coherence> kCoherence[] = {
    {"default", rt::Coherence::Default},          {"coherent", rt::Coherence::Coherent},
    {"non_coherent", rt::Coherence::NonCoherent}, {"fine_grained", rt::Coherence::FineGrained},
    {"uncached", rt::Coherence::Uncached},
};

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
