// SPDX-License-Identifier: MIT
// python/view.hpp: typed, C-contiguous memory of a buffer.
#pragma once

#include <string>
#include <vector>

#include "host_export.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Represents an element type, in the spellings of each protocol.
struct ElementType {
    std::string name;     ///< NumPy's: float32
    std::string typestr;  ///< the array interfaces': <f4
    std::string format;   ///< the buffer protocol's: f
    std::size_t itemsize = 1;
};

/// Represents an export of its buffer while it lives, and keeps the buffer's Python object.
class View {
  public:
    using Shape = std::vector<std::size_t>;

    /// Makes a closed View without a shape.
    View() : memory_(std::shared_ptr<Allocation>{}, 0) {}
    View(py::object buffer, const Buffer& memory, const ElementType& type, const Shape& shape, std::size_t offset)
        : View() {
        open(std::move(buffer), memory, type, shape.data(), shape.size(), offset);
    }

    /// Opens a closed View on the memory, which is that of the Buffer object `buffer`.
    void open(py::object buffer, const Buffer& memory, const ElementType& type, const std::size_t* extents,
              std::size_t ndim, std::size_t offset);

    /// Returns the bytes that it shows; throws once closed.
    const Buffer& memory() const;
    const py::object& buffer() const { return buffer_; }
    const ElementType& type() const noexcept { return *type_; }
    const Shape& shape() const noexcept { return shape_; }
    Shape strides() const;
    /// Returns the shape and behind it the strides in elements, as DLPack has them, until the View is closed. It needs
    /// the GIL.
    std::int64_t* lent_extents() const;
    std::size_t size() const noexcept;
    std::size_t nbytes() const noexcept { return size() * type_->itemsize; }
    bool is_closed() const noexcept { return memory_.is_closed(); }
    /// Returns whether portamem writes none of it, and tells consumers so.
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
    mutable std::vector<std::int64_t> lent_;  // made at first use
};

/// Convert shapes between Python and C++. to_shape takes an int or a sequence of ints.
View::Shape to_shape(const py::handle& shape);
py::tuple to_tuple(const View::Shape& values);
std::string text_of(const View::Shape& shape);

/// Returns the element type that a Python value means, by portamem._dtypes. It is kept for good.
const ElementType& to_element_type(const py::handle& dtype);

/// Returns a View of a Buffer object, with dtype, shape and offset as Python gives them. A null offset means 0.
View make_view(const py::handle& buffer, const py::handle& dtype, const py::handle& shape, const py::handle& offset);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
