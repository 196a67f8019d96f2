// SPDX-License-Identifier: MIT
// python/view_parts.cpp: Views of the same memory: parts of a View, and its elements in another shape.
#include "view_parts.hpp"

#include <algorithm>

#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

bool is_index(const py::handle& key) { return PyIndex_Check(key.ptr()) != 0 && PyBool_Check(key.ptr()) == 0; }

// Returns what was given as one sequence, or as several arguments. An array is a sequence, though it may be an int too.
py::object one_or_several(const py::args& args) {
    const bool is_one =
        args.size() == 1 && (!is_index(py::object(args[0])) || PySequence_Check(py::object(args[0]).ptr()));
    return is_one ? py::object(args[0]) : py::object(args);
}

// Collects a part, axis by axis, from the first axis of the View on.
class Part {
  public:
    explicit Part(const View& view) : view_(view), from_(view.strides()) {}

    void add_axis_of_one() {
        shape_.push_back(1);
        strides_.push_back(0);
    }
    void keep(std::size_t axes) {
        for (; axes != 0; --axes, ++axis_) add(view_.shape()[axis_], from_[axis_]);
    }
    void take(const py::handle& key) {
        const auto length = static_cast<Py_ssize_t>(view_.shape()[axis_]);
        Py_ssize_t index = PyNumber_AsSsize_t(key.ptr(), PyExc_IndexError);
        if (index == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
        if (index < 0) index += length;
        if (index < 0 || index >= length)
            throw py::index_error("the index is out of range: the axis has " + std::to_string(length) + " elements");
        offset_ += static_cast<std::size_t>(index) * from_[axis_++];
    }
    void cut(const py::slice& key) {
        const auto length = static_cast<Py_ssize_t>(view_.shape()[axis_]);
        py::ssize_t start = 0, stop = 0, step = 0, count = 0;
        if (!key.compute(length, &start, &stop, &step, &count)) throw py::error_already_set();
        if (step < 1)
            throw py::value_error("a slice of a view needs a step of at least 1, not " + std::to_string(step));
        offset_ += static_cast<std::size_t>(start) * from_[axis_];
        // A step that leads to no further element may be beyond all memory.
        add(static_cast<std::size_t>(count), (count > 1 ? static_cast<std::size_t>(step) : 1) * from_[axis_]);
        ++axis_;
    }
    View made() const {
        const bool is_empty = std::find(shape_.begin(), shape_.end(), 0U) != shape_.end();
        return view_.part(shape_, strides_, is_empty ? 0 : offset_);
    }

  private:
    void add(std::size_t extent, std::size_t stride) {
        shape_.push_back(extent);
        strides_.push_back(stride);
    }

    const View& view_;
    const View::Shape from_;
    std::size_t axis_ = 0;
    std::size_t offset_ = 0;
    View::Shape shape_;
    View::Shape strides_;
};

// Returns the axes that Python named, each once, and from the end where they are negative.
std::vector<std::size_t> axes_of(const py::object& given, std::size_t ndim) {
    if (PySequence_Check(given.ptr()) == 0 || PyUnicode_Check(given.ptr())) {
        throw py::type_error(std::string("axes are ints, not ") + type_name(given));
    }
    std::vector<std::size_t> axes;
    for (const py::object one : py::sequence(given)) {
        if (!is_index(one)) throw py::type_error(std::string("axes are ints, not ") + type_name(one));
        const Py_ssize_t axis = PyNumber_AsSsize_t(one.ptr(), nullptr);  // clipped, where it is out of all ranges
        if (axis == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
        axes.push_back(static_cast<std::size_t>(axis < 0 ? axis + static_cast<Py_ssize_t>(ndim) : axis));
    }
    std::vector<std::size_t> sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < std::max(ndim, sorted.size()); ++i) {
        if (i < std::min(ndim, sorted.size()) && sorted[i] == i) continue;
        throw py::value_error("the axes " + py::str(given).cast<std::string>() + " do not name each of the " +
                              std::to_string(ndim) + " dimensions once");
    }
    return axes;
}

// Returns where a shape has -1, which stands for the extent that the others leave; its length where it has none.
py::ssize_t open_extent(const py::sequence& shape) {
    const auto length = static_cast<py::ssize_t>(shape.size());
    py::ssize_t found = length;
    for (py::ssize_t i = 0; i < length; ++i) {
        const py::object extent = shape[static_cast<std::size_t>(i)];
        if (PyIndex_Check(extent.ptr()) == 0 || !extent.equal(py::int_(-1))) continue;
        if (found != length) throw py::value_error("a shape can have one -1 at most");
        found = i;
    }
    return found;
}

}  // namespace

