// SPDX-License-Identifier: MIT
// core/default_resource.hpp: the question that the rest of the library asks of the default resources.
#pragma once

#include <cstdint>

#include "portamem/c_api.h"

namespace portamem {

/// Returns the bytes that the default resource which a module offered for a device holds for reuse; 0 where there is
/// none, or where it does not say.
std::uint64_t offered_default_cached(portamem_backend backend, int device);

}  // namespace portamem
