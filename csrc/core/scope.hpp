// SPDX-License-Identifier: MIT
// core/scope.hpp: what the rest of the library asks of the default resources.
#pragma once

#include <cstdint>

#include "portamem/c_api.h"

namespace portamem {

/// Bytes that the default resource of a device holds and nobody uses; 0 where there is none, or it does not say.
std::uint64_t default_cached(portamem_backend backend, int device);

}  // namespace portamem
