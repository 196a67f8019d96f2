// SPDX-License-Identifier: MIT
// core/backends.hpp: how many backends there are, for tables with a place for each.
#pragma once

#include "portamem/c_api.h"

namespace portamem {

inline constexpr int kBackends = PORTAMEM_BACKEND_HOST + 1;

}  // namespace portamem
