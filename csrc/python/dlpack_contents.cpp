// SPDX-License-Identifier: MIT
// python/dlpack_contents.cpp: checks every field of a producer's tensor.
#include "dlpack_contents.hpp"

#include <algorithm>

#include "strides.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {
namespace dlpack {

namespace {

constexpr std::int32_t kMostDimensions = 64;  // the limit of NumPy, and of the buffer protocol

[[noreturn]] void refuse(const std::string& what) { throw ExportError("the DLPack tensor is malformed: " + what); }

bool is_power_of_two(unsigned value) { return value != 0 && (value & (value - 1)) == 0; }

// Returns whether DLPack has elements of the code with so many bits.
bool has_bits(const DataType& type) {
    const unsigned bits = type.bits;
    switch (type.code) {
        case Int:
        case UInt:
        case Bool:
            return is_power_of_two(bits) && bits <= 128;
        case Float:
            return is_power_of_two(bits) && bits >= 8 && bits <= 128;
        case BFloat:
            return bits == 16;
        case Complex:
            return is_power_of_two(bits) && bits >= 32;
        case Opaque:
            return bits != 0;
        default:
            break;
    }
    if (type.code <= kLastEightBits) return bits == 8;
    return bits == 4 || bits == 6 || bits == 8;
}

std::size_t itemsize_of(const DataType& type, bool is_padded) {
    const auto name = [&type] {
        return "elements of code " + std::to_string(type.code) + " with " + std::to_string(type.bits) + " bits and " +
               std::to_string(type.lanes) + " lanes";
    };
    if (type.code > kLastCode) refuse(name() + ", a code that DLPack has not");
    if (type.lanes == 0 || !has_bits(type)) refuse(name() + " cannot be");
    const std::size_t bits = std::size_t{is_padded ? std::max<unsigned>(type.bits, 8) : type.bits} * type.lanes;
    if (bits % 8 != 0) throw py::value_error("DLPack " + name() + " are no whole bytes: convert them first");
    return bits / 8;
}

// Returns what a CPU needs to read one element, and no more, because producers may give parts of arrays. For a complex
// number that is the alignment of one of its two parts.
std::size_t alignment_of(const DataType& type) {
    const std::size_t bytes = std::max<std::size_t>(type.bits / 8, 1) / (type.code == Complex ? 2 : 1);
    return is_power_of_two(static_cast<unsigned>(bytes)) ? std::min<std::size_t>(bytes, 8) : 1;
}

View::Shape shape_of(const Tensor& tensor) {
    if (tensor.ndim < 0 || tensor.ndim > kMostDimensions) {
        refuse("it has " + std::to_string(tensor.ndim) + " dimensions, and 0 to " + std::to_string(kMostDimensions) +
               " can be");
    }
    if (tensor.ndim > 0 && tensor.shape == nullptr) refuse("it has dimensions, and a null shape");
    View::Shape shape;
    for (std::int32_t i = 0; i < tensor.ndim; ++i) {
        const std::int64_t extent = tensor.shape[i];
        if (extent < 0) refuse("the negative extent " + std::to_string(extent));
        shape.push_back(static_cast<std::size_t>(extent));
    }
    return shape;
}

// Returns the bytes of a shape; 0 for an empty one, whose other extents may be anything.
std::size_t bytes_of(const View::Shape& shape, std::size_t itemsize) {
    if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return 0;
    std::size_t nbytes = itemsize;
    for (const std::size_t extent : shape) {
        if (nbytes > static_cast<std::size_t>(PTRDIFF_MAX) / extent) {
            refuse("its shape " + text_of(shape) + " is larger than any memory");
        }
        nbytes *= extent;
    }
    return nbytes;
}

// Returns the strides in bytes. The tensor has elements.
View::Shape strides_of(const Tensor& tensor, std::size_t itemsize) {
    View::Shape strides;
    for (std::int32_t i = 0; i < tensor.ndim; ++i) {
        const std::int64_t stride = tensor.strides[i];
        const bool matters = tensor.shape[i] != 1;
        if (stride < 0 && matters) {
            throw py::value_error("the DLPack tensor has the negative stride " + std::to_string(stride) +
                                  ": make a copy of it first");
        }
        std::size_t bytes = 0;
        const bool is_beyond = stride < 0 || __builtin_mul_overflow(static_cast<std::size_t>(stride), itemsize, &bytes);
        if (is_beyond) bytes = matters ? SIZE_MAX : 0;
        strides.push_back(bytes);
    }
    return strides;
}

}  // namespace

Contents contents_of(const Tensor& tensor, bool is_padded) {
    Contents contents;
    const std::size_t itemsize = itemsize_of(tensor.dtype, is_padded);
    contents.shape = shape_of(tensor);
    contents.itemsize = itemsize;
    contents.nbytes = bytes_of(contents.shape, itemsize);
    if (contents.nbytes == 0) return contents;
    if (tensor.data == nullptr) refuse("it has elements at the address 0");
    if (tensor.strides != nullptr) {
        const View::Shape strides = strides_of(tensor, itemsize);
        const std::size_t* const extents = contents.shape.data();
        if (!is_c_order(extents, strides.data(), strides.size(), itemsize)) {
            const auto reached = reach(extents, strides, itemsize);
            if (!reached) refuse("its strides lead beyond any memory");
            contents.nbytes = *reached;
            contents.strides = strides;
        }
    }
    const auto data = reinterpret_cast<std::uintptr_t>(tensor.data);
    const std::uintptr_t room = UINTPTR_MAX - data;
    if (tensor.byte_offset > room || contents.nbytes > room - tensor.byte_offset) {
        refuse("its byte_offset of " + std::to_string(tensor.byte_offset) + " leads beyond the end of all addresses");
    }
    if ((data + tensor.byte_offset) % alignment_of(tensor.dtype) != 0) {
        refuse("its elements begin at an address that is not a multiple of " +
               std::to_string(alignment_of(tensor.dtype)) + " bytes");
    }
    contents.ptr = static_cast<char*>(tensor.data) + tensor.byte_offset;
    return contents;
}

}  // namespace dlpack
}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
