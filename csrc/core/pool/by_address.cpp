// SPDX-License-Identifier: MIT
// core/pool/by_address.cpp: finds the resource that a program has a block of, by the block's address.
//
// A resource is made after the one that it takes memory of, and so has a larger identity. Of the resources that know an
// address, the outermost is the one with the largest. The outermost pool that has the address in a chunk excludes all
// resources below it: their blocks there are the pool's chunks, and no program's.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "chunk_map.hpp"
#include "pool.hpp"
#include "portamem/abi/address_api.h"

namespace {

using portamem::pool::ChunkMap;
using portamem::pool::ChunkOwner;

struct Known {
    const portamem_known_ops* ops;
    void* resource;
    std::uint64_t identity;
    portamem_backend backend;
    portamem_known_over over;
};

struct AllKnown {
    std::shared_mutex mutex;
    std::vector<Known> resources;
};

AllKnown& all_known() {
    static AllKnown& all = *new AllKnown;
    return all;
}

// Count the resources that may have out what is a pool's block.
std::atomic<int> over_pools{0};
std::atomic<int> over_unknown{0};

void counted(portamem_known_over over, int by) noexcept {
    if (over == PORTAMEM_OVER_POOL) over_pools.fetch_add(by, std::memory_order_relaxed);
    if (over == PORTAMEM_OVER_UNKNOWN) over_unknown.fetch_add(by, std::memory_order_relaxed);
}

bool can_be_of_another(const ChunkOwner& owner) noexcept {
    if (over_unknown.load(std::memory_order_relaxed) != 0) return true;
    return over_pools.load(std::memory_order_relaxed) != 0 && owner.is_covered.load(std::memory_order_relaxed);
}

// Holds a resource of which the registry has an entry.
class Held {
  public:
    Held() = default;
    Held(const portamem_known_ops* ops, void* resource, std::uint64_t identity) noexcept : identity_(identity) {
        if (ops->hold(resource, &resource_) == 0) ops_ = ops;
    }
    Held(Held&& other) noexcept
        : ops_(std::exchange(other.ops_, nullptr)), resource_(other.resource_), identity_(other.identity_) {}
    Held& operator=(Held&& other) noexcept {
        std::swap(ops_, other.ops_);
        std::swap(resource_, other.resource_);
        std::swap(identity_, other.identity_);
        return *this;
    }
    ~Held() {
        if (ops_ != nullptr) resource_.ops->release(resource_.self);
    }

    explicit operator bool() const noexcept { return ops_ != nullptr; }
    std::uint64_t identity() const noexcept { return identity_; }
    portamem_address find(const void* ptr) const {
        portamem_address found{};
        ops_->find(resource_.self, ptr, &found);
        return found;
    }
    portamem_known_block out(const portamem_address& found) noexcept {
        return {std::exchange(ops_, nullptr), resource_, found.base, found.nbytes};
    }

  private:
    const portamem_known_ops* ops_ = nullptr;
    portamem_resource resource_{};
    std::uint64_t identity_ = 0;
};

// Returns the resources above a pool that may know an address; those of the largest identity come first.
std::vector<Held> held_above(portamem_backend backend, std::uint64_t identity) {
    std::vector<Held> held;
    {
        const std::shared_lock<std::shared_mutex> lock(all_known().mutex);
        held.reserve(all_known().resources.size());
        for (const Known& each : all_known().resources) {
            if (each.backend != backend || each.identity <= identity) continue;
            if (Held one(each.ops, each.resource, each.identity); one) held.push_back(std::move(one));
        }
    }
    std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.identity() > b.identity(); });
    return held;
}

bool find_block(portamem_backend backend, const void* ptr, bool inside, portamem_known_block& block) {
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    Held pool;
    std::uint64_t above = 0;
    bool asks_others = true;
    {
        const ChunkMap::Reading reading;
        if (!reading) return false;
        if (const ChunkMap::Span* span = ChunkMap::find(address)) {
            const ChunkOwner& owner = *span->owner;
            const portamem_known_ops* const ops = owner.ops.load(std::memory_order_acquire);
            above = owner.identity;
            if (ops != nullptr && owner.backend == backend) {
                asks_others = can_be_of_another(owner);
                // A block is out only once a shared pointer holds the resource, if one ever does.
                const bool is_out = owner.pool->find(ptr, span->begin).state == PORTAMEM_ADDRESS_BLOCK;
                if (is_out) pool = Held(ops, owner.resource, owner.identity);
            }
        }
    }
    const auto is_result = [&](const portamem_address& found) {
        return found.state == PORTAMEM_ADDRESS_BLOCK && (inside || found.base == ptr);
    };
    if (asks_others) {
        for (Held& each : held_above(backend, above)) {
            const portamem_address found = each.find(ptr);
            if (found.state == PORTAMEM_ADDRESS_UNKNOWN) continue;
            if (!is_result(found)) return false;
            block = each.out(found);
            return true;
        }
    }
    if (!pool) return false;
    const portamem_address found = pool.find(ptr);
    if (!is_result(found)) return false;
    block = pool.out(found);
    return true;
}

