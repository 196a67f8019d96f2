// SPDX-License-Identifier: MIT
// core/order/clock.cpp: vector clocks as sorted lists, because most streams have seen few other streams.
#include "clock.hpp"

#include <algorithm>

namespace portamem::order {
namespace {

constexpr auto by_stream = [](const std::pair<std::uint64_t, Epoch>& entry, std::uint64_t stream) {
    return entry.first < stream;
};

}  // namespace

void Clock::raise(std::uint64_t stream, Epoch epoch) {
    if (entries_.empty() || entries_.back().first < stream) {  // a new stream's identity is the largest
        entries_.emplace_back(stream, epoch);
        return;
    }
    const auto found = std::lower_bound(entries_.begin(), entries_.end(), stream, by_stream);
    if (found == entries_.end() || found->first != stream) {
        entries_.emplace(found, stream, epoch);
    } else {
        found->second = std::max(found->second, epoch);
    }
}

void Clock::join(const Clock& other) {
    for (const auto& [stream, epoch] : other.entries_) raise(stream, epoch);
}

void Clock::forget(const Clock& known) {
    if (entries_.size() <= forget_beyond_) return;
    const auto is_known = [&](const auto& entry) { return known.covers(entry.first, entry.second); };
    entries_.erase(std::remove_if(entries_.begin(), entries_.end(), is_known), entries_.end());
    forget_beyond_ = std::max(small, 2 * entries_.size());
}

bool Clock::covers(std::uint64_t stream, Epoch epoch) const {
    const auto found = std::lower_bound(entries_.begin(), entries_.end(), stream, by_stream);
    return found != entries_.end() && found->first == stream && found->second >= epoch;
}

bool Clock::covers(const Clock& other) const {
    return std::all_of(other.entries_.begin(), other.entries_.end(),
                       [&](const auto& entry) { return covers(entry.first, entry.second); });
}

}  // namespace portamem::order
