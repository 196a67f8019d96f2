// SPDX-License-Identifier: MIT
// python/copy.cpp: copy_2d, copy_3d, fill_2d.
#include "hold.hpp"
#include "transfer.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Returns the caller's value, or else the value of a PitchedBuffer, the target before the source.
std::size_t rows_value(const py::object& given, const char* what, std::size_t (PitchedBuffer::*known)() const noexcept,
                       const PitchedBuffer* dst, const PitchedBuffer* src, const char* call) {
    if (!given.is_none()) return to_size(given, what);
    if (dst != nullptr) return (dst->*known)();
    if (src != nullptr) return (src->*known)();
    throw py::type_error(std::string(call) + " needs " + what + ": neither end is a PitchedBuffer that knows it");
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
    rows.width = rows_value(width, "width", &PitchedBuffer::width, to, from, "copy_2d");
    rows.height = rows_value(height, "height", &PitchedBuffer::height, to, from, "copy_2d");
    rows.dst_pitch = pitch_of(dst_pitch, "dst_pitch", to, rows.width);
    rows.src_pitch = pitch_of(src_pitch, "src_pitch", from, rows.width);
    const auto on = to_stream(stream);
    const Span target = to_span(dst, true, "the target", on);
    const Span source = to_span(src, false, "the source", on);
    return transfer_unlocked([&] { return copy_2d(target, source, rows, on); });
}

std::size_t rows_of(const py::object& given, const char* what, std::size_t height) {
    return given.is_none() ? height : to_count(given, what);
}

py::object copy_box(const py::object& dst, const py::object& src, const py::object& width, const py::object& height,
                    const py::object& depth, const py::object& dst_pitch, const py::object& src_pitch,
                    const py::object& dst_rows, const py::object& src_rows, const py::object& stream) {
    const PitchedBuffer* to = pitched_buffer_of(dst);
    const PitchedBuffer* from = pitched_buffer_of(src);
    Box3D box;
    box.width = rows_value(width, "width", &PitchedBuffer::width, to, from, "copy_3d");
    box.height = to_count(height, "height");
    box.depth = to_count(depth, "depth");
    box.dst_pitch = pitch_of(dst_pitch, "dst_pitch", to, box.width);
    box.src_pitch = pitch_of(src_pitch, "src_pitch", from, box.width);
    box.dst_rows = rows_of(dst_rows, "dst_rows", box.height);
    box.src_rows = rows_of(src_rows, "src_rows", box.height);
    const auto on = to_stream(stream);
    const Span target = to_span(dst, true, "the target", on);
    const Span source = to_span(src, false, "the source", on);
    return transfer_unlocked([&] { return copy_3d(target, source, box, on); });
}

py::object fill_rows(const PitchedBuffer& dst, const py::object& value, const py::object& stream) {
    const unsigned char byte = to_byte(value);
    const auto on = to_stream(stream);
    const Span span = Span::of(dst);
    return transfer_unlocked([&] { return fill_2d(span, dst.pitch(), dst.width(), dst.height(), byte, on); });
}

}  // namespace

void register_copy(py::module_& m) {
    // The threads that carry a large copy (0: the runtime's own call does it), and the bytes from which on they do.
    m.def("_staged_copies",
          [] { return py::make_tuple(portamem::detail::copy_threads(), portamem::detail::kStagedFrom); });
    m.def("copy_2d", &copy_rows, py::arg("dst"), py::arg("src"), py::kw_only(), py::arg("width") = py::none(),
          py::arg("height") = py::none(), py::arg("dst_pitch") = py::none(), py::arg("src_pitch") = py::none(),
          py::arg("stream") = py::none());
    m.def("copy_3d", &copy_box, py::arg("dst"), py::arg("src"), py::kw_only(), py::arg("width") = py::none(),
          py::arg("height"), py::arg("depth"), py::arg("dst_pitch") = py::none(), py::arg("src_pitch") = py::none(),
          py::arg("dst_rows") = py::none(), py::arg("src_rows") = py::none(), py::arg("stream") = py::none());
    m.def("fill_2d", &fill_rows, py::arg("dst"), py::arg("value"), py::kw_only(), py::arg("stream") = py::none());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
