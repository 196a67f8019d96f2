// SPDX-License-Identifier: MIT
// python/transfer.hpp: copies and fills without the GIL, and fill on everything that has memory.
#pragma once

#include "convert.hpp"
#include "event.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Runs a copy or a fill without the GIL and returns its Event, or None where it had no stream.
template <class Transfer>
py::object transfer_unlocked(Transfer&& transfer) {
    std::shared_ptr<Event> done;
    {
        const WithoutGil nogil;
        done = transfer();
    }
    return to_python(std::move(done));
}

inline py::object copy_unlocked(const Span& dst, const Span& src, const std::shared_ptr<Stream>& stream) {
    return transfer_unlocked([&] { return copy(dst, src, stream); });
}

/// Defines fill on a class; `span_of(self)` is its memory.
template <class Class, class SpanOf>
void define_fill(Class& type, SpanOf span_of) {
    using Self = typename Class::type;
    type.def(
        "fill",
        [span_of](Self& self, const py::object& value, const py::object& stream) {
            const unsigned char byte = to_byte(value);
            const auto on = to_stream(stream);
            const Span span = span_of(self);
            return transfer_unlocked([&] { return fill(span, byte, on); });
        },
        py::arg("value"), py::kw_only(), py::arg("stream") = py::none());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
