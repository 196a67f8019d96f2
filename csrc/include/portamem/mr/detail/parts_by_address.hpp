// SPDX-License-Identifier: MIT
// portamem/mr/detail/parts_by_address.hpp: a table in parts, so that threads seldom meet at one lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "portamem/backend.hpp"

PORTAMEM_OPEN
namespace detail {

/// Holds the parts of a table, each with a lock of its own. An address belongs to one of them, whatever its alignment.
template <class Part>
class PartsByAddress {
  public:
    Part& of(const void* ptr) noexcept { return parts_[index_of(ptr)]; }
    const Part& of(const void* ptr) const noexcept { return parts_[index_of(ptr)]; }

    auto begin() const noexcept { return parts_.begin(); }
    auto end() const noexcept { return parts_.end(); }

  private:
    static std::size_t index_of(const void* ptr) noexcept {
        const auto bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(ptr)) * 0x9E3779B97F4A7C15u;
        return bits >> 60;
    }

    std::array<Part, 16> parts_;
};

}  // namespace detail
PORTAMEM_CLOSE
