// SPDX-License-Identifier: MIT
// tests/cpp/pm_by_address.cpp: sizes and frees by the address alone.
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "pm_support.hpp"

namespace {

StreamPtr on() { return pm::Stream::default_stream(0); }

std::shared_ptr<pm::PoolMemoryResource> pool(pm::PoolOptions options = {}) {
    return pm::PoolMemoryResource::create(device_resource(), std::move(options));
}

}  // namespace

TEST_CASE("pm by address: a pool knows each of its blocks by the bytes that were asked for") {
    if (no_device()) return;
    const auto resource = pool();
    const std::size_t sizes[] = {1,       255,         256,     257,         4096, 32 * 1024, 33 * 1024 + 1,
                                 1 * MiB, 1 * MiB + 1, 5 * MiB, 65 * MiB + 3};
    for (const std::size_t nbytes : sizes) {
        void* const ptr = resource->allocate(nbytes, on());
        CHECK(resource->size_of(ptr) == nbytes);
        CHECK(resource->size_of(static_cast<char*>(ptr) + 1) == std::nullopt);
        CHECK(resource->size_of(static_cast<char*>(ptr) + 256) != nbytes);
        resource->deallocate(ptr, on());
        CHECK(resource->size_of(ptr) == std::nullopt);
        CHECK(resource->live_buffers() == 0);
    }
    int mine = 0;
    CHECK(resource->size_of(&mine) == std::nullopt);
    CHECK(resource->size_of(nullptr) == std::nullopt);
    resource->deallocate(nullptr, on());
    resource->close();
}

TEST_CASE("pm by address: aligned blocks, and blocks that are cut to the byte") {
    if (no_device()) return;
    pm::PoolOptions options;
    options.limit = 8 * MiB;
    const auto resource = pool(options);
    void* const aligned = resource->allocate(5000, on(), 4096);
    CHECK(resource->size_of(aligned) == 5000);
    resource->deallocate(aligned, on());
    resource->trim();
    constexpr std::size_t kExact = 8 * MiB - 100;  // rounded as usual it would not fit
    void* const exact = resource->allocate(kExact, on());
    CHECK(resource->size_of(exact) == kExact);
    resource->deallocate(exact, on());
    CHECK(resource->live_bytes() == 0);
    resource->close();
}

TEST_CASE("pm by address: what is not out is refused, and freed by its address on a bare handle") {
    if (no_device()) return;
    for (const std::shared_ptr<pm::MemoryResource>& resource :
         {std::shared_ptr<pm::MemoryResource>(pool()), std::shared_ptr<pm::MemoryResource>(device_resource()),
          std::shared_ptr<pm::MemoryResource>(std::make_shared<pm::LimitingAdaptor>(pool(), 64 * MiB)),
          std::shared_ptr<pm::MemoryResource>(pm::FixedSizeMemoryResource::create(device_resource(), 8192, 4)),
          std::shared_ptr<pm::MemoryResource>(pm::MonotonicMemoryResource::create(device_resource()))}) {
        void* const ptr = resource->allocate(4096, rt::Stream_t{});
        CHECK(resource->size_of(ptr) == 4096);
        CHECK(keeps_bytes(ptr, 4096, 3));
        CHECK(contains(refusal<std::invalid_argument>([&] { resource->deallocate(static_cast<char*>(ptr) + 8, on()); }),
                       "no allocation at this address"));
        CHECK(resource->live_bytes() == 4096);
        resource->deallocate(ptr, rt::Stream_t{});
        CHECK_THROWS_AS(resource->deallocate(ptr, rt::Stream_t{}), std::invalid_argument);
        CHECK(resource->live_buffers() == 0);
        resource->close();
    }
}

TEST_CASE("pm by address: threads free each other's blocks, once each") {
    if (no_device()) return;
    const auto resource = pool();
    constexpr int kThreads = 4;
    constexpr int kEach = 200;
    std::vector<void*> out(kThreads * kEach);
    const auto in_threads = [](auto&& work) {
        std::vector<std::thread> threads;
        for (int number = 0; number < kThreads; ++number) threads.emplace_back([&work, number] { work(number); });
        for (std::thread& thread : threads) thread.join();
    };
    in_threads([&](int number) {
        const auto stream = pm::Stream::create(0);
        for (int i = 0; i < kEach; ++i) {
            out[static_cast<std::size_t>(number * kEach + i)] =
                resource->allocate(static_cast<std::size_t>(64 + 777 * (i % 90)), stream);
        }
        stream->synchronize();
    });
    std::atomic<int> freed{0};
    std::atomic<int> refused{0};
    in_threads([&](int number) {  // each block is freed by two threads at once
        for (int i = 0; i < kThreads * kEach / 2; ++i) {
            const int at = (number / 2 * (kThreads * kEach / 2) + i) % (kThreads * kEach);
            try {
                resource->deallocate(out[static_cast<std::size_t>(at)], on());
                ++freed;
            } catch (const std::invalid_argument&) {
                ++refused;
            }
        }
    });
    CHECK(freed == kThreads * kEach);
    CHECK(refused == kThreads * kEach);
    CHECK(resource->live_bytes() == 0);
    resource->close();
}
