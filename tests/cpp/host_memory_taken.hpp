// SPDX-License-Identifier: MIT
// What this thread has taken of host memory by operator new, in bytes: what was given back counts as well.
#pragma once

#include <cstdint>

std::uint64_t host_memory_taken() noexcept;
