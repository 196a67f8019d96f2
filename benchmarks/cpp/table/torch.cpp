// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/torch.cpp: PyTorch's caching allocator, by the calls that its own tensors make. There is one of it
// in a process.
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <stdexcept>

#include "contender.hpp"

namespace table {
namespace {

class Torch {
  public:
    Torch() {
        namespace caching = c10::cuda::CUDACachingAllocator;
        static const bool ready = (caching::init(1), true);
        (void)ready;
        for (cudaStream_t& stream : streams_) {
            if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
                throw std::runtime_error("no stream");
            }
        }
    }
    ~Torch() {
        c10::cuda::CUDACachingAllocator::emptyCache();
        for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
    }
    Torch(const Torch&) = delete;
    Torch& operator=(const Torch&) = delete;

    void* allocate(std::size_t nbytes, int stream) {
        return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(nbytes, streams_[stream]);
    }
    // It goes back to the stream that it came from.
    void deallocate(void* ptr, std::size_t, int) { c10::cuda::CUDACachingAllocator::raw_delete(ptr); }
    std::size_t peak_reserved() const { return 0; }

  private:
    cudaStream_t streams_[kStreams]{};
};

}  // namespace

void add_torch(Contenders& all) {
    all.push_back(contender("PyTorch", [] { return std::make_unique<Torch>(); }));
}

}  // namespace table
