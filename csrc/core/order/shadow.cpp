// SPDX-License-Identifier: MIT
// core/order/shadow.cpp: pieces are cut where a range begins and ends, and joined again where neighbours are alike.
#include "shadow.hpp"

#include <iterator>

namespace portamem::order {

void Shadow::split(std::uintptr_t address) {
    auto after = pieces_.upper_bound(address);
    if (after == pieces_.begin()) return;
    const auto piece = std::prev(after);
    if (piece->first == address || piece->second.end <= address) return;
    pieces_.emplace_hint(after, address, piece->second);
    piece->second.end = address;
}

// Returns the first piece of the range. The range's borders become borders of pieces, and its gaps become empty pieces.
Shadow::Pieces::iterator Shadow::cut(Range range) {
    split(range.begin);
    split(range.end);
    std::uintptr_t at = range.begin;
    auto piece = pieces_.lower_bound(range.begin);
    while (at < range.end) {
        if (piece == pieces_.end() || piece->first > at) {
            const bool last = piece == pieces_.end() || piece->first >= range.end;
            const std::uintptr_t end = last ? range.end : piece->first;
            piece = pieces_.emplace_hint(piece, at, Piece{end, {}});
        }
        at = piece->second.end;
        ++piece;
    }
    return pieces_.find(range.begin);
}

void Shadow::unite(Range range) {
    auto piece = pieces_.lower_bound(range.begin);
    if (piece != pieces_.begin()) --piece;
    while (piece != pieces_.end() && piece->first <= range.end) {
        if (piece->second.uses.is_empty()) {
            piece = pieces_.erase(piece);
            continue;
        }
        const auto next = std::next(piece);
        if (next == pieces_.end() || next->first > range.end) return;
        if (next->first == piece->second.end && next->second.uses == piece->second.uses) {
            piece->second.end = next->second.end;
            pieces_.erase(next);
        } else {
            piece = next;
        }
    }
}

void Shadow::clear_pieces() {
    pieces_.clear();
    ++times_cleared_;
}

void Shadow::begin(Range range, const Access& allocated) {
    forget_freed(range);
    take(range, [](Range, const Uses&) {});
    if (allocated.epoch != 0) change(range, [&](Range, Uses& uses) { uses.allocated = allocated; });
}

void Shadow::note_freed(Range range, const Access& freed) {
    forget_freed(range);
    if (freed_.size() >= most_freed) {
        const auto oldest = freed_in_turn_.begin();
        freed_.erase(oldest->second);
        freed_in_turn_.erase(oldest);
    }
    freed_.emplace(range.begin, Freed{range.end, freed, ++freed_count_});
    freed_in_turn_.emplace(freed_count_, range.begin);
}

std::optional<Access> Shadow::freed_at(std::uintptr_t address) const {
    auto after = freed_.upper_bound(address);
    if (after == freed_.begin()) return std::nullopt;
    const auto& [begin, freed] = *std::prev(after);
    if (address >= freed.end) return std::nullopt;
    return freed.access;
}

void Shadow::forget_freed(Range range) {
    auto freed = freed_.upper_bound(range.begin);
    if (freed != freed_.begin() && std::prev(freed)->second.end > range.begin) --freed;
    while (freed != freed_.end() && freed->first < range.end) {
        freed_in_turn_.erase(freed->second.number);
        freed = freed_.erase(freed);
    }
}

}  // namespace portamem::order
