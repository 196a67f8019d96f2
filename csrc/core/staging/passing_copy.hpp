// SPDX-License-Identifier: MIT
// core/staging/passing_copy.hpp: a copy of bytes that this CPU does not read soon.
#pragma once

#include <cstddef>

namespace portamem::staging {

/// Copies as memcpy does. Where the processor can, the target's old bytes are not read into its caches first, which
/// memcpy does for pieces of this size: a third of the traffic less.
void copy_past_the_cache(void* dst, const void* src, std::size_t nbytes) noexcept;

}  // namespace portamem::staging
