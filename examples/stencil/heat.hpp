// SPDX-License-Identifier: MIT
// stencil/heat.hpp: one point of the heat equation, the same source for the CPU and for GPUs.
//
// The operations and their order are written out, and every compiler is told not to fuse a multiplication with an
// addition (CMakeLists.txt). IEEE 754 rounds each of them one way, so that all backends give the same bits.
#pragma once

#if defined(__CUDACC__) || defined(__HIPCC__)
#define HEAT_FUNCTION __host__ __device__ inline
#else
#define HEAT_FUNCTION inline
#endif

HEAT_FUNCTION double heat(double here, double north, double south, double west, double east) {
    return here + 0.1 * (((north + south) + (west + east)) - 4.0 * here);
}
