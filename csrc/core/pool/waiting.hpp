// SPDX-License-Identifier: MIT
// core/pool/waiting.hpp: free memory that waits behind events.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <utility>

#include "mark.hpp"

namespace portamem::pool {

/// Batches by the stream that they were freed on, oldest first, so that a stream's slow work delays its own memory
/// only. Under the heap's lock.
class Waiting {
  public:
    /// Adds one batch. Without host memory for a queue of the stream, the batch waits in a queue that streams share.
    void add(Batches&& one) noexcept {
        const std::uint64_t stream = one.front().stream;
        try {
            auto& queue = queues_[stream];
            queue.splice(queue.end(), one);
        } catch (const std::bad_alloc&) {
            shared().splice(shared().end(), one);
        }
    }

    /// Gets the mark of a stream's oldest batch, which may be null. False where the stream has no batch.
    bool oldest(std::uint64_t stream, MarkPtr& mark) const noexcept {
        const auto found = queues_.find(stream);
        if (found == queues_.end() || found->second.empty()) return false;
        mark = found->second.front().mark;
        return true;
    }

    /// Returns the queue of a stream, for callers that take batches out of it; null where there is none.
    Batches* queue_of(std::uint64_t stream) noexcept {
        const auto found = queues_.find(stream);
        return found == queues_.end() ? nullptr : &found->second;
    }
    void forget_if_empty(std::uint64_t stream) noexcept {
        const auto found = queues_.find(stream);
        if (stream != 0 && found != queues_.end() && found->second.empty()) queues_.erase(found);
    }

    /// Returns one stream after the other, over all calls.
    std::uint64_t next() noexcept {
        auto found = queues_.upper_bound(turn_);
        if (found == queues_.end()) found = queues_.begin();
        return turn_ = found->first;
    }
    std::size_t streams() const noexcept { return queues_.size(); }
    bool empty() const noexcept {
        return std::all_of(queues_.begin(), queues_.end(), [](const auto& queue) { return queue.second.empty(); });
    }
    std::map<std::uint64_t, Batches>& queues() noexcept { return queues_; }

    void clear() noexcept {
        for (auto& queue : queues_) queue.second.clear();
    }

  private:
    Batches& shared() noexcept { return queues_.begin()->second; }

    std::map<std::uint64_t, Batches> queues_{{0, {}}};  // the shared queue, of stream 0, is always here
    std::uint64_t turn_ = 0;
};

}  // namespace portamem::pool
