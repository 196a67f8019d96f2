// SPDX-License-Identifier: MIT
// python/view.hpp: typed memory of a buffer.
#pragma once

#include <string>
#include <vector>

#include "element_type.hpp"
#include "host_export.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Represents an export of its buffer while it lives, and keeps the buffer's Python object.
class View {
  public:
    using Shape = std::vector<std::size_t>;

    /// Makes a closed View without a shape.
    View() : memory_(std::shared_ptr<Allocation>{}, 0) {}
    View(py::object buffer, const Buffer& memory, const ElementType& type, const Shape& shape, std::size_t offset,
         const Shape& strides = {})
        : View() {
        open(std::move(buffer), memory, type, shape.data(), shape.size(), offset, strides);
    }

    /// Opens a closed View on the memory, which is that of the Buffer object `buffer`. `offset` is the first element's,
    /// in bytes, and `strides` are in bytes, of whole elements; none means C order.
    void open(py::object buffer, const Buffer& memory, const ElementType& type, const std::size_t* extents,
              std::size_t ndim, std::size_t offset, const Shape& strides = {});

    /// Returns the bytes from the first element to the last, with those between elements; throws once closed.
    const Buffer& memory() const;
    /// Does the same for a caller that takes all of these bytes, and throws where some are of no element. `role` names
    /// the View in the message.
    const Buffer& contiguous_memory(const char* role) const;
    const py::object& buffer() const { return buffer_; }
    const ElementType& type() const noexcept { return *type_; }
    const Shape& shape() const noexcept { return shape_; }
    Shape strides() const;  ///< in bytes
    /// Returns whether the elements lie in C order, without gaps.
    bool is_contiguous() const noexcept { return strides_.empty(); }
    /// Writes the shape, and behind it the strides in elements, as DLPack has them, to 2 * ndim numbers.
    void write_extents(std::int64_t* to) const noexcept;
    /// Returns these numbers, which stay until the View is closed. It needs the GIL.
    std::int64_t* lent_extents() const;
    std::size_t size() const noexcept;
    std::size_t nbytes() const noexcept { return size() * type_->itemsize; }
    bool is_closed() const noexcept { return memory_.is_closed(); }
    /// Returns whether portamem writes none of it, and tells consumers so.
    bool is_read_only() const { return memory().traits().read_only; }

    /// Throws std::invalid_argument where the number of elements differs, or the View is not contiguous.
    View reshaped(const Shape& shape) const;
    /// Returns other elements of the memory: the first is `offset` bytes behind this View's.
    View part(const Shape& shape, const Shape& strides, std::size_t offset) const;
    /// Returns its memory as elements of uint8, in one dimension.
    View bytes() const;
    HostExport host_export() const;
    void close() noexcept;

  private:
    py::object buffer_;
    Buffer memory_;
    const ElementType* type_ = nullptr;
    Shape shape_;
    Shape strides_;                           // in bytes; empty: C order
    mutable std::vector<std::int64_t> lent_;  // made at first use
};

/// Convert shapes between Python and C++. to_shape takes an int or a sequence of ints.
View::Shape to_shape(const py::handle& shape);
py::tuple to_tuple(const View::Shape& values);
std::string text_of(const View::Shape& shape);

/// Returns a View of a Buffer object, with dtype, shape, offset and strides as Python gives them. A null offset means
/// 0, and null strides C order.
View make_view(const py::handle& buffer, const py::handle& dtype, const py::handle& shape, const py::handle& offset,
               const py::handle& strides);

/// Returns a View of a Buffer object's bytes, as uint8 in one dimension. Throws std::invalid_argument once closed.
View bytes_of(const py::handle& buffer);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
