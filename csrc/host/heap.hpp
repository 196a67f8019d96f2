// SPDX-License-Identifier: MIT
// host/heap.hpp: the heap of a device, from which kernels allocate.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "mapping.hpp"

namespace portamem::host {

/// A heap of a fixed size. Its book-keeping lies elsewhere, so that all of the size can be given out. It has its own
/// lock, because kernels of all streams allocate while the runtime's lock is free.
class Heap {
  public:
    static constexpr std::size_t alignment = 16;

    /// Maps at least `size` bytes, always guarded, because the host must not touch them. Throws Refusal where the
    /// operating system has no room.
    explicit Heap(std::size_t size);

    /// Returns the device's address of `size` bytes at a multiple of `align`, a power of two; null where they do not
    /// fit.
    void* allocate(std::size_t size, std::size_t align);

    /// Frees an address. Null, and an address that is not out, do nothing.
    void free(const void* ptr);

    /// Returns the kernels' address of a range that lies in one allocation, or null.
    char* find(const void* ptr, std::size_t size) const;

    /// Whether a range shares a byte with the heap, allocated or not.
    bool overlaps(const void* ptr, std::size_t size) const;

    std::size_t size() const { return mapping_.size(); }
    std::size_t used() const;

  private:
    using Ranges = std::map<std::size_t, std::size_t>;  ///< sizes by offset

    void merge(std::size_t offset, std::size_t size);

    Mapping mapping_;
    mutable std::mutex mutex_;
    Ranges used_;
    Ranges free_;
};

/// Returns the bytes that a heap limit of `size` takes of a device.
constexpr std::size_t heap_bytes(std::size_t size) { return size == 0 ? page_size : round_up(size, page_size); }

}  // namespace portamem::host
