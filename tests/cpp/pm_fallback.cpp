// SPDX-License-Identifier: MIT
// tests/cpp/pm_fallback.cpp: memory of a second resource where the first one has none.
#include <atomic>
#include <thread>
#include <vector>

#include "pm_support.hpp"

namespace {

std::shared_ptr<pm::FallbackAdaptor> over_limits(std::size_t first, std::size_t second) {
    return pm::FallbackAdaptor::create(pm::LimitingAdaptor::create(device_resource(), first),
                                       pm::LimitingAdaptor::create(pinned_resource(), second));
}

}  // namespace

TEST_CASE("pm fallback: each buffer goes back to the resource that gave it") {
    if (no_device()) return;
    const auto resource = over_limits(1000, 2000);
    std::vector<pm::Buffer> buffers;
    for (int i = 0; i < 4; ++i) buffers.emplace_back(resource, 600);
    CHECK(resource->upstream()->live_bytes() == 600);
    CHECK(resource->alternate()->live_bytes() == 1800);
    CHECK(resource->alternate_live_buffers() == 3);
    CHECK(resource->alternate_live_bytes() == 1800);
    CHECK(resource->live_bytes() == 2400);
    for (std::size_t i = 0; i < buffers.size(); ++i) put(buffers[i], static_cast<unsigned>(i));
    for (std::size_t i = 0; i < buffers.size(); ++i) CHECK(get(buffers[i]) == pattern(600, static_cast<unsigned>(i)));
    buffers.erase(buffers.begin());
    buffers.emplace_back(resource, 1000);  // the upstream has room again
    CHECK(resource->upstream()->live_bytes() == 1000);
    buffers.clear();
    CHECK(resource->upstream()->live_buffers() == 0);
    CHECK(resource->alternate()->live_buffers() == 0);
    CHECK(resource->alternate_live_bytes() == 0);
    resource->close();
}

TEST_CASE("pm fallback: both refusals are told") {
    if (no_device()) return;
    const auto resource = over_limits(1000, 900);
    std::string told;
    try {
        (void)pm::Buffer(resource, 3000);
    } catch (const pm::OutOfMemory& refused) {
        told = refused.what();
        CHECK(refused.figures().asked == 3000);
        CHECK(refused.figures().free == 1000);
    }
    CHECK(contains(told, "the limit is 1000 B"));
    CHECK(contains(told, "the limit is 900 B"));
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm fallback: only a lack of memory goes to the alternate") {
    if (no_device()) return;
    const auto alternate = pm::LimitingAdaptor::create(pinned_resource(), 2000);
    const auto failing =
        pm::FailureCallbackAdaptor::create(pm::LimitingAdaptor::create(device_resource(), 100),
                                           [](std::size_t) -> bool { throw std::domain_error("the program's own"); });
    const auto resource = pm::FallbackAdaptor::create(failing, alternate);
    CHECK_THROWS_AS(pm::Buffer(resource, 200), std::domain_error);
    CHECK_THROWS_AS(pm::Buffer(resource, 50, nullptr, 512), std::invalid_argument);
    CHECK(alternate->live_buffers() == 0);
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm fallback: a request that the alternate cannot serve is a lack of memory") {
    if (no_device()) return;
    const auto first = pm::LimitingAdaptor::create(pm::PoolMemoryResource::create(device_resource()), 1000);
    const auto second = pm::FixedSizeMemoryResource::create(device_resource(), 2048);
    if (first->is_stream_ordered() != second->is_stream_ordered()) return;
    const auto resource = pm::FallbackAdaptor::create(first, second);
    const auto stream = pm::Stream::create(0);
    const std::string told = refusal<pm::OutOfMemory>([&] { pm::Buffer(resource, 4000, stream); });
    CHECK(contains(told, "the limit is 1000 B"));
    CHECK(contains(told, "the alternate refused too: blocks of this resource hold 2048 bytes"));
}

TEST_CASE("pm fallback: under capture, memory at hand of both is given") {
    if (no_device()) return;
    pm::PoolOptions options;
    options.limit = std::size_t{4} << 20;
    options.host_access = false;
    const auto first = pm::PoolMemoryResource::create(device_resource(), options);
    options.limit = 0;
    const auto second = pm::PoolMemoryResource::create(pinned_resource(), options);
    const auto resource = pm::FallbackAdaptor::create(first, second);
    const auto stream = pm::Stream::create(0);
    const std::size_t nbytes = std::size_t{3} << 20;
    const pm::Buffer kept(resource, nbytes, stream);
    pm::Buffer(resource, nbytes, stream).close();  // the alternate keeps it
    CHECK(second->live_buffers() == 0);
    stream->synchronize();
    stream->begin_capture(rt::StreamCaptureMode::ThreadLocal);
    {
        void* const ptr = resource->allocate(nbytes, stream);
        CHECK(second->live_buffers() == 1);
        CHECK(
            contains(refusal<std::invalid_argument>([&] { (void)resource->allocate(8 * nbytes, stream); }), "capture"));
        resource->deallocate(ptr, nbytes, stream);
    }
    stream->end_capture();
    CHECK(resource->alternate_live_buffers() == 0);
}

