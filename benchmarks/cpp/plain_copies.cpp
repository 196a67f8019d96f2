// SPDX-License-Identifier: MIT
// benchmarks/cpp/plain_copies.cpp: pinned copies in plain C++ against the CUDA runtime alone, turn by turn with another
// program that measures its own. benchmarks/peers.py builds and drives it.
//
// Reads lines "to|from NBYTES REPEATS" and answers each with the microseconds of one copy, the mean of the repeats.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda_runtime_api.h"

namespace {

void need(cudaError_t answer, const char* what) {
    if (answer == cudaSuccess) return;
    std::fprintf(stderr, "plain_copies: %s: %s\n", what, cudaGetErrorString(answer));
    std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
    const std::size_t most = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::size_t{1} << 30;
    void* pinned = nullptr;
    void* device = nullptr;
    cudaStream_t stream = nullptr;
    need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    need(cudaMallocHost(&pinned, most), "cudaMallocHost");
    need(cudaMalloc(&device, most), "cudaMalloc");
    std::memset(pinned, 1, most);

    char direction[8];
    unsigned long long nbytes = 0;
    int repeats = 0;
    while (std::scanf("%7s %llu %d", direction, &nbytes, &repeats) == 3) {
        if (nbytes > most || repeats < 1) return 2;
        const bool to_device = std::strcmp(direction, "to") == 0;
        need(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < repeats; ++i) {
            need(cudaMemcpyAsync(to_device ? device : pinned, to_device ? pinned : device, nbytes, cudaMemcpyDefault,
                                 stream),
                 "cudaMemcpyAsync");
            need(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        }
        const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
        std::printf("%.3f\n", spent.count() / repeats);
        std::fflush(stdout);
    }
    need(cudaFree(device), "cudaFree");
    need(cudaFreeHost(pinned), "cudaFreeHost");
    need(cudaStreamDestroy(stream), "cudaStreamDestroy");
}
