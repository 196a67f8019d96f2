// SPDX-License-Identifier: MIT
// host/reservation.hpp: a range of addresses to which memory is mapped piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mapping.hpp"

namespace portamem::host {

/// Addresses that nothing else in the process gets. Where no memory was mapped yet they cannot be read.
class Reservation : public Mapping {
  public:
    /// The user's addresses begin at a multiple of `alignment`, a power of two. OutOfMemory where they cannot be had.
    Reservation(std::size_t size, std::size_t alignment, bool guarded);

    std::size_t offset_of(const void* ptr) const {
        return static_cast<std::size_t>(static_cast<const char*>(ptr) - user());
    }

    /// Maps a range of a file. OutOfMemory leaves what was there.
    void map(std::size_t offset, std::size_t size, int file, std::int64_t file_offset);

    /// Takes the file's range away. Operations that are still under way go on in memory that nothing else uses.
    void unmap(std::size_t offset, std::size_t size);
};

}  // namespace portamem::host
