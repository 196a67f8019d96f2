// SPDX-License-Identifier: MIT
// host/allocation.hpp: the record of a piece of memory that the runtime knows, and the map of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "managed_ranges.hpp"
#include "mapping.hpp"

namespace portamem::host {

class Pool;
struct Block;

enum class Kind { Device, Pool, Pinned, Registered, Managed, Virtual };

/// The record of a piece of memory. Queued operations share it, so that memory freed early stays mapped until they have
/// run.
struct Allocation {
    Kind kind = Kind::Device;
    char* base = nullptr;   ///< the user's address
    char* alias = nullptr;  ///< the runtime's address of the same bytes
    std::size_t size = 0;
    int device = 0;
    unsigned flags = 0;
    std::shared_ptr<Mapping> mapping;       ///< null for the caller's registered memory; a piece's whole reservation
    std::shared_ptr<Pool> pool;             ///< only for Kind::Pool
    Block* block = nullptr;                 ///< only for Kind::Pool
    std::unique_ptr<ManagedRanges> ranges;  ///< only for Kind::Managed

    bool is_device_memory() const { return kind == Kind::Device || kind == Kind::Pool || kind == Kind::Virtual; }
    bool is_host_memory() const { return kind == Kind::Pinned || kind == Kind::Registered; }
};

/// All known memory by the user's address. Ranges never overlap.
class AllocationMap {
  public:
    using Record = std::shared_ptr<Allocation>;

    void insert(Record record);

    /// Returns the record that starts at an address, or null.
    Record starting_at(const void* ptr) const;

    /// Returns the record that holds an address, or null.
    Record holding(const void* ptr) const;

    /// Returns the records that together hold a range: one or, of virtual memory, adjacent pieces of one reservation,
    /// whose aliases are adjacent too. Empty where a byte is in none of them.
    std::vector<Record> holding_all(const void* ptr, std::size_t size) const;

    /// Returns a record that shares a byte with a range, or null.
    Record overlapping(const void* ptr, std::size_t size) const;

    /// Returns the record that starts last at or before an address, or null.
    Record before(const void* ptr) const;

    void erase(const Allocation& record) { records_.erase(key(record.base)); }

  private:
    static std::uintptr_t key(const void* ptr) { return reinterpret_cast<std::uintptr_t>(ptr); }

    std::map<std::uintptr_t, Record> records_;
};

}  // namespace portamem::host