// Returns whether the pool alone can have the block of an address out.
const ChunkOwner* owner_at_hand(const void* ptr) noexcept {
    const ChunkMap::Span* const span = ChunkMap::find(reinterpret_cast<std::uintptr_t>(ptr));
    return span == nullptr || can_be_of_another(*span->owner) ? nullptr : span->owner;
}

}  // namespace

int portamem_known_add(portamem_backend backend, const portamem_known_ops* ops, void* resource, std::uint64_t identity,
                       portamem_known_over over) {
    try {
        AllKnown& all = all_known();
        const std::unique_lock<std::shared_mutex> lock(all.mutex);
        all.resources.push_back({ops, resource, identity, backend, over});
        counted(over, 1);
        return 0;
    } catch (...) {
        return -1;
    }
}

void portamem_known_remove(const void* resource) {
    if (portamem_forked() != 0) return;
    AllKnown& all = all_known();
    const std::unique_lock<std::shared_mutex> lock(all.mutex);
    const auto found = std::find_if(all.resources.begin(), all.resources.end(),
                                    [resource](const Known& each) { return each.resource == resource; });
    if (found == all.resources.end()) return;
    counted(found->over, -1);
    *found = all.resources.back();
    all.resources.pop_back();
}

int portamem_find_block(portamem_backend backend, const void* ptr, int inside, portamem_known_block* block) {
    if (ptr == nullptr || portamem_forked() != 0) return 0;
    try {
        if (!find_block(backend, ptr, inside != 0, *block)) return 0;
        if (block->base == ptr) return 1;
        // An adaptor over the resource may know the block by its beginning only.
        portamem_known_block outer{};
        if (find_block(backend, block->base, false, outer)) {
            std::swap(*block, outer);
            outer.resource.ops->release(outer.resource.self);
        }
        return 1;
    } catch (...) {
        return 0;
    }
}

std::size_t portamem_size_at_hand(portamem_backend backend, const void* ptr) {
    const ChunkMap::Reading reading;
    if (!reading) return 0;
    const ChunkOwner* const owner = owner_at_hand(ptr);
    if (owner == nullptr || owner->ops.load(std::memory_order_acquire) == nullptr) return 0;
    return owner->backend == backend ? owner->pool->asked_at(ptr) : 0;
}

void* portamem_enter_pool(const portamem_known_ops* ops, const void* ptr, std::uint32_t** entered) {
    ChunkMap::Reading reading;
    const ChunkOwner* const owner = reading ? owner_at_hand(ptr) : nullptr;
    if (owner == nullptr || owner->ops.load(std::memory_order_acquire) != ops) return nullptr;
    *entered = reading.kept();
    return *entered == nullptr ? nullptr : owner->resource;
}

int portamem_resource_of(portamem_backend backend, const void* ptr, portamem_resource* resource) {
    portamem_known_block block{};
    if (portamem_find_block(backend, ptr, 0, &block) == 0) return -1;
    *resource = block.resource;
    return 0;
}

int portamem_size_of(portamem_backend backend, const void* ptr, std::size_t* nbytes) {
    portamem_known_block block{};
    if (portamem_find_block(backend, ptr, 0, &block) == 0) return -1;
    *nbytes = block.nbytes;
    block.resource.ops->release(block.resource.self);
    return 0;
}

int portamem_deallocate(portamem_backend backend, void* ptr, void* stream) {
    if (ptr == nullptr) return 0;
    if (const ChunkMap::Reading reading; reading) {
        const ChunkOwner* const owner = owner_at_hand(ptr);
        const portamem_known_ops* const ops = owner == nullptr ? nullptr : owner->ops.load(std::memory_order_acquire);
        if (ops != nullptr && owner->backend == backend && ops->deallocate_cached(owner->resource, ptr, stream) != 0) {
            return 0;
        }
    }
    portamem_known_block block{};
    if (portamem_find_block(backend, ptr, 0, &block) == 0) return -1;
    const int answer = block.resource.ops->deallocate(block.resource.self, ptr, block.nbytes, stream);
    block.resource.ops->release(block.resource.self);
    return answer;
}
