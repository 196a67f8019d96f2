// SPDX-License-Identifier: MIT
// python/view.cpp: View.
#include "view.hpp"

#include <map>

#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Elements of a shape; throws where their bytes cannot be counted.
std::size_t elements(const View::Shape& shape, std::size_t itemsize) {
    std::size_t count = 1;
    for (const std::size_t n : shape) {
        if (n != 0 && count > static_cast<std::size_t>(PTRDIFF_MAX) / itemsize / n) {
            throw py::value_error("a view of shape " + text_of(shape) + " is larger than any memory");
        }
        count *= n;
    }
    return count;
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

const ElementType& to_element_type(const py::handle& dtype) {
    // By what they were called, and by their names. Under the GIL; calling Python may run other threads.
    static auto* known = new std::map<std::string, const ElementType*, std::less<>>;
    std::string_view spelling;
    if (PyUnicode_CheckExact(dtype.ptr())) {
        Py_ssize_t length = 0;
        const char* text = PyUnicode_AsUTF8AndSize(dtype.ptr(), &length);
        if (text == nullptr) throw py::error_already_set();
        spelling = {text, static_cast<std::size_t>(length)};
        const auto found = known->find(spelling);
        if (found != known->end()) return *found->second;
    }
    static const auto* parse = new py::object(py::module_::import("portamem._dtypes").attr("parse_dtype"));
    const py::tuple parsed = (*parse)(dtype);
    const auto name = parsed[0].cast<std::string>();
    auto found = known->find(name);
    if (found == known->end()) {
        const auto* type = new ElementType{name, parsed[1].cast<std::string>(), parsed[2].cast<std::string>(),
                                           parsed[3].cast<std::size_t>()};
        found = known->emplace(name, type).first;
    }
    if (!spelling.empty()) known->emplace(spelling, found->second);
    return *found->second;
}

View::View(py::object buffer, const Buffer& memory, const ElementType& type, Shape shape, std::size_t offset)
    : buffer_(std::move(buffer)),
      memory_(memory.sub(offset, elements(shape, type.itemsize) * type.itemsize)),
      type_(&type),
      shape_(std::move(shape)) {}

const Buffer& View::memory() const {
    if (memory_.is_closed()) throw std::invalid_argument("the view is closed");
    return memory_;
}

View::Shape View::strides() const {
    Shape strides(shape_.size());
    std::size_t bytes = type_->itemsize;
    for (std::size_t i = shape_.size(); i-- > 0;) {
        strides[i] = bytes;
        bytes *= shape_[i];
    }
    return strides;
}

std::size_t View::size() const noexcept {
    std::size_t count = 1;
    for (const std::size_t n : shape_) count *= n;
    return count;
}

View View::part(Shape shape, std::size_t offset) const {
    return View(buffer_, memory(), *type_, std::move(shape), offset);
}

View View::reshaped(Shape shape) const {
    if (elements(shape, type_->itemsize) != size()) {
        throw py::value_error("a view of " + std::to_string(size()) + " elements cannot take the shape " +
                              text_of(shape));
    }
    return part(std::move(shape), 0);
}

View View::at(std::size_t index) const {
    return part(Shape(shape_.begin() + 1, shape_.end()), index * strides().front());
}

View View::rows(std::size_t begin, std::size_t end) const {
    Shape shape = shape_;
    shape.front() = end > begin ? end - begin : 0;
    // Before the call: compilers differ in which argument they evaluate first, and one gives the shape away.
    const std::size_t offset = shape.front() == 0 ? 0 : begin * strides().front();
    return part(std::move(shape), offset);
}

HostExport View::host_export() const {
    const auto itemsize = static_cast<Py_ssize_t>(type_->itemsize);
    HostExport exported{memory().sub(0, memory_.nbytes()), type_->format, {}, {}, itemsize};
    for (const std::size_t n : shape_) exported.shape.push_back(static_cast<Py_ssize_t>(n));
    for (const std::size_t n : strides()) exported.strides.push_back(static_cast<Py_ssize_t>(n));
    return exported;
}

void View::close() {
    memory_.abandon();
    buffer_ = py::none();
}

View make_view(const py::object& buffer, const py::object& dtype, const py::object& shape, const py::object& offset) {
    if (buffer_of(buffer) == nullptr) throw py::type_error("a View is a view of a Buffer");
    const Buffer& memory = *buffer_of(buffer);
    const ElementType& type = to_element_type(dtype);
    const std::size_t first = to_size(offset, "offset");
    if (first % type.itemsize != 0) {
        throw py::value_error("an offset of " + std::to_string(first) + " bytes is no multiple of the " +
                              std::to_string(type.itemsize) + " bytes of " + type.name);
    }
    if (!shape.is_none()) return View(buffer, memory, type, to_shape(shape), first);
    if (first > memory.nbytes() || (memory.nbytes() - first) % type.itemsize != 0) {
        throw py::value_error(std::to_string(memory.nbytes()) + " bytes from offset " + std::to_string(first) +
                              " are no whole number of " + type.name + ": give a shape");
    }
    const std::size_t count = (memory.nbytes() - first) / type.itemsize;
    return View(buffer, memory, type, {count}, first);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
