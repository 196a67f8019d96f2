// SPDX-License-Identifier: MIT
// host/mapping.hpp: a range of address space and the memory behind it.
#pragma once

#include <cstddef>

namespace portamem::host {

/// Memory that the system gives page by page as it is touched. If it is guarded, only the runtime's alias has access: a
/// CPU access through the user's address, which a GPU would not survive, faults here too.
class Mapping {
  public:
    Mapping(std::size_t size, bool guarded);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    char* user() const { return user_; }
    char* alias() const { return alias_; }
    std::size_t size() const { return size_; }

  protected:
    /// Maps nothing yet: a derived class puts its ranges into user_ and alias_.
    explicit Mapping(std::size_t size) : size_(size) {}

    std::size_t size_;
    char* user_ = nullptr;
    char* alias_ = nullptr;
};

inline constexpr std::size_t page_size = 4096;

/// Returns the next multiple of a power of two, or 0 where that overflows.
constexpr std::size_t round_up(std::size_t size, std::size_t granule) { return (size + granule - 1) & ~(granule - 1); }

}  // namespace portamem::host
