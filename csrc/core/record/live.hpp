// SPDX-License-Identifier: MIT
// core/record/live.hpp: allocations that are live, by their address.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "../order/call.hpp"
#include "tallies.hpp"

namespace portamem::record {

struct Live {
    std::uintptr_t address = 0;
    std::size_t nbytes = 0;
    std::uint64_t stream = 0;
    std::int64_t time = 0;  ///< nanoseconds since 1970
    Filed filed;
    order::SiteId site = 0;
    int stream_device = 0;
};

/// Live allocations, in parts with a lock each, so that threads seldom meet.
class LiveTable {
  public:
    void add(const Live& live);
    /// Takes an allocation out of the table; nothing where the table does not have it.
    std::optional<Live> take(std::uint64_t resource, std::uintptr_t address);
    /// Returns the bytes of an allocation; 0 where the table does not have it.
    std::size_t nbytes_of(std::uint64_t resource, std::uintptr_t address) const;
    /// Returns all allocations, the oldest first.
    std::vector<Live> all() const;

  private:
    struct Key {
        std::uint64_t resource;
        std::uintptr_t address;
        bool operator==(const Key& other) const { return resource == other.resource && address == other.address; }
    };
    struct Hash {
        std::size_t operator()(const Key& key) const noexcept;
    };
    struct alignas(64) Part {
        mutable std::mutex mutex;  ///< a leaf
        std::unordered_map<Key, Live, Hash> blocks;
    };

    Part& part_of(const Key& key) noexcept;
    const Part& part_of(const Key& key) const noexcept { return const_cast<LiveTable*>(this)->part_of(key); }

    std::array<Part, 64> parts_;
};

}  // namespace portamem::record
