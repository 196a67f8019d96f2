// SPDX-License-Identifier: MIT
// host/virtual_memory.hpp: virtual memory: reserved addresses, physical memory, and which of it is mapped where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "physical_memory.hpp"
#include "portamem/host/runtime_api.h"
#include "reservation.hpp"

namespace portamem::host {

class Hold;
struct Allocation;
struct Device;
struct State;

/// The virtual memory of the process. The runtime's lock guards it. A mapped piece has a record among the allocations
/// while the device of its memory has access to it. A call that is refused changes nothing.
class VirtualMemory {
  public:
    using Handle = pmhMemGenericAllocationHandle_t;

    static constexpr std::size_t granule = std::size_t{64} << 10;
    static constexpr std::size_t recommended_granule = std::size_t{2} << 20;

    void* reserve(std::size_t size, std::size_t alignment, bool guarded);
    void free(Hold& hold, void* ptr, std::size_t size);

    Handle create(State& state, Hold& hold, Device& device, std::size_t size);
    void release(State& state, Hold& hold, Handle handle);

    void map(const State& state, void* ptr, std::size_t size, Handle handle);
    void unmap(State& state, Hold& hold, void* ptr, std::size_t size);

    void set_access(State& state, void* ptr, std::size_t size, int device, bool accessible);

    /// Whether a device has access to the memory at an address; false where none is mapped.
    bool has_access(const void* ptr, int device) const;

    /// Whether memory is mapped at an address.
    bool is_mapped(const void* ptr) const { return piece_at(ptr) != nullptr; }

    /// Whether a range shares a byte with reserved addresses.
    bool is_reserved(const void* ptr, std::size_t size) const;

  private:
    struct Piece {
        std::shared_ptr<Reservation> reservation;
        std::shared_ptr<PhysicalMemory> memory;
        std::vector<bool> access;  ///< by device

        bool has_record() const { return access[static_cast<std::size_t>(memory->device)]; }
    };
    using Pieces = std::map<std::uintptr_t, Piece>;
    using Reservations = std::map<std::uintptr_t, std::shared_ptr<Reservation>>;

    static std::shared_ptr<Allocation> make_record(Pieces::const_reference piece);
    static void give_access(State& state, Pieces::iterator first, Pieces::iterator last, int device);
    static void take_access(State& state, Pieces::iterator first, Pieces::iterator last, int device);
    static void let_go(State& state, Hold& hold, std::shared_ptr<PhysicalMemory> memory);

    const std::shared_ptr<Reservation>& reservation_around(const void* ptr, std::size_t size) const;
    Pieces::const_iterator piece_within(const void* ptr, std::size_t size) const;
    const Piece* piece_at(const void* ptr) const;
    Pieces::iterator end_of_pieces(Pieces::iterator first, std::size_t size);

    MemoryFile file_;
    Reservations reservations_;  ///< by first address
    Pieces pieces_;              ///< by first address
    std::unordered_map<Handle, std::shared_ptr<PhysicalMemory>> handles_;
    /// Handles are numbers that are never used again, so that one that was released is never another's.
    std::uintptr_t next_handle_ = std::uintptr_t{1} << 20;
};

}  // namespace portamem::host
