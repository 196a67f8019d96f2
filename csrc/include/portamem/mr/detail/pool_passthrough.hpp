// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_passthrough.hpp: a pool that keeps nothing, for memory checkers: PORTAMEM_POOL=off.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "portamem/detail/number_map.hpp"
#include "portamem/mr/detail/pool_limit.hpp"
#include "portamem/mr/memory_resource.hpp"
#include "portamem/mr/pool_figures.hpp"

PORTAMEM_OPEN
namespace detail {

/// Does the pool's work where each allocation goes straight to its upstream, and comes straight back. It counts and
/// refuses as a pool does. It is thread-safe.
class PoolPassthrough {
  public:
    /// limit: most bytes, 0 for none. shared: a limit that other pools count for too, or null; it has to live as long
    /// as this object.
    PoolPassthrough(std::shared_ptr<MemoryResource> upstream, std::size_t limit, const PoolLimit* shared)
        : upstream_(std::move(upstream)), limit_(limit), shared_(shared) {}

    /// Takes memory of the upstream, and more of it where that aligns to less. Returns null where a limit leaves no
    /// room. It takes no request of 0 bytes.
    void* allocate(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
        const std::size_t more = alignment > MemoryResource::kAlignment ? alignment : 0;
        Block block;
        block.nbytes = nbytes;
        block.taken = nbytes + more < nbytes ? nbytes : nbytes + more;  // the upstream refuses so much
        if (!begin(block.taken)) return nullptr;
        Blocks noted;  // made in advance: once there is memory, nothing may fail
        try {
            noted[nullptr] = block;
            block.begin = detail::open_upstream(upstream_)->allocate(block.taken, stream);
        } catch (...) {
            end(block.taken);
            throw;
        }
        const auto address = reinterpret_cast<std::uintptr_t>(block.begin);
        void* const ptr = static_cast<char*>(block.begin) + (alignment - address % alignment) % alignment;
        auto node = noted.extract(noted.begin());
        node->second = block;
        const std::lock_guard<std::mutex> lock(mutex_);
        blocks_.insert(ptr, std::move(node));
        used_ += nbytes;
        return ptr;
    }

    /// Throws std::invalid_argument for memory that is not out, or not of that size.
    void deallocate(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        auto block = claim(ptr, nbytes);
        try {
            upstream_->deallocate(block->second.begin, block->second.taken, stream);
        } catch (...) {
            const std::lock_guard<std::mutex> lock(mutex_);
            used_ += nbytes;
            blocks_.insert(ptr, std::move(block));
            throw;
        }
        end(block->second.taken);
        const std::lock_guard<std::mutex> lock(mutex_);
        ++releases_;
    }

    PoolStats stats() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        PoolStats stats;
        stats.used = used_;
        stats.reserved = reserved_;
        stats.peak = peak_;
        stats.misses = misses_;
        stats.releases = releases_;
        return stats;
    }

    /// Returns the blocks that are out, each as a chunk of its own.
    std::vector<PoolPiece> snapshot() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::vector<PoolPiece> pieces;
        for (const auto& entry : blocks_) {
            PoolPiece piece;
            piece.chunk = reinterpret_cast<std::uintptr_t>(entry.second.begin);
            piece.chunk_nbytes = entry.second.taken;
            piece.address = piece.chunk;
            piece.nbytes = entry.second.taken;
            piece.state = PoolPieceState::Live;
            piece.blocks = piece.live = 1;
            piece.block_nbytes = entry.second.taken;
            pieces.push_back(piece);
        }
        return pieces;
    }

    /// Refuses allocations from here on. Returns false while memory is out.
    bool close() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!blocks_.empty() || reserved_ != 0) return false;
        closed_ = true;
        return true;
    }

    void reset_peak() {
        const std::lock_guard<std::mutex> lock(mutex_);
        peak_ = reserved_;
    }

    /// Returns the blocks and bytes that are out; none in a forked child where a thread of the parent held the lock.
    std::pair<std::size_t, std::size_t> live() const noexcept {
        std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
        if (portamem_forked() == 0) {
            lock.lock();
        } else if (!lock.try_lock()) {
            return {0, 0};
        }
        return {blocks_.size(), used_};
    }

    /// Returns the bytes of a block that is out.
    std::optional<std::size_t> size_of(const void* ptr) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = blocks_.find(const_cast<void*>(ptr));
        return found == blocks_.end() ? std::nullopt : std::optional(found->second.nbytes);
    }

    /// Returns the block that an address is in.
    portamem_address find(const void* ptr) const {
        const auto address = reinterpret_cast<std::uintptr_t>(ptr);
        const std::lock_guard<std::mutex> lock(mutex_);
        auto after = blocks_.upper_bound(const_cast<void*>(ptr));
        if (after == blocks_.begin()) return {};
        const auto& [base, block] = *--after;
        if (address - reinterpret_cast<std::uintptr_t>(base) >= block.nbytes) return {};
        return {PORTAMEM_ADDRESS_BLOCK, base, block.nbytes};
    }

    void set_limit(std::size_t limit) {
        const std::lock_guard<std::mutex> lock(mutex_);
        limit_ = limit;
    }

  private:
    struct Block {
        void* begin = nullptr;
        std::size_t taken = 0;  // taken of the upstream
        std::size_t nbytes = 0;
    };
    using Blocks = NumberMap<void*, Block>;

    bool begin(std::size_t taken) {
        std::size_t claimed = taken;
        if (shared_ != nullptr && !shared_->claim(taken, claimed)) return false;
        bool has_begun = false;
        bool was_closed = false;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            was_closed = closed_;
            has_begun = !closed_ && (limit_ == 0 || (taken <= limit_ && reserved_ <= limit_ - taken));
            if (has_begun) {
                ++misses_;
                reserved_ += taken;
                peak_ = std::max(peak_, reserved_);
            }
        }
        if (!has_begun && shared_ != nullptr) shared_->unclaim(taken);
        if (was_closed) throw std::invalid_argument("the memory resource is closed");
        return has_begun;
    }

    void end(std::size_t taken) noexcept {
        if (shared_ != nullptr) shared_->unclaim(taken);
        const std::lock_guard<std::mutex> lock(mutex_);
        reserved_ -= taken;
    }

    Blocks::Node claim(void* ptr, std::size_t nbytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = blocks_.find(ptr);
        if (found == blocks_.end()) {
            throw std::invalid_argument("the memory is not this pool's own, or has been given back already");
        }
        if (found->second.nbytes != nbytes) {
            throw std::invalid_argument("the memory has " + std::to_string(found->second.nbytes) + " bytes, not " +
                                        std::to_string(nbytes) + ": give the size that was allocated");
        }
        used_ -= nbytes;
        return blocks_.extract(found);
    }

    const std::shared_ptr<MemoryResource> upstream_;
    std::size_t limit_;  // under the mutex
    const PoolLimit* const shared_;
    mutable std::mutex mutex_;
    Blocks blocks_;  // the blocks that are out
    bool closed_ = false;
    std::size_t used_ = 0;
    std::size_t reserved_ = 0;
    std::size_t peak_ = 0;
    std::uint64_t misses_ = 0;
    std::uint64_t releases_ = 0;
};

}  // namespace detail
PORTAMEM_CLOSE
