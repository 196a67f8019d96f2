// SPDX-License-Identifier: MIT
// python/view.cpp: View.
#include "view.hpp"

#include <utility>

#include "convert.hpp"
#include "dlpack.hpp"
#include "strides.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

[[noreturn]] void refuse_shape(const std::size_t* extents, std::size_t ndim) {
    throw py::value_error("a view of shape " + text_of(View::Shape(extents, extents + ndim)) +
                          " is larger than any memory");
}

// Returns the elements of a shape; throws where their bytes cannot be counted.
std::size_t elements(const std::size_t* extents, std::size_t ndim, std::size_t itemsize) {
    std::size_t count = itemsize;
    for (std::size_t i = 0; i < ndim; ++i) {
        // A product beyond PTRDIFF_MAX is refused, even where a later extent of 0 would make the result small.
        if (extents[i] != 0 && (__builtin_mul_overflow(count, extents[i], &count) || count > PTRDIFF_MAX)) {
            refuse_shape(extents, ndim);
        }
        if (extents[i] == 0) count = 0;
    }
    return count / itemsize;
}

}  // namespace

std::string text_of(const View::Shape& shape) {
    std::string text = "(";
    for (const std::size_t n : shape) text += std::to_string(n) + ", ";
    if (shape.size() > 1) text.resize(text.size() - 2);
    return (shape.size() == 1 ? text.substr(0, text.size() - 1) : text) + ")";
}

View::Shape to_shape(const py::handle& shape) {
    if (PyIndex_Check(shape.ptr()) != 0) return {to_count(shape, "a dimension")};
    if (PySequence_Check(shape.ptr()) == 0 || PyUnicode_Check(shape.ptr())) {
        throw py::type_error("a shape is an int or a sequence of ints");
    }
    View::Shape dimensions;
    for (const auto& n : py::reinterpret_borrow<py::sequence>(shape)) dimensions.push_back(to_count(n, "a dimension"));
    return dimensions;
}

py::tuple to_tuple(const View::Shape& values) {
    py::tuple tuple(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) tuple[i] = values[i];
    return tuple;
}

void View::open(py::object buffer, const Buffer& memory, const ElementType& type, const std::size_t* extents,
                std::size_t ndim, std::size_t offset, const Shape& strides) {
    shape_.assign(extents, extents + ndim);
    strides_.clear();
    lent_.clear();
    type_ = &type;
    std::size_t nbytes = elements(extents, ndim, type.itemsize) * type.itemsize;
    if (nbytes != 0 && !strides.empty() && !is_c_order(extents, strides.data(), ndim, type.itemsize)) {
        const auto reached = reach(extents, strides, type.itemsize);
        if (!reached) throw py::value_error("strides of " + text_of(strides) + " bytes lead beyond any memory");
        nbytes = *reached;
        strides_ = strides;
    }
    memory_ = memory.sub(offset, nbytes);
    buffer_ = std::move(buffer);
}

const Buffer& View::memory() const {
    if (memory_.is_closed()) throw std::invalid_argument("the view is closed");
    return memory_;
}

const Buffer& View::contiguous_memory(const char* role) const {
    const Buffer& all = memory();
    if (!is_contiguous()) {
        throw std::invalid_argument(std::string(role) + " is not C-contiguous: it has the shape " + text_of(shape_) +
                                    " and the strides " + text_of(strides_) +
                                    ". Take parts of it that are, or a copy (to_numpy)");
    }
    return all;
}

View::Shape View::strides() const {
    return is_contiguous() ? c_strides(shape_.data(), shape_.size(), type_->itemsize) : strides_;
}

void View::write_extents(std::int64_t* to) const noexcept {
    const std::size_t ndim = shape_.size();
    dlpack::write_extents(to, shape_.data(), ndim);
    for (std::size_t i = 0; i < strides_.size(); ++i) {
        to[ndim + i] = static_cast<std::int64_t>(strides_[i] / type_->itemsize);
    }
}

std::int64_t* View::lent_extents() const {
    const std::size_t ndim = shape_.size();
    if (lent_.empty() && ndim != 0) {
        lent_.resize(2 * ndim);
        write_extents(lent_.data());
    }
    return lent_.data();
}

