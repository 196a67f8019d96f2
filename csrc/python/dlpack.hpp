// SPDX-License-Identifier: MIT
// python/dlpack.hpp: DLPack's structs as portamem gives and takes them, and the devices by which memory may be seen.
//
// The layouts are those of DLPack 1 and, for the older struct, of 0.8. Other libraries read them by offset.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace dlpack {

struct Device {
    std::int32_t type;
    std::int32_t id;

    bool operator==(const Device& other) const noexcept { return type == other.type && id == other.id; }
};

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

/// Are codes of element types. Higher codes are floats of a byte and less.
enum Code : std::uint8_t { Int = 0, UInt = 1, Float = 2, Opaque = 3, BFloat = 4, Complex = 5, Bool = 6 };
inline constexpr std::uint8_t kLastEightBits = 14;  ///< the last of the floats of 8 bits, which begin at 7
inline constexpr std::uint8_t kLastCode = 17;       ///< the last that version 1.3 knows

struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  ///< in elements; before 1.2 null meant C order
    std::uint64_t byte_offset;
};

struct Version {
    std::uint32_t major;
    std::uint32_t minor;
};

inline constexpr Version kVersion{1, 3};  ///< the newest that portamem knows

/// IsPadded: elements of less than a byte have one each. Without it, and before version 1.1, they lie packed.
enum Flags : std::uint64_t { ReadOnly = 1, IsCopied = 2, IsPadded = 4 };

/// Represents a tensor with its owner, of 0.8 and of 1. `deleter` is called once, on any thread; it may be null.
struct ManagedTensor {
    Tensor tensor;
    void* context;
    void (*deleter)(ManagedTensor*);

    static constexpr const char* kName = "dltensor";
    static constexpr const char* kUsedName = "used_dltensor";
};
struct ManagedTensorVersioned {
    Version version;
    void* context;
    void (*deleter)(ManagedTensorVersioned*);
    std::uint64_t flags;
    Tensor tensor;

    static constexpr const char* kName = "dltensor_versioned";
    static constexpr const char* kUsedName = "used_dltensor_versioned";
};

static_assert(sizeof(void*) == 8, "the offsets below are those of 64-bit machines");
static_assert(offsetof(Tensor, shape) == 24 && sizeof(Tensor) == 48);
static_assert(offsetof(ManagedTensor, deleter) == 56 && offsetof(ManagedTensorVersioned, tensor) == 32);

/// Writes a shape, and behind it its C-contiguous strides in elements, to 2 * ndim numbers.
template <class Extent>
void write_extents(std::int64_t* to, const Extent* shape, std::size_t ndim) noexcept {
    std::uint64_t stride = 1;  // an empty shape may have extents whose product is beyond all numbers
    for (std::size_t i = ndim; i-- > 0;) {
        to[i] = static_cast<std::int64_t>(shape[i]);
        to[ndim + i] = static_cast<std::int64_t>(stride);
        stride *= static_cast<std::uint64_t>(shape[i]);
    }
}

/// Returns "CUDA device memory (2, 0)" and the like, with DLPack's own names.
std::string to_text(const Device& device);

/// Lists the devices by which consumers may see memory where it lies, the most telling one first. It is empty where
/// DLPack has no name for the memory.
class Devices {
  public:
    void add(int type, int id) noexcept;
    bool empty() const noexcept { return count_ == 0; }
    bool has(const Device& device) const noexcept;
    const Device* begin() const noexcept { return all_.data(); }
    const Device* end() const noexcept { return all_.data() + count_; }

  private:
    std::array<Device, 3> all_{};
    std::size_t count_ = 0;
};

Devices devices_of(const Buffer& memory);

}  // namespace dlpack

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
