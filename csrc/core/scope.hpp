// SPDX-License-Identifier: MIT
// core/scope.hpp: the question that the rest of the library asks of the default resources.
#pragma once

#include <cstdint>

#include "portamem/c_api.h"

namespace portamem {

/// Returns the bytes that a device's default resource holds for reuse; 0 where there is none, or where it does not say.
std::uint64_t default_cached(portamem_backend backend, int device);

}  // namespace portamem
