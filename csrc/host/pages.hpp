// SPDX-License-Identifier: MIT
// host/pages.hpp: what the operating system says of host memory.
#pragma once

#include <cstddef>

namespace portamem::host {

/// Whether this process has every page of a range, and may read it. Takes as long as the process has mappings, however
/// large the range is.
bool has_pages(const void* ptr, std::size_t size);

/// The bytes that can be page-locked in this process at all: what the machine has, or less where a memory control group
/// gives it less. Asked once.
std::size_t lockable_bytes();

}  // namespace portamem::host
