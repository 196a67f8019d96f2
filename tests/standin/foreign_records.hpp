// SPDX-License-Identifier: MIT
// foreign_records.hpp: device memory that the stand-in itself maps: of virtual memory, and of another process.
#pragma once

#include <cstddef>

namespace standin {

/// Tells the host runtime of device memory at an address, so that copies and queries know it. It is not for Free.
void add_device_record(void* base, std::size_t size, int device);
void erase_record(const void* base);

/// Takes bytes from a device's capacity, or gives them back. False where there are not so many.
bool reserve_memory(int device, std::size_t size);
void give_memory_back(int device, std::size_t size);

}  // namespace standin
