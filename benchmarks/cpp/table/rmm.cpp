// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/rmm.cpp: RMM's resources, each over its own upstream as its users make it.
#include <cuda_runtime_api.h>

#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <stdexcept>

#include "contender.hpp"

namespace table {
namespace {

template <class Resource>
class Rmm {
  public:
    template <class... Args>
    explicit Rmm(Args&&... args) : resource_(std::forward<Args>(args)...) {
        for (cudaStream_t& stream : streams_) {
            if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
                throw std::runtime_error("no stream");
            }
        }
    }
    ~Rmm() {
        for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
    }
    Rmm(const Rmm&) = delete;
    Rmm& operator=(const Rmm&) = delete;

    void* allocate(std::size_t nbytes, int stream) {
        return resource_.allocate(cuda::stream_ref{streams_[stream]}, nbytes, kAlignment);
    }
    void deallocate(void* ptr, std::size_t nbytes, int stream) {
        resource_.deallocate(cuda::stream_ref{streams_[stream]}, ptr, nbytes, kAlignment);
    }
    std::size_t peak_reserved() const { return 0; }

  private:
    static constexpr std::size_t kAlignment = 256;  // as portamem gives it unasked

    Resource resource_;
    cudaStream_t streams_[kStreams]{};
};

}  // namespace

void add_rmm(Contenders& all) {
    using rmm::mr::arena_memory_resource;
    using rmm::mr::cuda_async_memory_resource;
    using rmm::mr::cuda_memory_resource;
    using rmm::mr::pool_memory_resource;
    all.push_back(
        contender("RMM arena", [] { return std::make_unique<Rmm<arena_memory_resource>>(cuda_memory_resource{}); }));
    all.push_back(contender("RMM pool", [] {
        return std::make_unique<Rmm<pool_memory_resource>>(cuda_memory_resource{}, std::size_t{1} << 30);
    }));
    all.push_back(contender("RMM async", [] { return std::make_unique<Rmm<cuda_async_memory_resource>>(); }));
}

}  // namespace table
