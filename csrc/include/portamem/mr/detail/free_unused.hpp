// SPDX-License-Identifier: MIT
// portamem/mr/detail/free_unused.hpp: a free of plain device memory that waits for nothing.
#pragma once

#include <memory>
#include <mutex>

#include "portamem/detail/number_map.hpp"
#include "portamem/process_object.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps one stream of each device on which only frees run.
class FreeingStreams {
  public:
    static FreeingStreams& instance() {
        static auto& one = process_object<FreeingStreams>("freeing streams");
        return one;
    }

    std::shared_ptr<Stream> of(int device) {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::shared_ptr<Stream>& stream = streams_[device];
        if (!stream) stream = Stream::create(device);
        return stream;
    }

  private:
    std::mutex mutex_;
    NumberMap<int, std::shared_ptr<Stream>> streams_;
};

/// Frees plain device memory that no work uses any more. Free waits for all work of the device, and blocks other
/// threads' calls meanwhile. FreeAsync takes plain memory too (CUDA: "Using the NVIDIA CUDA Stream-Ordered Memory
/// Allocator", part 1, on cudaMalloc) and waits for its stream alone. The device has the memory back on return. Where
/// FreeAsync refuses it, Free is called.
inline rt::Error_t free_unused(void* ptr, int device) {
    const std::shared_ptr<Stream> stream = FreeingStreams::instance().of(device);
    if (rt::FreeAsync(ptr, stream->handle()) != rt::Error_t::Success) return rt::Free(ptr);
    (void)rt::StreamSynchronize(stream->handle());  // until then the vendor may keep the memory
    return rt::Error_t::Success;
}

}  // namespace detail

PORTAMEM_CLOSE
