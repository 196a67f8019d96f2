// SPDX-License-Identifier: MIT
// core/pool/refused.hpp: the reason why a call of a pool was refused.
#pragma once

#include <string>

#include "portamem/abi/pool_api.h"

namespace portamem::pool {

/// The reason for which the calling thread's latest call was refused; OK where it was not.
struct Refusal {
    portamem_pool_status status = PORTAMEM_POOL_OK;
    std::string text;
};
Refusal& last_refusal() noexcept;

/// The exception of a refused call. It never leaves the library.
struct Refused {
    portamem_pool_status status = PORTAMEM_POOL_OK;
    std::string text;
};

/// Throws Refused with the status that a callback returned.
[[noreturn]] inline void throw_refused(int status) { throw Refused{static_cast<portamem_pool_status>(status), {}}; }

}  // namespace portamem::pool
