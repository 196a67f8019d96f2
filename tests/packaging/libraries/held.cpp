// SPDX-License-Identifier: MIT
// tests/packaging/libraries/held.cpp: what portamem holds, as a library of the program sees it.
#include <cstdint>

#include "portamem/c_api.h"
#include "portamem/rt/rt.hpp"

std::uint64_t NAME();

__attribute__((visibility("default"))) std::uint64_t NAME() { return portamem_held(portamem::rt::BackendId, 0); }
