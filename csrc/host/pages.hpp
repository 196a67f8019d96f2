// SPDX-License-Identifier: MIT
// host/pages.hpp: the operating system's answers about host memory.
#pragma once

#include <cstddef>

namespace portamem::host {

/// Whether this process has every page of a range and may read it. The time depends on the number of the process's
/// mappings, not on the size of the range.
bool has_pages(const void* ptr, std::size_t size);

/// Returns the bytes that this process can page-lock at all: the machine's, or fewer where a memory control group gives
/// fewer. Asked once.
std::size_t lockable_bytes();

}  // namespace portamem::host
