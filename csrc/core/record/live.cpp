// SPDX-License-Identifier: MIT
// core/record/live.cpp: allocations that are live.
#include "live.hpp"

#include <algorithm>

namespace portamem::record {

// Addresses differ in their middle bits. The upper bits of the product tell the parts apart.
std::size_t LiveTable::Hash::operator()(const Key& key) const noexcept {
    return static_cast<std::size_t>((key.address + key.resource * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL >> 16);
}

LiveTable::Part& LiveTable::part_of(const Key& key) noexcept { return parts_[(Hash()(key) >> 42) % parts_.size()]; }

void LiveTable::add(const Live& live) {
    const Key key{live.filed.resource, live.address};
    Part& part = part_of(key);
    const std::lock_guard<std::mutex> lock(part.mutex);
    part.blocks[key] = live;
}

std::optional<Live> LiveTable::take(std::uint64_t resource, std::uintptr_t address) {
    const Key key{resource, address};
    Part& part = part_of(key);
    const std::lock_guard<std::mutex> lock(part.mutex);
    const auto found = part.blocks.find(key);
    if (found == part.blocks.end()) return std::nullopt;
    const Live live = found->second;
    part.blocks.erase(found);
    return live;
}

std::size_t LiveTable::nbytes_of(std::uint64_t resource, std::uintptr_t address) const {
    const Key key{resource, address};
    const Part& part = part_of(key);
    const std::lock_guard<std::mutex> lock(part.mutex);
    const auto found = part.blocks.find(key);
    return found == part.blocks.end() ? 0 : found->second.nbytes;
}

std::vector<Live> LiveTable::all() const {
    std::vector<Live> found;
    for (const Part& part : parts_) {
        const std::lock_guard<std::mutex> lock(part.mutex);
        for (const auto& [key, live] : part.blocks) found.push_back(live);
    }
    std::sort(found.begin(), found.end(), [](const Live& a, const Live& b) { return a.time < b.time; });
    return found;
}

}  // namespace portamem::record
