// SPDX-License-Identifier: MIT
// core/pool/mark.hpp: events, held by all who wait for one.
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

/// The way of events back to the pool's owner. A thread that ends may let go of the last mark of a stream just while the
/// owner goes: the owner stays until a drop under way has ended, and later ones do not name it any more.
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

/// An event of the pool's owner, given back with its last holder.
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

/// Memory that is in no list: freed on one stream, usable by others behind the mark.
struct Batch {
    MarkPtr mark;
    std::uint64_t stream = 0;
    std::vector<Item> items;     ///< small blocks, and larger ones that caches had
    std::vector<Block*> blocks;  ///< larger ones as they are in lists

    bool empty() const noexcept { return items.empty() && blocks.empty(); }
};

/// Batches go from list to list as they are: what is on its way needs no host memory to arrive.
using Batches = std::list<Batch>;

inline Batches one_batch(std::uint64_t stream) {
    Batches batches(1);
    batches.front().stream = stream;
    return batches;
}

}  // namespace portamem::pool
