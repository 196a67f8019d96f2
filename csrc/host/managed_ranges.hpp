// SPDX-License-Identifier: MIT
// host/managed_ranges.hpp: the advice and prefetches of the pages of memory that migrates.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "portamem/host/runtime_api.h"

namespace portamem::host {

/// The state of a run of pages. Devices are ordinals, or pmhCpuDeviceId; pmhInvalidDeviceId means none.
struct PageState {
    bool read_mostly = false;
    int preferred = pmhInvalidDeviceId;
    int prefetched = pmhInvalidDeviceId;
    std::set<int> accessed_by;

    bool operator==(const PageState& other) const {
        return read_mostly == other.read_mostly && preferred == other.preferred && prefetched == other.prefetched &&
               accessed_by == other.accessed_by;
    }
};

/// The pages of an allocation, or of all memory that the runtime did not give, in runs of equal state. Offsets and
/// sizes are bytes. A call reaches every page that it touches, as the vendors round.
class ManagedRanges {
  public:
    explicit ManagedRanges(std::size_t size) : size_(size) { runs_[0]; }

    template <class Change>
    void change(std::size_t offset, std::size_t size, Change&& apply) {
        const std::size_t end = page_end(offset + size);
        const auto last = split(end);
        const auto first = split(page_start(offset));
        for (auto run = first; run != last; ++run) apply(run->second);
        unite(first, last);
    }

    /// Returns the states of all pages in a range.
    std::vector<const PageState*> states(std::size_t offset, std::size_t size) const;

  private:
    using Runs = std::map<std::size_t, PageState>;

    static std::size_t page_start(std::size_t offset);
    std::size_t page_end(std::size_t offset) const;
    Runs::iterator split(std::size_t offset);
    void unite(Runs::iterator first, Runs::iterator last);  ///< also with the neighbours

    std::size_t size_;
    Runs runs_;  ///< by first offset; the first run starts at 0
};

}  // namespace portamem::host
