// SPDX-License-Identifier: MIT
// core/pool/mark.hpp: events, held by all who wait for one.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "block.hpp"
#include "portamem/pool_api.h"

namespace portamem::pool {

/// An event of the pool's owner, given back with its last holder.
class Mark {
  public:
    Mark(const portamem_pool_ops& ops, void* self, void* event) noexcept : ops_(ops), self_(self), event_(event) {}
    ~Mark() {
        if (event_ != nullptr) ops_.drop(self_, event_);
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

    void* event() const noexcept { return event_; }

  private:
    const portamem_pool_ops& ops_;
    void* const self_;
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
