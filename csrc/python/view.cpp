// SPDX-License-Identifier: MIT
// python/view.cpp: View.
#include "view.hpp"

#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "convert.hpp"
#include "dlpack.hpp"

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

namespace {

// Keeps element types by the objects that stood for them. The objects are kept too, so that their addresses stay
// theirs. It needs the GIL.
class KnownObjects {
  public:
    const ElementType* find(PyObject* object) const noexcept {
        const Entry& entry = entries_[index_of(object)];
        return entry.object == object ? entry.type : nullptr;
    }
    void add(PyObject* object, const ElementType& type) {
        Entry& entry = entries_[index_of(object)];
        PyObject* former = std::exchange(entry.object, Py_NewRef(object));
        entry.type = &type;
        Py_XDECREF(former);
    }

    // Returns whether the object means the same for ever, and will come again. That excludes a class of the program's,
    // which may change its meaning, and any text but that of source code.
    static bool is_constant(PyObject* object) noexcept {
        if (PyType_Check(object)) return (reinterpret_cast<PyTypeObject*>(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0;
        if (PyUnicode_CheckExact(object)) return PyUnicode_CHECK_INTERNED(object) != 0;
        return std::strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) == 0;
    }

  private:
    struct Entry {
        PyObject* object = nullptr;
        const ElementType* type = nullptr;
    };

    static std::size_t index_of(PyObject* object) noexcept {
        return (reinterpret_cast<std::uintptr_t>(object) >> 4) % kMost;
    }

    static constexpr std::size_t kMost = 128;
    std::array<Entry, kMost> entries_{};
};

const ElementType& element_type_by_name(const py::handle& dtype) {
    // Maps what they were called, and their names, to element types. It needs the GIL; calling Python may run other
    // threads.
    static auto* known = new std::map<std::string, const ElementType*, std::less<>>;
    std::string_view spelling;
    if (PyUnicode_CheckExact(dtype.ptr())) {
        Py_ssize_t length = 0;
        const char* text = PyUnicode_AsUTF8AndSize(dtype.ptr(), &length);
        if (text == nullptr) {
            PyErr_Clear();
            (void)to_text(dtype, "an element type");  // throws
        }
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

}  // namespace

const ElementType& to_element_type(const py::handle& dtype) {
    static auto* known = new KnownObjects;
    if (const ElementType* found = known->find(dtype.ptr())) return *found;
    const ElementType& type = element_type_by_name(dtype);
    if (KnownObjects::is_constant(dtype.ptr())) known->add(dtype.ptr(), type);
    return type;
}

void View::open(py::object buffer, const Buffer& memory, const ElementType& type, const std::size_t* extents,
                std::size_t ndim, std::size_t offset) {
    shape_.assign(extents, extents + ndim);
    lent_.clear();
    type_ = &type;
    memory_ = memory.sub(offset, elements(extents, ndim, type.itemsize) * type.itemsize);
    buffer_ = std::move(buffer);
}

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

std::int64_t* View::lent_extents() const {
    const std::size_t ndim = shape_.size();
    if (lent_.empty() && ndim != 0) {
        lent_.resize(2 * ndim);
        dlpack::write_extents(lent_.data(), shape_.data(), ndim);
    }
    return lent_.data();
}

std::size_t View::size() const noexcept {
    std::size_t count = 1;
    for (const std::size_t n : shape_) count *= n;
    return count;
}

View View::part(const Shape& shape, std::size_t offset) const { return View(buffer_, memory(), *type_, shape, offset); }

View View::reshaped(const Shape& shape) const {
    if (elements(shape.data(), shape.size(), type_->itemsize) != size()) {
        throw py::value_error("a view of " + std::to_string(size()) + " elements cannot take the shape " +
                              text_of(shape));
    }
    return part(shape, 0);
}

View View::at(std::size_t index) const {
    return part(Shape(shape_.begin() + 1, shape_.end()), index * strides().front());
}

View View::rows(std::size_t begin, std::size_t end) const {
    Shape shape = shape_;
    shape.front() = end > begin ? end - begin : 0;
    return part(shape, shape.front() == 0 ? 0 : begin * strides().front());
}

HostExport View::host_export() const {
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

View make_view(const py::handle& buffer, const py::handle& dtype, const py::handle& shape, const py::handle& offset) {
    if (buffer_of(buffer) == nullptr) throw py::type_error("a View is a view of a Buffer");
    const Buffer& memory = *buffer_of(buffer);
    const ElementType& type = to_element_type(dtype);
    const std::size_t first = offset.ptr() == nullptr ? 0 : to_size(offset, "offset");
    if (first % type.itemsize != 0) {
        throw py::value_error("an offset of " + std::to_string(first) + " bytes is not a multiple of the " +
                              std::to_string(type.itemsize) + " bytes of " + type.name);
    }
    const auto held = py::reinterpret_borrow<py::object>(buffer);
    if (!shape.is_none()) return View(held, memory, type, to_shape(shape), first);
    if (first > memory.nbytes() || (memory.nbytes() - first) % type.itemsize != 0) {
        throw py::value_error(std::to_string(memory.nbytes()) + " bytes from offset " + std::to_string(first) +
                              " are no whole number of " + type.name + ": give a shape");
    }
    const std::size_t count = (memory.nbytes() - first) / type.itemsize;
    return View(held, memory, type, {count}, first);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
