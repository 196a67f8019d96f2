// SPDX-License-Identifier: MIT
// portamem/detail/address_table.hpp: a hash table of sizes by address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "portamem/detail/light_vector.hpp"

PORTAMEM_OPEN
namespace detail {

/// Keeps a size for each address, which is not null. An entry lies in the first slot that was free from its own place
/// on. The table is at most three quarters full, and never shrinks. It takes less time than std::unordered_map, to use
/// and to compile.
class AddressTable {
  public:
    struct Entry {
        std::uintptr_t address = 0;  // 0: the slot is free
        std::size_t nbytes = 0;
    };

    /// Returns the entry of an address, or null. The next change of the table ends the pointer's life.
    const Entry* find(const void* ptr) const noexcept {
        if (slots_.empty()) return nullptr;
        const Entry& entry = slots_[slot_of(reinterpret_cast<std::uintptr_t>(ptr))];
        return entry.address != 0 ? &entry : nullptr;
    }

    /// Throws std::bad_alloc, and nothing has changed.
    void insert_or_assign(const void* ptr, std::size_t nbytes) {
        if (4 * (count_ + 1) > 3 * slots_.size()) grow();
        put({reinterpret_cast<std::uintptr_t>(ptr), nbytes});
    }

    /// Removes the entry of an address that is in the table.
    void erase(const void* ptr) noexcept {
        const std::size_t mask = slots_.size() - 1;
        std::size_t gap = slot_of(reinterpret_cast<std::uintptr_t>(ptr));
        // An entry behind the gap moves into it where the entry's own place is not between the two.
        for (std::size_t next = (gap + 1) & mask; slots_[next].address != 0; next = (next + 1) & mask) {
            const std::size_t from_place = (next - place_of(slots_[next].address)) & mask;
            if (from_place < ((next - gap) & mask)) continue;
            slots_[gap] = slots_[next];
            gap = next;
        }
        slots_[gap] = {};
        --count_;
    }

  private:
    static constexpr std::size_t kFewest = 16;

    // PartsByAddress chooses the part by the upper four bits of the same product.
    std::size_t place_of(std::uintptr_t address) const noexcept {
        const auto bits = static_cast<std::uint64_t>(address) * 0x9E3779B97F4A7C15u << 4;
        return static_cast<std::size_t>(bits >> shift_);
    }
    // Returns the slot of an address, or the free one where it would go.
    std::size_t slot_of(std::uintptr_t address) const noexcept {
        std::size_t slot = place_of(address);
        while (slots_[slot].address != 0 && slots_[slot].address != address) slot = (slot + 1) & (slots_.size() - 1);
        return slot;
    }

    void put(const Entry& entry) noexcept {
        Entry& slot = slots_[slot_of(entry.address)];
        if (slot.address == 0) ++count_;
        slot = entry;
    }
    void grow() {
        LightVector<Entry> before(slots_.empty() ? kFewest : 2 * slots_.size(), Entry{});
        before.swap(slots_);
        shift_ -= before.empty() ? 4 : 1;
        count_ = 0;
        for (const Entry& entry : before) {
            if (entry.address != 0) put(entry);
        }
    }

    LightVector<Entry> slots_;  // their number is a power of two
    std::size_t count_ = 0;
    unsigned shift_ = 64;  // 64 less the bits of the number of slots
};

}  // namespace detail
PORTAMEM_CLOSE