View part_of(const View& view, const py::object& key) {
    const py::tuple keys = PyTuple_Check(key.ptr()) ? py::reinterpret_borrow<py::tuple>(key) : py::make_tuple(key);
    const std::size_t ndim = view.shape().size();
    std::size_t axes = 0;
    std::size_t ellipses = 0;
    for (const py::handle one : keys) {
        if (one.is_none()) continue;
        if (one.ptr() == Py_Ellipsis) {
            ++ellipses;
        } else if (is_index(one) || PySlice_Check(one.ptr())) {
            ++axes;
        } else {
            throw py::type_error(std::string("a View is indexed by ints, slices, None and ..., not by ") +
                                 type_name(one));
        }
    }
    if (ndim == 0 && axes != 0) throw py::index_error("a view without dimensions has no parts");
    if (axes > ndim) {
        throw py::index_error(std::to_string(axes) + " indices for a view of " + std::to_string(ndim) + " dimensions");
    }
    if (ellipses > 1) throw py::index_error("an index can have one ... at most");
    Part part(view);
    for (const py::handle one : keys) {
        if (one.is_none()) {
            part.add_axis_of_one();
        } else if (one.ptr() == Py_Ellipsis) {
            part.keep(ndim - axes);
        } else if (PySlice_Check(one.ptr())) {
            part.cut(py::reinterpret_borrow<py::slice>(one));
        } else {
            part.take(one);
        }
    }
    if (ellipses == 0) part.keep(ndim - axes);
    return part.made();
}

View transposed(const View& view, const py::args& args) {
    const std::size_t ndim = view.shape().size();
    std::vector<std::size_t> axes;
    if (args.empty()) {
        for (std::size_t axis = ndim; axis-- > 0;) axes.push_back(axis);
    } else {
        axes = axes_of(one_or_several(args), ndim);
    }
    const View::Shape from = view.strides();
    View::Shape shape, strides;
    for (const std::size_t axis : axes) {
        shape.push_back(view.shape()[axis]);
        strides.push_back(from[axis]);
    }
    return view.part(shape, strides, 0);
}

View reshaped(const View& view, const py::args& args) {
    const py::object given = one_or_several(args);
    if (PySequence_Check(given.ptr()) == 0 || PyUnicode_Check(given.ptr())) return view.reshaped(to_shape(given));
    py::list shape(given);
    const py::ssize_t open = open_extent(shape);
    if (open == static_cast<py::ssize_t>(shape.size())) return view.reshaped(to_shape(shape));
    shape[static_cast<std::size_t>(open)] = 1;
    View::Shape extents = to_shape(shape);
    std::size_t others = 1;
    for (const std::size_t extent : extents) {
        if (__builtin_mul_overflow(others, extent, &others)) others = 0;
    }
    if (others == 0 || view.size() % others != 0) {
        throw py::value_error("a view of " + std::to_string(view.size()) + " elements cannot take the shape " +
                              py::str(py::tuple(py::object(given))).cast<std::string>());
    }
    extents[static_cast<std::size_t>(open)] = view.size() / others;
    return view.reshaped(extents);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
