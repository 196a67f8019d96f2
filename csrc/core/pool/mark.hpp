// SPDX-License-Identifier: MIT
// core/pool/mark.hpp: events, each held by everything that waits for it.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "block.hpp"
#include "portamem/abi/pool_api.h"

namespace portamem::pool {

/// Gives events back to the pool's owner. A thread that ends may drop the last mark of a stream while the owner goes:
/// forget_owner() waits for a drop under way, and later drops no longer name the owner.
class EventsBack {
  public:
    EventsBack(const portamem_pool_ops& ops, void* self) noexcept : drop_(ops.drop), self_(self) {}

    void drop(void* event) noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        drop_(self_, event);
    }
    void forget_owner() noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        self_ = nullptr;
    }

  private:
    std::mutex mutex_;
    void (*const drop_)(void* self, void* event);
    void* self_;
};

/// An event of the pool's owner. The last holder of the mark gives it back.
class Mark {
  public:
    Mark(std::shared_ptr<EventsBack> back, void* event) noexcept : back_(std::move(back)), event_(event) {}
    ~Mark() {
        if (event_ != nullptr) back_->drop(event_);
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

    void* event() const noexcept { return event_; }

  private:
    const std::shared_ptr<EventsBack> back_;
    void* const event_;
};

using MarkPtr = std::shared_ptr<Mark>;  ///< null: nothing to wait for

/// Memory that is in no list: freed on one stream, usable on other streams behind the mark.
struct Batch {
    MarkPtr mark;
    std::uint64_t stream = 0;
    std::uint64_t number = 0;    ///< of unmarked memory: its place in the arena's order of frees
    std::vector<Item> items;     ///< small blocks, and larger ones that were in caches or kept
    std::vector<Block*> blocks;  ///< larger blocks that were in lists

    bool empty() const noexcept { return items.empty() && blocks.empty(); }
};

/// A list of batches. A batch moves from list to list as it is, so that moving it needs no host memory.
using Batches = std::list<Batch>;

inline Batches one_batch(std::uint64_t stream) {
    Batches batches(1);
    batches.front().stream = stream;
    return batches;
}

}  // namespace portamem::pool
