// SPDX-License-Identifier: MIT
// tests/packaging/adaptors/thrust.cpp: Thrust's containers and algorithms in memory of resources, on the CPU backend.
//
// Thrust is compiled for its sequential device system, so its algorithms run here. With PORTAMEM_HOST_OPEN=1 they reach
// device memory as well.
#include <portamem/adaptors/thrust_allocator.hpp>
#include <portamem/portamem.hpp>

#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <memory>
#include <utility>
#include <vector>

#include "check.hpp"

namespace pm = portamem;
using Resource = std::shared_ptr<pm::MemoryResource>;
template <class T>
using Vector = thrust::device_vector<T, pm::ThrustAllocator<T>>;

namespace {

/// Resources whose memory the algorithms reach, pools and adaptors over them among them.
std::vector<Resource> resources() {
    const Resource pinned = pm::PinnedMemoryResource::create(0);
    const Resource pool = pm::PoolMemoryResource::create(pinned);
    std::vector<Resource> all{pinned, pm::ManagedMemoryResource::create(0), pm::SystemMemoryResource::create(0), pool,
                              pm::StatisticsAdaptor::create(pool)};
    const Resource device = pm::DeviceMemoryResource::create(0);
    if (device->is_host_accessible()) {
        all.push_back(device);
        all.push_back(pm::PoolMemoryResource::create(device));
    }
    return all;
}

void containers(const Resource& resource) {
    const Resource other = pm::PoolMemoryResource::create(pm::PinnedMemoryResource::create(0));
    const auto stream = pm::Stream::create(0);
    {
        Vector<double> values(5000, pm::ThrustAllocator<double>(resource));
        CHECK(thrust::reduce(values.begin(), values.end()) == 0.0);
        thrust::sequence(values.begin(), values.end());
        CHECK(thrust::reduce(values.begin(), values.end()) == 4999.0 * 2500);
        CHECK(resource->live_bytes() == values.capacity() * sizeof(double));
        CHECK(reinterpret_cast<std::uintptr_t>(values.data().get()) % 256 == 0);
        values.push_back(1.5);  // the contents move to a larger block
        CHECK(resource->live_buffers() == 1);
        CHECK(values.back() == 1.5);

        Vector<double> copy(values);
        CHECK(resource->live_buffers() == 2);
        CHECK(copy.get_allocator() == values.get_allocator());
        const Vector<double> moved(std::move(values));
        CHECK(resource->live_buffers() == 2);
        values.resize(3, 2.0);  // one that was moved from is used again
        CHECK(values[2] == 2.0);
        CHECK(values.get_allocator().from().resource() == resource);

        Vector<double> elsewhere(3, 7.0, pm::ThrustAllocator<double>(other, stream));
        using std::swap;
        swap(copy, elsewhere);
        CHECK(copy.get_allocator().from().resource() == other);
        CHECK(copy.get_allocator().from().stream() == stream);
        CHECK(copy[2] == 7.0);
        copy = moved;  // the allocator goes with the contents, and each block back to where it is from
        CHECK(other->live_buffers() == 0);
        CHECK(copy.back() == 1.5);
        copy = Vector<double>(2, 9.0, pm::ThrustAllocator<double>(other));
        CHECK(other->live_buffers() == 1);
        copy.clear();
        copy.shrink_to_fit();
        CHECK(other->live_buffers() == 0);
        const thrust::host_vector<double> host(elsewhere.begin(), elsewhere.end());
        CHECK(host[4] == 4.0);
    }
    CHECK(resource->live_buffers() == 0);
    CHECK(other->live_buffers() == 0);
}

void temporary_storage(const Resource& resource) {
    const auto stream = pm::Stream::create(0);
    const auto watched = pm::StatisticsAdaptor::create(resource);
    std::vector<int> keys(1000);
    for (int i = 0; i < 1000; ++i) keys[static_cast<std::size_t>(i)] = (i * 7919) % 1000;
    const auto less = [](int a, int b) { return a < b; };  // a sort that merges, which needs room
    pm::ThrustAllocator<char> temporary(watched, stream);
    thrust::stable_sort(thrust::cpp::par(temporary), keys.begin(), keys.end(), less);
    for (int i = 0; i < 1000; ++i) CHECK(keys[static_cast<std::size_t>(i)] == i);
    const auto count = watched->counts().total_count;
    CHECK(count >= 1);
    thrust::stable_sort(thrust::cpp::par(pm::ThrustAllocator<char>(watched, stream)), keys.begin(), keys.end(), less);
    CHECK(watched->counts().total_count == 2 * count);
    CHECK(watched->live_buffers() == 0);
}

struct alignas(512) Wide {
    double value = 0;
};

void refusals() {
    using Allocator = pm::ThrustAllocator<Wide>;
    CHECK(contains(refusal<std::invalid_argument>([] { Allocator(nullptr); }), "not null"));
    const Resource device = pm::DeviceMemoryResource::create(0);
    if (!device->is_host_accessible()) {
        const std::string text = refusal<std::invalid_argument>([&] { Allocator{device}; });
        CHECK(contains(text, "the host does not reach memory of kind device"));
    }
    const Resource pinned = pm::PinnedMemoryResource::create(0);
    Allocator wide(pinned);
    CHECK(!refusal<std::bad_array_new_length>([&] { (void)wide.allocate(~std::size_t{0} / 256); }).empty());
    CHECK(!refusal<std::bad_array_new_length>([&] { (void)wide.allocate(wide.max_size() + 1); }).empty());
    CHECK(!refusal<std::invalid_argument>([&] { (void)wide.allocate(1); }).empty());  // aligned to 256 bytes
    pm::ThrustAllocator<int> narrow(wide);
    const auto nothing = narrow.allocate(0);
    CHECK(nothing.get() == nullptr);
    narrow.deallocate(nothing, 0);
    const Vector<Wide> aligned(9, Wide{2.5}, Allocator(pm::PoolMemoryResource::create(pinned)));
    CHECK(reinterpret_cast<std::uintptr_t>(aligned.data().get()) % 512 == 0);

    const Resource limited = pm::LimitingAdaptor::create(pinned, 1024);
    Vector<char> bytes{pm::ThrustAllocator<char>(limited)};
    bytes.resize(1000, 'a');
    CHECK(!refusal<pm::OutOfMemory>([&] { bytes.resize(2000); }).empty());
    CHECK(bytes.size() == 1000);
    CHECK(bytes.back() == 'a');
}

void the_current_resource() {
    const Resource pool = pm::PoolMemoryResource::create(pm::PinnedMemoryResource::create(0));
    const pm::ResourceScope scope(pool);
    Vector<int> values;
    values.resize(100, 3);
    CHECK(pool->live_buffers() == 1);
    const Vector<long> widened(values);  // of another type, and so from the current resource
    CHECK(widened[99] == 3);
    CHECK(pool->live_buffers() == 2);
}

void a_container_keeps_its_resource() {
    Resource pool = pm::PoolMemoryResource::create(pm::PinnedMemoryResource::create(0));
    const std::weak_ptr<pm::MemoryResource> watch = pool;
    {
        Vector<int> values(10, 3, pm::ThrustAllocator<int>(pool, pm::Stream::create(0)));
        pool.reset();
        values.resize(1000, 4);
        CHECK(values[9] == 3);
    }
    CHECK(watch.expired());
}

}  // namespace

int main() {
    for (const Resource& resource : resources()) {
        containers(resource);
        temporary_storage(resource);
    }
    refusals();
    the_current_resource();
    a_container_keeps_its_resource();
    std::puts("right");
}
