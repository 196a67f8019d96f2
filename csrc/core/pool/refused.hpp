// SPDX-License-Identifier: MIT
// core/pool/refused.hpp: why a call of a pool was refused.
#pragma once

#include <string>

#include "portamem/abi/pool_api.h"

namespace portamem::pool {

/// Why the calling thread's latest call was refused.
struct Refusal {
    portamem_pool_status status = PORTAMEM_POOL_OK;
    std::string text;
};
Refusal& last_refusal() noexcept;

/// Thrown inside the library only.
struct Refused {
    portamem_pool_status status = PORTAMEM_POOL_OK;
    std::string text;
};

/// Throws Refused with the status that a callback answered.
[[noreturn]] inline void throw_refused(int status) { throw Refused{static_cast<portamem_pool_status>(status), {}}; }

}  // namespace portamem::pool
