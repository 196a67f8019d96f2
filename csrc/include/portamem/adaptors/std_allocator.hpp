// SPDX-License-Identifier: MIT
// portamem/adaptors/std_allocator.hpp: a resource as the allocator of a standard container.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "portamem/adaptors/host_allocation.hpp"

PORTAMEM_OPEN

/// Allocates objects of T for containers: std::vector<double, StdAllocator<double>>. It keeps the resource and the
/// stream alive. The allocator goes with the contents when a container is copied, moved or swapped, so no element is
/// moved on its own. It is as thread-safe as the resource.
template <class T>
class StdAllocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    /// Takes the arguments of HostAllocation, and throws as its constructor does.
    explicit StdAllocator(std::shared_ptr<MemoryResource> resource, std::shared_ptr<Stream> stream = nullptr)
        : from_(std::move(resource), std::move(stream)) {}
    /// Converts implicitly, as containers do to allocate their nodes.
    template <class U>
    StdAllocator(const StdAllocator<U>& other) noexcept : from_(other.from()) {}
    // A move copies: a container that was moved from allocates again.
    StdAllocator(const StdAllocator&) = default;
    StdAllocator& operator=(const StdAllocator&) = default;
    ~StdAllocator() = default;

    /// Returns room for `count` objects. Throws std::bad_array_new_length where their bytes cannot be counted, and
    /// otherwise as MemoryResource::allocate does.
    T* allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
        return static_cast<T*>(from_.allocate(count * sizeof(T), alignof(T)));
    }
    /// Takes the room for `count` objects back, as AdaptedResource::deallocate does.
    void deallocate(T* ptr, std::size_t count) noexcept { from_.deallocate(ptr, count * sizeof(T)); }

    const HostAllocation& from() const noexcept { return from_; }

    template <class U>
    friend bool operator==(const StdAllocator& a, const StdAllocator<U>& b) noexcept {
        return a.from() == b.from();
    }
    template <class U>
    friend bool operator!=(const StdAllocator& a, const StdAllocator<U>& b) noexcept {
        return !(a == b);
    }

  private:
    HostAllocation from_;
};

PORTAMEM_CLOSE