TEST_CASE("pm fallback: memory that may be the host's is known to be") {
    if (no_device()) return;
    pm::PoolOptions closed;
    closed.host_access = false;
    CHECK(pm::PoolMemoryResource::create(pinned_resource(), closed)->traits().may_be_of_host);
    const auto resource = over_limits(1000, 1000);
    CHECK(resource->traits().may_be_of_host);
    CHECK(pm::StatisticsAdaptor::create(resource)->traits().may_be_of_host);
    CHECK_FALSE(pm::PoolMemoryResource::create(device_resource(), closed)->traits().may_be_of_host);
}

TEST_CASE("pm fallback: blocks of both are known by their addresses") {
    if (no_device()) return;
    const auto first = pm::PoolMemoryResource::create(device_resource());
    const auto second = pm::PoolMemoryResource::create(device_resource());
    const auto resource = pm::FallbackAdaptor::create(pm::LimitingAdaptor::create(first, 1000), second);
    const auto stream = pm::Stream::create(0);
    void* const mine = resource->allocate(700, stream);
    void* const others = resource->allocate(800, stream);
    for (const auto& [ptr, nbytes] : {std::pair(mine, 700u), std::pair(others, 800u)}) {
        CHECK(resource->size_of(ptr) == nbytes);
        CHECK(pm::size_of(ptr) == nbytes);
    }
    pm::deallocate(others, stream);
    pm::deallocate(mine, stream);
    CHECK(resource->live_buffers() == 0);
    CHECK(first->live_buffers() == 0);
    CHECK(second->live_buffers() == 0);
}

TEST_CASE("pm fallback: many threads at once") {
    if (no_device()) return;
    const auto resource = over_limits(8 * 4096, 64 * 4096);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < 8; ++number) {
        threads.emplace_back([&, number] {
            for (unsigned turn = 0; turn < 50; ++turn) {
                pm::Buffer one(resource, 4096);
                pm::Buffer two(resource, 4096);
                put(one, number);
                put(two, number + turn);
                if (get(one) != pattern(4096, number) || get(two) != pattern(4096, number + turn)) ++wrong;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(resource->live_bytes() == 0);
    CHECK(resource->alternate_live_bytes() == 0);
    CHECK(resource->upstream()->live_buffers() == 0);
    CHECK(resource->alternate()->live_buffers() == 0);
}

TEST_CASE("pm fallback: blocks of its first allocations are its own, whichever thread frees them by address") {
    if (no_device()) return;
    const auto first = pm::PoolMemoryResource::create(device_resource());
    const auto second = pm::PoolMemoryResource::create(device_resource());
    const auto stream = pm::Stream::create(0);
    for (int turn = 0; turn < 1000; ++turn) {
        const auto resource = pm::FallbackAdaptor::create(first, second);
        std::atomic<int> ready{0};
        std::vector<std::thread> threads;
        for (int number = 0; number < 2; ++number) {
            threads.emplace_back([&] {
                ++ready;
                while (ready != 2) continue;
                pm::deallocate(resource->allocate(500, stream), stream);
            });
        }
        for (auto& thread : threads) thread.join();
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm fallback: resources that cannot stand for another") {
    if (no_device()) return;
    const auto plain = device_resource();
    const auto pool = pm::PoolMemoryResource::create(device_resource());
    if (pool->is_stream_ordered()) {
        CHECK(contains(refusal<std::invalid_argument>([&] { pm::FallbackAdaptor(pool, plain); }),
                       "the upstream is stream-ordered"));
        CHECK(contains(refusal<std::invalid_argument>([&] { pm::FallbackAdaptor(plain, pool); }),
                       "the alternate is stream-ordered"));
    }
    CHECK(refusal<std::invalid_argument>([&] { pm::FallbackAdaptor(plain, nullptr); }) ==
          "there is no alternate resource");
    CHECK_THROWS_AS(pm::FallbackAdaptor(nullptr, plain), std::invalid_argument);
    const auto closed = device_resource();
    closed->close();
    CHECK_THROWS_AS(pm::FallbackAdaptor(plain, closed), std::invalid_argument);
}
