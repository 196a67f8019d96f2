// SPDX-License-Identifier: MIT
// python/plugs/graph_memory.hpp: memory that a library wants kept apart, for graphs that it captures and replays.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

    /// Names where memory comes from: a pool, and the stream to name in its calls.
    struct Source {
        std::shared_ptr<MemoryResource> pool;
        std::shared_ptr<Stream> stream;
    };

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
    /// Returns the source for a stream; nothing where no open part names it. `over` makes the memory that a new pool
    /// cuts.
    std::optional<Source> source(int device, const std::shared_ptr<Stream>& stream,
                                 const std::shared_ptr<MemoryResource>& over);

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

    std::mutex mutex_;  // held while a pool is made, which allocates nothing
    std::vector<Part> parts_;
    std::vector<Part> released_;  // parts that no graph uses any more
    std::map<std::pair<int, rt::Stream_t>, std::shared_ptr<Stream>> stand_ins_;
    std::atomic<std::size_t> open_{0};
};

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
