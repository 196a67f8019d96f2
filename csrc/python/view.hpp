// SPDX-License-Identifier: MIT
// python/view.hpp: typed, C-contiguous memory of a buffer.
#pragma once

#include <string>
#include <vector>

#include "host_export.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// An element type, in the spellings of those who ask.
struct ElementType {
    std::string name;     ///< NumPy's: float32
    std::string typestr;  ///< the array interfaces': <f4
    std::string format;   ///< the buffer protocol's: f
    std::size_t itemsize = 1;
};

/// A live View is an export of its buffer, and keeps the buffer's Python object.
class View {
  public:
    using Shape = std::vector<std::size_t>;

    /// Closed, and without a shape.
    View() : memory_(std::shared_ptr<Allocation>{}, 0) {}
    View(py::object buffer, const Buffer& memory, const ElementType& type, const Shape& shape, std::size_t offset)
        : View() {
        open(std::move(buffer), memory, type, shape.data(), shape.size(), offset);
    }

    /// Makes a closed View one of the memory, which is that of the Buffer object `buffer`.
    void open(py::object buffer, const Buffer& memory, const ElementType& type, const std::size_t* extents,
              std::size_t ndim, std::size_t offset);

    /// The bytes seen; throws once closed.
    const Buffer& memory() const;
    const py::object& buffer() const { return buffer_; }
    const ElementType& type() const noexcept { return *type_; }
    const Shape& shape() const noexcept { return shape_; }
    Shape strides() const;
    std::size_t size() const noexcept;
    std::size_t nbytes() const noexcept { return size() * type_->itemsize; }
    bool is_closed() const noexcept { return memory_.is_closed(); }
    /// Whether portamem writes none of it, and tells consumers so.
    bool is_read_only() const { return memory().traits().read_only; }

    View reshaped(const Shape& shape) const;
    View at(std::size_t index) const;
    View rows(std::size_t begin, std::size_t end) const;
    HostExport host_export() const;
    void close() noexcept;

  private:
    View part(const Shape& shape, std::size_t offset) const;

    py::object buffer_;
    Buffer memory_;
    const ElementType* type_ = nullptr;
    Shape shape_;
};

/// Shapes as Python has them. to_shape takes an int or a sequence of ints.
View::Shape to_shape(const py::handle& shape);
py::tuple to_tuple(const View::Shape& values);
std::string text_of(const View::Shape& shape);

/// The element type that a Python value means, by portamem._dtypes; kept for good.
const ElementType& to_element_type(const py::handle& dtype);

/// A View of a Buffer object; dtype, shape and offset as Python gives them.
/// Null for an offset is 0.
View make_view(const py::handle& buffer, const py::handle& dtype, const py::handle& shape, const py::handle& offset);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
