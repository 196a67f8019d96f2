// SPDX-License-Identifier: MIT
// host/allocation.cpp: look-ups in the map of known memory.
#include "allocation.hpp"

#include <utility>

namespace portamem::host {

void AllocationMap::insert(Record record) {
    const std::uintptr_t start = key(record->base);
    records_.emplace(start, std::move(record));
}

AllocationMap::Record AllocationMap::starting_at(const void* ptr) const {
    const auto found = records_.find(key(ptr));
    return found == records_.end() ? nullptr : found->second;
}

AllocationMap::Record AllocationMap::holding(const void* ptr) const { return overlapping(ptr, 1); }

std::vector<AllocationMap::Record> AllocationMap::holding_all(const void* ptr, std::size_t size) const {
    auto found = records_.upper_bound(key(ptr));
    if (found == records_.begin()) return {};
    --found;
    const Allocation& first = *found->second;
    std::uintptr_t at = key(ptr);  // bytes before it are held
    if (at - found->first >= first.size) return {};
    std::vector<Record> all;
    for (; found != records_.end() && found->first <= at; ++found) {
        const Allocation& record = *found->second;
        if (&record != &first && (record.kind != Kind::Virtual || record.mapping != first.mapping)) return {};
        all.push_back(found->second);
        const std::size_t rest = record.size - (at - found->first);
        if (size <= rest) return all;
        if (record.kind != Kind::Virtual) return {};
        size -= rest;
        at += rest;
    }
    return {};
}

AllocationMap::Record AllocationMap::overlapping(const void* ptr, std::size_t size) const {
    const std::uintptr_t start = key(ptr);
    const auto after = records_.upper_bound(start);
    if (after != records_.begin()) {
        const auto before = std::prev(after);
        if (start - before->first < before->second->size) return before->second;
    }
    // start <= after->first holds, so that the difference cannot wrap, where start + size could.
    if (after != records_.end() && after->first - start < size) return after->second;
    return nullptr;
}

AllocationMap::Record AllocationMap::before(const void* ptr) const {
    const auto after = records_.upper_bound(key(ptr));
    return after == records_.begin() ? nullptr : std::prev(after)->second;
}

}  // namespace portamem::host
