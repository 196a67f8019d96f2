// SPDX-License-Identifier: MIT
// portamem/mr/detail/mapped_range.hpp: reserved addresses of which the first ones have memory.
#pragma once

#include <algorithm>
#include <cstddef>

#include "portamem/detail/light_vector.hpp"
#include "portamem/error.hpp"

PORTAMEM_OPEN

namespace detail {

/// Says what a device may do with memory.
struct DeviceAccess {
    int device;
    rt::MemAccessFlags flags;
};

/// Owns a range of reserved addresses. Memory of a device is mapped to its first bytes, in pieces, so the range gets
/// more memory and less without a change of its address. The device has access to all that is mapped, but for pieces
/// whose undo was refused. It is not thread-safe.
class MappedRange {
  public:
    /// Reserves `reserve` bytes of addresses. granularity: of a piece; it divides `reserve`. Throws Error.
    MappedRange(int device, std::size_t reserve, std::size_t granularity)
        : device_(device), reserved_(reserve), granularity_(granularity) {
        void* begin = nullptr;
        check(rt::MemAddressReserve(&begin, reserve, granularity, nullptr), "MemAddressReserve");
        begin_ = static_cast<char*>(begin);
    }
    /// Gives back what free() has not, as far as the runtime takes it.
    ~MappedRange() {
        try {
            free();
        } catch (const Error&) {
        }
    }
    MappedRange(const MappedRange&) = delete;
    MappedRange& operator=(const MappedRange&) = delete;

    void* begin() const noexcept { return begin_; }
    std::size_t reserved() const noexcept { return reserved_; }
    std::size_t mapped() const noexcept { return mapped_; }

    /// Maps memory, so that at least the first `nbytes` have some. Throws Error and OutOfMemory; then the range is as
    /// it was. nbytes: `reserved` at most. others: what other devices may do with new memory.
    void map_to(std::size_t nbytes, const LightVector<DeviceAccess>& others) {
        const std::size_t end = round_up(nbytes);
        if (end <= accessible_) return;
        try {
            for (const std::size_t piece = piece_for(end); mapped_ < end;) map_piece(std::min(piece, end - mapped_));
            give_access(accessible_, {device_, rt::MemAccessFlags::ReadWrite});
            for (const DeviceAccess& other : others) give_access(accessible_, other);
        } catch (...) {
            undo_to(accessible_);
            throw;
        }
        accessible_ = mapped_;
    }

    /// Sets what another device may do with all memory that the range has. Throws Error; then a part of the memory may
    /// have the new access.
    void set_access(const DeviceAccess& other) {
        if (mapped_ != 0) give_access(0, other);
    }

    /// Gives back the memory behind the first `nbytes`, in whole pieces: the piece that has the last of those bytes
    /// stays. No work may use that memory. Throws Error; what was given back until then is.
    void unmap_to(std::size_t nbytes) {
        while (!pieces_.empty() && mapped_ - pieces_.back().nbytes >= nbytes) unmap_piece();
    }

    /// Gives back the memory and the addresses. Throws Error; what was given back until then is.
    void free() {
        if (begin_ == nullptr) return;
        unmap_to(0);
        check(rt::MemAddressFree(begin_, reserved_), "MemAddressFree");
        begin_ = nullptr;
    }

  private:
    // A piece is one part in kParts of the memory that the range has then. It cannot be cut, so a shrink may leave one
    // piece more than needed. Each takes about 0.1 ms to create and to give access to, whatever its size: on an
    // H100, 4 GiB took 0.5 ms in four pieces, and 4 ms in 64.
    static constexpr std::size_t kParts = 8;

    std::size_t round_up(std::size_t nbytes) const noexcept {
        return (nbytes + granularity_ - 1) / granularity_ * granularity_;
    }
    std::size_t piece_for(std::size_t end) const noexcept { return round_up(std::max<std::size_t>(end / kParts, 1)); }

    struct Piece {
        std::size_t nbytes;
        rt::MemGenericAllocationHandle_t memory;
        bool handle_is_left;  // to be given up yet: the runtime has refused it once
    };

    // The mapping holds the memory, so its handle is given up at once.
    void map_piece(std::size_t nbytes) {
        if (pieces_.size() == pieces_.capacity()) pieces_.reserve(2 * pieces_.size() + kParts);
        rt::MemGenericAllocationHandle_t memory{};
        check(rt::MemCreate(&memory, nbytes, {rt::LocationType::Device, device_}), "MemCreate");
        const rt::Error_t mapped = rt::MemMap(begin_ + mapped_, nbytes, 0, memory);
        const bool handle_is_left = rt::MemRelease(memory) != rt::Error_t::Success;
        check(mapped, "MemMap");
        pieces_.push_back({nbytes, memory, handle_is_left});
        mapped_ += nbytes;
    }

    // AMD takes a range only where it begins with the reservation: "set_access_fails_on_tail" in the table of quirks.
    void give_access(std::size_t from, const DeviceAccess& to) {
        const rt::Location device{rt::LocationType::Device, to.device};
        rt::Error_t answer = rt::MemSetAccess(begin_ + from, mapped_ - from, device, to.flags);
        if (answer == rt::Error_t::InvalidValue && from != 0)
            answer = rt::MemSetAccess(begin_, mapped_, device, to.flags);
        check(answer, "MemSetAccess");
    }

    void unmap_piece() {
        Piece& last = pieces_.back();
        if (last.handle_is_left) check(rt::MemRelease(last.memory), "MemRelease");
        last.handle_is_left = false;
        const std::size_t nbytes = last.nbytes;
        check(rt::MemUnmap(begin_ + mapped_ - nbytes, nbytes), "MemUnmap");
        pieces_.pop_back();
        mapped_ -= nbytes;
        accessible_ = std::min(accessible_, mapped_);
    }

    // Memory that the runtime does not take back stays mapped, without access: a later map_to or unmap_to has it.
    void undo_to(std::size_t nbytes) noexcept {
        try {
            while (mapped_ > nbytes) unmap_piece();
        } catch (const Error&) {
        }
    }

    const int device_;
    char* begin_ = nullptr;
    const std::size_t reserved_;
    const std::size_t granularity_;
    std::size_t mapped_ = 0;
    std::size_t accessible_ = 0;
    LightVector<Piece> pieces_;  // in the order of their addresses
};

}  // namespace detail

PORTAMEM_CLOSE
