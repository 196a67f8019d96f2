// SPDX-License-Identifier: MIT
// tests/packaging/adaptors/thrust_cuda.cpp: Thrust's allocator with its CUDA device system, for a plain compiler.
// Compiled only: the algorithms need nvcc.
#include <portamem/adaptors/thrust_allocator.hpp>

#include <thrust/device_vector.h>
#include <thrust/iterator/iterator_traits.h>
#include <thrust/system/cuda/execution_policy.h>

#include <type_traits>

namespace pm = portamem;
using Allocator = pm::ThrustAllocator<float>;
using Vector = thrust::device_vector<float, Allocator>;
using Storage = thrust::detail::contiguous_storage<float, Allocator>;

static_assert(!std::is_convertible_v<thrust::device_system_tag, thrust::cpp::tag>);
static_assert(std::is_same_v<Vector::pointer, thrust::device_ptr<float>>);
static_assert(std::is_same_v<thrust::iterator_system<Vector::iterator>::type, thrust::device_system_tag>);
static_assert(std::is_nothrow_move_constructible_v<Allocator> && std::is_nothrow_swappable_v<Allocator>);

// Containers do this.
void move_and_swap(const Allocator& allocator) {
    Storage one(10, allocator);
    Storage other(thrust::detail::copy_allocator_t{}, one);
    other = std::move(one);
    other.swap(one);
}

// Algorithms do this.
template <class Policy>
void use_temporary_storage(Policy&& policy) {
    const auto room = thrust::detail::get_temporary_buffer<unsigned char>(policy, 1000);
    thrust::detail::return_temporary_buffer(policy, room.first, room.second);
}
void use_temporary_storage(pm::ThrustAllocator<char>& allocator, const pm::Stream& stream) {
    use_temporary_storage(thrust::cuda::par(allocator).on(stream.handle()));
    use_temporary_storage(thrust::cuda::par_nosync(allocator).on(stream.handle()));
    use_temporary_storage(thrust::cuda::par(pm::ThrustAllocator<char>(allocator)).on(stream.handle()));
}
