// SPDX-License-Identifier: MIT
// core/order/shadow.hpp: the knowledge of each range of addresses: the last write, the reads since then, and the stream
// on which it came into use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "call.hpp"
#include "clock.hpp"

namespace portamem::order {

/// Addresses from `begin` up to, but not including, `end`.
struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
};

/// One use of memory. `stream` 0 is the host; `epoch` 0 means that there was no use.
struct Access {
    std::uint64_t stream = 0;
    Epoch epoch = 0;
    SiteId site = 0;
    const char* call = "";

    bool operator==(const Access& other) const {
        return stream == other.stream && epoch == other.epoch && site == other.site && call == other.call;
    }
};

struct Reading {
    Access access;
    bool only_moves = false;  ///< a prefetch: it may stand beside a write, but the memory must be there

    bool operator==(const Reading& other) const { return access == other.access && only_moves == other.only_moves; }
};

/// The uses of every byte of a range.
struct Uses {
    Access allocated;
    Access written;
    std::vector<Reading> readings;  ///< the latest of each stream since the write

    bool is_empty() const { return allocated.epoch == 0 && written.epoch == 0 && readings.empty(); }
    bool operator==(const Uses& other) const {
        return allocated == other.allocated && written == other.written && readings == other.readings;
    }
};

/// Uses by address, in pieces as large as possible. A gap means that nothing is known.
class Shadow {
  public:
    /// The most pieces, and the most freed ranges, that are kept. Beyond that, all pieces or the oldest freed range are
    /// forgotten: a fault may be missed, but none is made up.
    static constexpr std::size_t most_pieces = std::size_t{1} << 20;
    static constexpr std::size_t most_freed = 4096;

    Shadow() = default;
    /// Keeps another number of pieces at most.
    explicit Shadow(std::size_t most) : most_pieces_(most) {}

    /// Calls `use(part, uses)` for each piece of a range, gaps included, and keeps the changes that it makes to the
    /// uses.
    template <class Use>
    void change(Range range, Use&& use) {
        if (range.begin >= range.end) return;
        if (pieces_.size() > most_pieces_) clear_pieces();
        auto piece = cut(range);
        while (piece != pieces_.end() && piece->first < range.end) {
            use(Range{piece->first, piece->second.end}, piece->second.uses);
            ++piece;
        }
        unite(range);
    }

    /// Does the same without the gaps.
    template <class Use>
    void change_known(Range range, Use&& use) {
        if (range.begin >= range.end) return;
        split(range.begin);
        split(range.end);
        auto piece = pieces_.lower_bound(range.begin);
        if (piece == pieces_.end() || piece->first >= range.end) return;
        for (; piece != pieces_.end() && piece->first < range.end; ++piece) {
            use(Range{piece->first, piece->second.end}, piece->second.uses);
        }
        unite(range);
    }

    /// Calls `use(part, uses)` for each known piece of a range, and forgets the piece.
    template <class Use>
    void take(Range range, Use&& use) {
        split(range.begin);
        split(range.end);
        auto piece = pieces_.lower_bound(range.begin);
        while (piece != pieces_.end() && piece->first < range.end) {
            use(Range{piece->first, piece->second.end}, piece->second.uses);
            piece = pieces_.erase(piece);
        }
    }

    /// Begins the life of memory at a stream's operation or, with epoch 0, at once for all streams.
    void begin(Range range, const Access& allocated);

    /// Remembers the access that freed a range, until the range is allocated again.
    void note_freed(Range range, const Access& freed);
    /// Returns the access that freed the range with an address.
    std::optional<Access> freed_at(std::uintptr_t address) const;
    void forget_freed(Range range);

    std::size_t pieces() const { return pieces_.size(); }
    std::size_t times_cleared() const { return times_cleared_; }

  private:
    struct Piece {
        std::uintptr_t end = 0;
        Uses uses;
    };
    struct Freed {
        std::uintptr_t end = 0;
        Access access;
        std::uint64_t number = 0;
    };
    using Pieces = std::map<std::uintptr_t, Piece>;

    Pieces::iterator cut(Range range);
    void split(std::uintptr_t address);
    void unite(Range range);
    void clear_pieces();

    std::size_t most_pieces_ = most_pieces;
    Pieces pieces_;
    std::map<std::uintptr_t, Freed> freed_;
    std::map<std::uint64_t, std::uintptr_t> freed_in_turn_;
    std::uint64_t freed_count_ = 0;
    std::size_t times_cleared_ = 0;
};

}  // namespace portamem::order