std::size_t View::size() const noexcept {
    std::size_t count = 1;
    for (const std::size_t n : shape_) count *= n;
    return count;
}

View View::part(const Shape& shape, const Shape& strides, std::size_t offset) const {
    return View(buffer_, memory(), *type_, shape, offset, strides);
}

View View::reshaped(const Shape& shape) const {
    (void)contiguous_memory("the view");
    if (elements(shape.data(), shape.size(), type_->itemsize) != size()) {
        throw py::value_error("a view of " + std::to_string(size()) + " elements cannot take the shape " +
                              text_of(shape));
    }
    return part(shape, {}, 0);
}

View View::bytes() const {
    static const ElementType& type = to_element_type(py::str("uint8"));
    return View(buffer_, memory(), type, {memory_.nbytes()}, 0);
}

HostExport View::host_export() const {
    if (type_->format.empty()) {
        throw ExportError("the buffer protocol has no name for " + type_->name + ": use numpy.asarray, or DLPack");
    }
    const auto itemsize = static_cast<Py_ssize_t>(type_->itemsize);
    HostExport exported{memory().sub(0, memory_.nbytes()), type_->format, {}, {}, itemsize};
    for (const std::size_t n : shape_) exported.shape.push_back(static_cast<Py_ssize_t>(n));
    for (const std::size_t n : strides()) exported.strides.push_back(static_cast<Py_ssize_t>(n));
    return exported;
}

void View::close() noexcept {
    memory_.abandon();
    buffer_ = py::object();
}

namespace {

// Returns strides as Python gives them; none for C order.
View::Shape to_strides(const py::handle& strides, const View::Shape& shape, const ElementType& type) {
    if (strides.ptr() == nullptr || strides.is_none()) return {};
    if (PySequence_Check(strides.ptr()) == 0 || PyUnicode_Check(strides.ptr())) {
        throw py::type_error("strides are a sequence of ints, in bytes");
    }
    View::Shape bytes;
    for (const auto& n : py::reinterpret_borrow<py::sequence>(strides)) bytes.push_back(to_count(n, "a stride"));
    if (bytes.size() != shape.size()) {
        throw py::value_error(std::to_string(bytes.size()) + " strides for the " + std::to_string(shape.size()) +
                              " dimensions of " + text_of(shape));
    }
    for (const std::size_t stride : bytes) {
        if (stride % type.itemsize == 0) continue;
        throw py::value_error("a stride of " + std::to_string(stride) + " bytes is not a multiple of the " +
                              std::to_string(type.itemsize) + " bytes of " + type.name);
    }
    return bytes;
}

}  // namespace

View make_view(const py::handle& buffer, const py::handle& dtype, const py::handle& shape, const py::handle& offset,
               const py::handle& strides) {
    if (buffer_of(buffer) == nullptr)
        throw py::type_error("the first argument of View is a Buffer: take asarray for other objects");
    const Buffer& memory = *buffer_of(buffer);
    const ElementType& type = to_element_type(dtype);
    const std::size_t first = offset.ptr() == nullptr ? 0 : to_size(offset, "offset");
    if (first % type.itemsize != 0) {
        throw py::value_error("an offset of " + std::to_string(first) + " bytes is not a multiple of the " +
                              std::to_string(type.itemsize) + " bytes of " + type.name);
    }
    const auto held = py::reinterpret_borrow<py::object>(buffer);
    if (!shape.is_none()) {
        const View::Shape extents = to_shape(shape);
        return View(held, memory, type, extents, first, to_strides(strides, extents, type));
    }
    if (strides.ptr() != nullptr && !strides.is_none()) throw py::value_error("strides need a shape: give both");
    if (first > memory.nbytes() || (memory.nbytes() - first) % type.itemsize != 0) {
        throw py::value_error(std::to_string(memory.nbytes()) + " bytes from offset " + std::to_string(first) +
                              " are no whole number of " + type.name + ": give a shape");
    }
    const std::size_t count = (memory.nbytes() - first) / type.itemsize;
    return View(held, memory, type, {count}, first);
}

View bytes_of(const py::handle& buffer) {
    static PyObject* const uint8 = PyUnicode_InternFromString("uint8");
    return make_view(buffer, uint8, Py_None, {}, {});
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
