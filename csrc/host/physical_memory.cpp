// SPDX-License-Identifier: MIT
// host/physical_memory.cpp: takes ranges of the file of physical memory, and frees their pages.
#include "physical_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "refusal.hpp"

namespace portamem::host {

std::int64_t MemoryFile::extend(std::size_t size) {
    std::int64_t end = 0;
    if (descriptor_ < 0) descriptor_ = memfd_create("portamem", MFD_CLOEXEC);
    if (descriptor_ < 0 || __builtin_add_overflow(end_, size, &end) || ftruncate(descriptor_, end) != 0)
        refuse(pmhErrorOutOfMemory, "the operating system would not give %zu bytes of memory without an address", size);
    const std::int64_t begin = end_;
    end_ = end;
    return begin;
}

PhysicalMemory::PhysicalMemory(MemoryFile& memory_file, std::size_t size_, int device_)
    : file_offset(memory_file.extend(size_)), file(memory_file.descriptor()), size(size_), device(device_) {}

PhysicalMemory::~PhysicalMemory() {
    (void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, file_offset, static_cast<off_t>(size));
}

}  // namespace portamem::host
