// SPDX-License-Identifier: MIT
// python/knobs/kernels.hpp: kernels of the CPU reference runtime, to launch by its C interface.
#pragma once

#include <vector>

#include "portamem/host/runtime_api.h"

namespace portamem::knobs {

struct Kernel {
    const char* name;
    pmhKernelFn_t function;
};

/// Returns the kernels that fill, check and copy memory, and that hold a stream.
const std::vector<Kernel>& memory_kernels();

/// Returns the kernels that allocate from the heap of the device.
const std::vector<Kernel>& heap_kernels();

}  // namespace portamem::knobs
