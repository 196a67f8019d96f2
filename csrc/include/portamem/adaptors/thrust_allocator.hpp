// SPDX-License-Identifier: MIT
// portamem/adaptors/thrust_allocator.hpp: a resource as an allocator of Thrust, or of rocThrust, which has its names.
//
// Thrust comes with the program: its headers are on the include path, and its device system is what it is compiled for.
#pragma once

#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>
#include <thrust/system/cpp/execution_policy.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "portamem/adaptors/thrust_allocation.hpp"
#include "portamem/current_resource.hpp"

PORTAMEM_OPEN

/// Allocates objects of T for Thrust's containers, and the temporary storage of its algorithms. It keeps the resource
/// and the stream alive. It goes with the contents when a container is copied, moved or swapped, and is as thread-safe
/// as the resource.
/// - A container, thrust::device_vector<float, ThrustAllocator<float>>, is constructed, copied and destroyed by Thrust
///   on the default stream. So its allocator names no other stream, or the program orders the two. A program that is
///   compiled for per-thread default streams names Stream::per_thread(device).
/// - Temporary storage, par(ThrustAllocator<char>(pool, stream)).on(stream->handle()), is used on the stream of the
///   algorithm, and the allocator names the same. A pool then serves it with no synchronization, par_nosync included.
/// - Algorithms run on the current device, which has to be the resource's.
template <class T>
class ThrustAllocator {
  public:
    using value_type = T;
    using pointer = thrust::device_ptr<T>;
    using const_pointer = thrust::device_ptr<const T>;
    using reference = thrust::device_reference<T>;
    using const_reference = thrust::device_reference<const T>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;
    template <class U>
    struct rebind {
        using other = ThrustAllocator<U>;
    };

    /// Takes the resource that is current on this thread for its current device. Throws as current_resource does.
    ThrustAllocator() : ThrustAllocator(current_resource(current_device())) {}
    /// stream: null is the default stream of the resource's device. Throws as the constructor of ThrustAllocation does.
    explicit ThrustAllocator(std::shared_ptr<MemoryResource> resource, std::shared_ptr<Stream> stream = nullptr)
        : from_(kSystem, std::move(resource), std::move(stream)) {}
    template <class U>
    ThrustAllocator(const ThrustAllocator<U>& other) noexcept : from_(other.from()) {}
    // A move copies: a container that was moved from allocates again.
    ThrustAllocator(const ThrustAllocator&) = default;
    ThrustAllocator& operator=(const ThrustAllocator&) = default;
    ~ThrustAllocator() = default;

    /// Returns room for `count` objects; null for 0. Throws std::bad_array_new_length where their bytes cannot be
    /// counted, and otherwise as MemoryResource::allocate does.
    pointer allocate(size_type count) {
        if (count > max_size()) throw std::bad_array_new_length();
        return pointer(static_cast<T*>(from_.allocate(count * sizeof(T), alignof(T))));
    }
    /// Throws nothing; AdaptedResource::deallocate says what becomes of a refusal.
    void deallocate(pointer ptr, size_type count) noexcept { from_.deallocate(ptr.get(), count * sizeof(T)); }

    size_type max_size() const noexcept {
        return static_cast<size_type>(std::numeric_limits<difference_type>::max()) / sizeof(T);
    }

    const ThrustAllocation& from() const noexcept { return from_; }

    template <class U>
    friend bool operator==(const ThrustAllocator& a, const ThrustAllocator<U>& b) noexcept {
        return a.from() == b.from();
    }
    template <class U>
    friend bool operator!=(const ThrustAllocator& a, const ThrustAllocator<U>& b) noexcept {
        return !(a == b);
    }

  private:
    // Systems that run on threads of the host convert to the sequential one.
    static constexpr ThrustAllocation::System kSystem =
        std::is_convertible_v<thrust::device_system_tag, thrust::cpp::tag> ? ThrustAllocation::System::Host
                                                                           : ThrustAllocation::System::Device;

    ThrustAllocation from_;
};

PORTAMEM_CLOSE
