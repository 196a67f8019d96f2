// SPDX-License-Identifier: MIT
// A stand-in for Kokkos: views of one and two dimensions over memory that the program has.
#pragma once

#include <cstddef>
#include <type_traits>

namespace Kokkos {

class HostSpace {};
struct MemoryUnmanaged {};

template <class Data, class Space, class Traits>
class View {
  public:
    using value_type = std::remove_pointer_t<std::remove_pointer_t<Data>>;
    using pointer_type = value_type*;

    static std::size_t required_allocation_size(std::size_t n0, std::size_t n1 = 1) {
        return n0 * n1 * sizeof(value_type);
    }
    View(pointer_type data, std::size_t n0, std::size_t n1 = 1) : data_(data), n0_(n0), n1_(n1) {}

    value_type& operator()(std::size_t i, std::size_t j = 0) const { return data_[i * n1_ + j]; }
    pointer_type data() const { return data_; }
    std::size_t size() const { return n0_ * n1_; }

  private:
    pointer_type data_;
    std::size_t n0_;
    std::size_t n1_;
};

}  // namespace Kokkos
