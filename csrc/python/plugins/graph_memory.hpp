// SPDX-License-Identifier: MIT
// python/plugins/graph_memory.hpp: memory that a library wants kept apart, for graphs that it captures and replays.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "../bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Keeps a pool for each part of a library's memory that must not mix with the rest. A graph is replayed with the
/// addresses of its capture, so what was allocated in the capture serves no one else until the graph is gone.
///
/// Each stream of a part has a pool of its own, because nothing orders the streams of a capture for the host. While a
/// stream is captured, its pool works on a stream that stands in for it, on which no work is ever queued; the capture's
/// own order then is that of the calls.
class GraphMemory {
  public:
    using Id = std::pair<unsigned long long, unsigned long long>;  ///< the library's name of a part
    using Filter = std::function<bool(rt::Stream_t)>;              ///< which streams take from the part

    /// Until end, allocations of the device on streams that the filter names come from the part.
    void begin(int device, Id id, Filter filter);
    void end(int device, Id id);
    /// Gives the part's memory back, once its last block is free. It waits for the device, whose work may use the
    /// memory. Where a part is open, or the device cannot be waited for now, a later call of this or of
    /// give_back_released does it.
    void release(int device, Id id);
    void give_back_released();

    /// Returns whether any part is open. It costs one read.
    bool is_open() const noexcept { return open_.load(std::memory_order_acquire) != 0; }
    /// Returns the pool for a stream, which is made over `over` at first; null where no open part names the stream.
    std::shared_ptr<MemoryResource> pool_for(int device, rt::Stream_t handle,
                                             const std::shared_ptr<MemoryResource>& over);
    /// Returns whether a resource is the pool of a part that a graph may still use.
    bool keeps(const MemoryResource& resource) const;

    /// Returns an idle stream to name in place of a captured one.
    std::shared_ptr<Stream> stand_in(int device, rt::Stream_t handle);

  private:
    struct Part {
        int device = 0;
        Id id{};
        Filter filter;  // empty: closed
        std::map<rt::Stream_t, std::shared_ptr<MemoryResource>> pools;
    };

    Part* find(int device, Id id);

    mutable std::mutex mutex_;  // held while a pool or a stream is made, which allocates no memory
    std::vector<Part> parts_;
    std::vector<Part> released_;  // parts that no graph uses any more
    std::map<std::pair<int, rt::Stream_t>, std::shared_ptr<Stream>> stand_ins_;
    std::atomic<std::size_t> open_{0};
};

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
