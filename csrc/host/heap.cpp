// SPDX-License-Identifier: MIT
// host/heap.cpp: allocates and frees within the heap; the first range that fits is taken.
#include "heap.hpp"

#include <cstdint>
#include <iterator>

namespace portamem::host {

Heap::Heap(std::size_t size) : mapping_(heap_bytes(size), true) { free_[0] = mapping_.size(); }

void* Heap::allocate(std::size_t size, std::size_t align) {
    if (align == 0 || (align & (align - 1)) != 0 || size > mapping_.size()) return nullptr;
    const std::size_t step = align < alignment ? alignment : align;
    const std::size_t wanted = round_up(size == 0 ? 1 : size, alignment);
    const auto start = reinterpret_cast<std::uintptr_t>(mapping_.user());
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto range = free_.begin(); range != free_.end(); ++range) {
        const auto [offset, room] = *range;
        const std::size_t skipped = (step - (start + offset) % step) % step;
        if (skipped > room || wanted > room - skipped) continue;
        free_.erase(range);
        if (skipped != 0) free_[offset] = skipped;
        if (room - skipped != wanted) free_[offset + skipped + wanted] = room - skipped - wanted;
        used_[offset + skipped] = wanted;
        return mapping_.user() + offset + skipped;
    }
    return nullptr;
}

void Heap::free(const void* ptr) {
    if (!overlaps(ptr, 1)) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = used_.find(static_cast<std::size_t>(static_cast<const char*>(ptr) - mapping_.user()));
    if (found == used_.end()) return;
    const auto [offset, size] = *found;
    used_.erase(found);
    merge(offset, size);
}

void Heap::merge(std::size_t offset, std::size_t size) {
    const auto after = free_.lower_bound(offset);
    if (after != free_.end() && after->first == offset + size) {
        size += after->second;
        free_.erase(after);
    }
    const auto next = free_.lower_bound(offset);
    if (next != free_.begin()) {
        const auto before = std::prev(next);
        if (before->first + before->second == offset) {
            before->second += size;
            return;
        }
    }
    free_[offset] = size;
}

char* Heap::find(const void* ptr, std::size_t size) const {
    if (!overlaps(ptr, 1)) return nullptr;
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(ptr) - mapping_.user());
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto after = used_.upper_bound(offset);
    if (after == used_.begin()) return nullptr;
    const auto [start, room] = *std::prev(after);
    const std::size_t inside = offset - start;
    if (inside >= room || size > room - inside) return nullptr;
    return mapping_.alias() + offset;
}

bool Heap::overlaps(const void* ptr, std::size_t size) const {
    const auto start = reinterpret_cast<std::uintptr_t>(mapping_.user());
    const auto asked = reinterpret_cast<std::uintptr_t>(ptr);
    return asked >= start ? asked - start < mapping_.size() : start - asked < size;
}

std::size_t Heap::used() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [offset, size] : used_) sum += size;
    return sum;
}

}  // namespace portamem::host
