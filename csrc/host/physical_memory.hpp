// SPDX-License-Identifier: MIT
// host/physical_memory.hpp: memory without an address: ranges of one file that has no name.
#pragma once

#include <cstddef>
#include <cstdint>

namespace portamem::host {

/// The file that all physical memory of the process is in, so that it costs one descriptor. It is never closed.
class MemoryFile {
  public:
    /// Returns the offset of bytes that were never given out, so that they read as zero. OutOfMemory changes nothing.
    std::int64_t extend(std::size_t size);

    int descriptor() const { return descriptor_; }

  private:
    int descriptor_ = -1;  ///< made for the first bytes
    std::int64_t end_ = 0;
};

/// Memory of a device. Its pages go back to the system with the object, when nothing is mapped to them any more.
struct PhysicalMemory {
    PhysicalMemory(MemoryFile& memory_file, std::size_t size_, int device_);
    ~PhysicalMemory();
    PhysicalMemory(const PhysicalMemory&) = delete;
    PhysicalMemory& operator=(const PhysicalMemory&) = delete;

    const std::int64_t file_offset;
    const int file;
    const std::size_t size;
    const int device;
    std::size_t uses = 1;  ///< the handle and the mappings; the runtime's lock guards it
};

}  // namespace portamem::host
