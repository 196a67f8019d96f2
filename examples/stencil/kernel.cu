// SPDX-License-Identifier: MIT
// stencil/kernel.cu: the kernel for GPUs. nvcc and hipcc compile this one file; g++ compiles the rest of the program.
#if defined(__HIP__)
#include <hip/hip_runtime.h>
using GpuStream = hipStream_t;
static int last_error() { return static_cast<int>(hipGetLastError()); }
#else
using GpuStream = cudaStream_t;
static int last_error() { return static_cast<int>(cudaGetLastError()); }
#endif

#include "heat.hpp"
#include "kernel.hpp"

__global__ void heat_kernel(const double* in, double* out, Band band) {
    const std::size_t column = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
    if (column >= band.columns) return;
    const std::size_t first = blockIdx.y * static_cast<std::size_t>(blockDim.y) + threadIdx.y;
    for (std::size_t row = first; row < band.rows; row += static_cast<std::size_t>(gridDim.y) * blockDim.y) {
        const double* here = in + (row + 1) * band.columns + column;
        const bool rim = column == 0 || column + 1 == band.columns;
        out[row * band.columns + column] =
            rim ? here[0] : heat(here[0], *(here - band.columns), here[band.columns], here[-1], here[1]);
    }
}

int heat_step(const double* in, double* out, Band band, void* stream) {
    const dim3 threads(32, 8);
    const std::size_t down = (band.rows + threads.y - 1) / threads.y;
    const dim3 blocks(static_cast<unsigned>((band.columns + threads.x - 1) / threads.x),
                      static_cast<unsigned>(down < 65535 ? down : 65535));
    heat_kernel<<<blocks, threads, 0, static_cast<GpuStream>(stream)>>>(in, out, band);
    return last_error();
}

bool kernel_runs_on_cpu() { return false; }
