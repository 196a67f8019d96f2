// SPDX-License-Identifier: MIT
// host/managed_ranges.cpp: splits and unites runs of pages.
#include "managed_ranges.hpp"

#include <algorithm>
#include <iterator>

#include "mapping.hpp"

namespace portamem::host {

std::vector<const PageState*> ManagedRanges::states(std::size_t offset, std::size_t size) const {
    std::vector<const PageState*> found;
    for (auto run = std::prev(runs_.upper_bound(offset)); run != runs_.end() && run->first < offset + size; ++run)
        found.push_back(&run->second);
    return found;
}

std::size_t ManagedRanges::page_start(std::size_t offset) { return offset & ~(page_size - 1); }

std::size_t ManagedRanges::page_end(std::size_t offset) const { return std::min(round_up(offset, page_size), size_); }

// Cuts a run at an offset, and returns the run that starts there; end() for the end of the allocation.
ManagedRanges::Runs::iterator ManagedRanges::split(std::size_t offset) {
    if (offset >= size_) return runs_.end();
    const auto holding = std::prev(runs_.upper_bound(offset));
    return holding->first == offset ? holding : runs_.emplace_hint(std::next(holding), offset, holding->second);
}

void ManagedRanges::unite(Runs::iterator first, Runs::iterator last) {
    const auto end = last == runs_.end() ? last : std::next(last);
    for (auto run = first == runs_.begin() ? first : std::prev(first); std::next(run) != end;) {
        const auto next = std::next(run);
        if (next->second == run->second) {
            runs_.erase(next);
        } else {
            run = next;
        }
    }
}

}  // namespace portamem::host
