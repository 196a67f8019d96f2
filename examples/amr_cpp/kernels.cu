// SPDX-License-Identifier: MIT
// amr_cpp/kernels.cu: loops on GPUs. nvcc and hipcc compile this one file; g++ compiles the rest of the program.
#if defined(__HIP__)
#include <hip/hip_runtime.h>
using GpuStream = hipStream_t;
static int last_error() { return static_cast<int>(hipGetLastError()); }
#else
using GpuStream = cudaStream_t;
static int last_error() { return static_cast<int>(cudaGetLastError()); }
#endif

#include "kernels.hpp"

template <class Body>
__global__ void each(Body body, std::size_t count) {
    const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count; i += stride) {
        body(i);
    }
}

template <class Body>
int launch(const Body& body, std::size_t count, void* stream) {
    if (count == 0) return 0;
    const unsigned threads = 256;
    const std::size_t blocks = (count + threads - 1) / threads;
    each<<<dim3(static_cast<unsigned>(blocks < 65535 ? blocks : 65535)), dim3(threads), 0,
           static_cast<GpuStream>(stream)>>>(body, count);
    return last_error();
}

AMR_LAUNCHES

bool kernels_run_on_cpu() { return false; }
