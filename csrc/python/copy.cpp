// SPDX-License-Identifier: MIT
// python/copy.cpp: copy, copy_2d, fill_2d.
#include "hold.hpp"
#include "transfer.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

py::object copy_any(const py::object& dst, const py::object& src, const py::object& stream) {
    return copy_unlocked(to_span(dst, true, "the target"), to_span(src, false, "the source"), to_stream(stream));
}

// What the caller gave, or what a PitchedBuffer knows, the target before the source.
std::size_t rows_value(const py::object& given, const char* what, std::size_t (PitchedBuffer::*known)() const noexcept,
                       const PitchedBuffer* dst, const PitchedBuffer* src) {
    if (!given.is_none()) return to_size(given, what);
    if (dst != nullptr) return (dst->*known)();
    if (src != nullptr) return (src->*known)();
    throw py::type_error(std::string("copy_2d needs ") + what + ": neither end is a PitchedBuffer that knows it");
}

std::size_t pitch_of(const py::object& given, const char* what, const PitchedBuffer* memory, std::size_t width) {
    if (!given.is_none()) return to_size(given, what);
    return memory != nullptr ? memory->pitch() : width;
}

py::object copy_rows(const py::object& dst, const py::object& src, const py::object& width, const py::object& height,
                     const py::object& dst_pitch, const py::object& src_pitch, const py::object& stream) {
    const PitchedBuffer* to = pitched_buffer_of(dst);
    const PitchedBuffer* from = pitched_buffer_of(src);
    Rows2D rows;
    rows.width = rows_value(width, "width", &PitchedBuffer::width, to, from);
    rows.height = rows_value(height, "height", &PitchedBuffer::height, to, from);
    rows.dst_pitch = pitch_of(dst_pitch, "dst_pitch", to, rows.width);
    rows.src_pitch = pitch_of(src_pitch, "src_pitch", from, rows.width);
    const Span target = to_span(dst, true, "the target");
    const Span source = to_span(src, false, "the source");
    const auto on = to_stream(stream);
    std::shared_ptr<Event> done;
    {
        const WithoutGil nogil;
        done = copy_2d(target, source, rows, on);
    }
    return to_python(std::move(done));
}

py::object fill_rows(const PitchedBuffer& dst, const py::object& value, const py::object& stream) {
    const unsigned char byte = to_byte(value);
    const auto on = to_stream(stream);
    const Span span = Span::of(dst);
    std::shared_ptr<Event> done;
    {
        const WithoutGil nogil;
        done = fill_2d(span, dst.pitch(), dst.width(), dst.height(), byte, on);
    }
    return to_python(std::move(done));
}

}  // namespace

void register_copy(py::module_& m) {
    m.def("copy", &copy_any, py::arg("dst"), py::arg("src"), py::kw_only(), py::arg("stream") = py::none(),
          "Copies all of src to dst, of the same size. With a stream: queued, answers an Event, both ends are kept "
          "alive until it is done. Without: done on return, behind all work declared on the memory; answers None.");
    m.def("copy_2d", &copy_rows, py::arg("dst"), py::arg("src"), py::kw_only(), py::arg("width") = py::none(),
          py::arg("height") = py::none(), py::arg("dst_pitch") = py::none(), py::arg("src_pitch") = py::none(),
          py::arg("stream") = py::none(),
          "Copies `height` rows of `width` bytes. A PitchedBuffer gives its own where they are left out; other memory "
          "is taken as rows without padding. Answers as copy does.");
    m.def("fill_2d", &fill_rows, py::arg("dst"), py::arg("value"), py::kw_only(), py::arg("stream") = py::none(),
          "Sets every byte of the rows, and none of the padding. Answers as copy does.");
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
