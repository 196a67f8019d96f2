// SPDX-License-Identifier: MIT
// tests/cpp/pm_create.cpp: every resource is made by create(), as by its constructor.
#include <cstring>
#include <memory>
#include <vector>

#include "pm_support.hpp"

namespace {

/// Takes memory of a resource, writes it by the device, reads it, and gives it back.
void serves(const std::shared_ptr<pm::MemoryResource>& resource) {
    const auto stream = pm::Stream::create(0);
    std::vector<unsigned char> bytes(1000);
    pm::Buffer memory(resource, bytes.size(), stream);
    pm::fill(pm::Span::of(memory), 7, stream);
    pm::copy(pm::Span::host(bytes.data(), bytes.size()), pm::Span::of(memory), stream)->synchronize();
    CHECK(bytes == std::vector<unsigned char>(bytes.size(), 7));
    memory.close();
    CHECK(resource->live_buffers() == 0);
}

}  // namespace

TEST_CASE("pm create: every resource is made by create") {
    if (no_device()) return;
    const auto device = pm::DeviceMemoryResource::create(0);
    serves(device);
    serves(pm::PinnedMemoryResource::create(0));
    serves(pm::PrefaultedPinnedMemoryResource::create(0));
    serves(pm::ManagedMemoryResource::create(0));
    serves(pm::AsyncMemoryResource::create(0));
    if (has_virtual()) serves(pm::VirtualMemoryResource::create(0));
    serves(pm::PoolMemoryResource::create(device));
    serves(pm::FixedSizeMemoryResource::create(device, 4096));
    serves(pm::MonotonicMemoryResource::create(device));
    serves(pm::StatisticsAdaptor::create(device));
    serves(pm::TrackingAdaptor::create(device));
    serves(pm::LimitingAdaptor::create(device, 1 << 20));
    serves(pm::PrefetchAdaptor::create(pm::ManagedMemoryResource::create(0)));
    serves(pm::FailureCallbackAdaptor::create(device, [](std::size_t) { return false; }));
    serves(pm::FallbackAdaptor::create(device, pm::DeviceMemoryResource::create(0)));
    serves(pm::CallbackMemoryResource::create(
        [&](std::size_t nbytes, const std::shared_ptr<pm::Stream>& on) { return device->allocate(nbytes, on); },
        [&](void* ptr, std::size_t nbytes, const std::shared_ptr<pm::Stream>& on) {
            device->deallocate(ptr, nbytes, on);
        },
        pm::CallbackMemoryResource::memory_of(pm::ResourceKind::Device, 0)));
}

TEST_CASE("pm create: a pool says that it is one, and no other resource does") {
    if (no_device()) return;
    const auto device = pm::DeviceMemoryResource::create(0);
    const auto pool = pm::PoolMemoryResource::create(device);
    CHECK(static_cast<pm::MemoryResource&>(*pool).as_pool() == pool.get());
    CHECK(device->as_pool() == nullptr);
    CHECK(pm::StatisticsAdaptor::create(pool)->as_pool() == nullptr);
}
