// SPDX-License-Identifier: MIT
// tests/packaging/runtimes/kernel.cu: CUDA code that includes the whole of portamem.
#include "portamem/portamem.hpp"

__global__ void double_all(float* values, std::size_t count) {
    const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
    if (i < count) values[i] *= 2;
}

void double_on(const portamem::Buffer& buffer, const portamem::Stream& stream) {
    const std::size_t count = buffer.nbytes() / sizeof(float);
    const auto blocks = static_cast<unsigned>((count + 255) / 256);
    double_all<<<blocks, 256, 0, stream.handle()>>>(static_cast<float*>(buffer.ptr()), count);
}
