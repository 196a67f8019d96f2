// SPDX-License-Identifier: MIT
// python/knobs/kernels.hpp: kernels of the CPU reference runtime, for whoever launches them by its C interface.
#pragma once

#include <vector>

#include "portamem/host/runtime_api.h"

namespace portamem::knobs {

struct Kernel {
    const char* name;
    pmhKernelFn_t function;
};

/// What fills, checks and copies memory, and holds a stream.
const std::vector<Kernel>& memory_kernels();

/// What allocates from the heap of the device.
const std::vector<Kernel>& heap_kernels();

}  // namespace portamem::knobs
