// SPDX-License-Identifier: MIT
// host/pool.hpp: a stream-ordered memory pool: chunks of device memory, cut into blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "mapping.hpp"
#include "stream.hpp"

namespace portamem::host {

struct Chunk;

/// A piece of a chunk, in use or free. A free block may be pending: its free has not yet been seen to have run.
struct Block {
    Chunk* chunk = nullptr;
    std::size_t offset = 0;
    std::size_t size = 0;
    std::size_t asked = 0;  ///< bytes that the user asked for, while in use
    bool used = false;
    Point freed;  ///< the point at which a pending block is free; otherwise without a stream
    Block* previous = nullptr;
    Block* next = nullptr;

    bool is_pending() const { return freed.stream != nullptr; }
    char* address() const;
};

/// Memory that a pool takes of its device in one call.
struct Chunk {
    Chunk(std::size_t size, bool guarded);
    ~Chunk();
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;

    std::shared_ptr<Mapping> mapping;  ///< shared with the records of its blocks
    Block* first;                      ///< owned, with all blocks behind it by address

    bool is_idle() const { return !first->used && !first->is_pending() && first->next == nullptr; }
};

/// A stream-ordered pool. The runtime's lock guards it.
class Pool : public std::enable_shared_from_this<Pool> {
  public:
    static constexpr std::size_t granule = 512;
    static constexpr std::size_t chunk_granule = std::size_t{2} << 20;

    Pool(int device_, std::size_t max_size) : device(device_), max_size_(max_size) {}

    const int device;
    bool destroyed = false;  ///< its handle is gone; memory still in use goes to the device as it is freed
    bool follow_events = true;
    bool opportunistic = true;
    bool internal_dependencies = true;
    std::uint64_t threshold = 0;
    std::map<int, int> access;  ///< by other device

    int access_of(int other) const {
        const auto found = access.find(other);
        return other == device         ? pmhMemAccessFlagsProtReadWrite
               : found == access.end() ? pmhMemAccessFlagsProtNone
                                       : found->second;
    }

    /// Takes a block of `size` bytes that work on `stream` may use from now on. OutOfMemory leaves the pool as it was.
    Block* allocate(State& state, Hold& hold, std::size_t size, Stream& stream);

    /// Takes a block back, which is free once `when` is reached. A point without a stream means now.
    void free(State& state, Hold& hold, Block* block, const Point& when);

    /// Gives idle chunks back while more than `keep` bytes are reserved.
    void trim(State& state, Hold& hold, std::uint64_t keep);

    /// Trims to the threshold, as a synchronisation with the host does.
    void synchronized(State& state, Hold& hold);

    bool is_empty() const { return chunks_.empty(); }
    bool holds(const void* ptr) const;

    std::uint64_t reserved() const { return reserved_; }
    std::uint64_t used() const { return used_; }
    std::uint64_t reserved_high() const { return reserved_high_; }
    std::uint64_t used_high() const { return used_high_; }
    void reset_reserved_high() { reserved_high_ = reserved_; }
    void reset_used_high() { used_high_ = used_; }

  private:
    struct BySize {
        bool operator()(const Block* a, const Block* b) const;
    };

    Block* find(State& state, std::size_t size, const Stream& stream) const;
    bool grow(State& state, Hold& hold, std::size_t size);
    Block* find_by_waiting(State& state, std::size_t size, Stream& stream) const;
    Block* carve(Block* block, std::size_t size);
    void settle();
    Block* merge_neighbours(Block* block);
    void absorb_next(Block* block);

    std::size_t max_size_;  ///< 0: as much as the device has
    std::vector<std::unique_ptr<Chunk>> chunks_;
    std::set<Block*, BySize> free_;
    std::size_t pending_ = 0;
    std::uint64_t reserved_ = 0;
    std::uint64_t used_ = 0;
    std::uint64_t reserved_high_ = 0;
    std::uint64_t used_high_ = 0;
};

}  // namespace portamem::host
