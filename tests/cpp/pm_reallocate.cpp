// SPDX-License-Identifier: MIT
// tests/cpp/pm_reallocate.cpp: memory that gets another size, or another resource, with its contents.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "pm_support.hpp"

namespace {

std::shared_ptr<pm::PoolMemoryResource> pool_of(std::size_t initial_size) {
    pm::PoolOptions options;
    options.initial_size = initial_size;
    return pm::PoolMemoryResource::create(device_resource(), options);
}

// Every kind of memory, and what stands over it.
std::vector<Resource> every_reallocating_resource() {
    std::vector<Resource> all = every_resource();
    all.push_back(pool_of(0));
    all.push_back(pm::PoolMemoryResource::create(pinned_resource()));
    all.push_back(std::make_shared<pm::StatisticsAdaptor>(pool_of(8 * MiB)));
    return all;
}

Bytes first_of(Bytes bytes, std::size_t count) {
    bytes.resize(count);
    return bytes;
}

Bytes bytes_at(const void* ptr, std::size_t nbytes, const StreamPtr& stream) {
    Bytes bytes(nbytes);
    const auto check_call = [](rt::Error_t answer) { REQUIRE(answer == rt::Error_t::Success); };
    check_call(rt::MemcpyAsync(bytes.data(), ptr, nbytes, rt::MemcpyKind::Default, stream->handle()));
    stream->synchronize();
    return bytes;
}

void* allocated(const Resource& resource, const Bytes& bytes, const StreamPtr& stream) {
    void* const ptr = resource->allocate(bytes.size(), stream);
    REQUIRE(rt::MemcpyAsync(ptr, bytes.data(), bytes.size(), rt::MemcpyKind::Default, stream->handle()) ==
            rt::Error_t::Success);
    stream->synchronize();
    return ptr;
}

}  // namespace

TEST_CASE("pm reallocate: a buffer of any kind grows and shrinks, and keeps its first bytes") {
    if (no_device()) return;
    for (const Resource& resource : every_reallocating_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const auto stream = pm::Stream::create(0);
        pm::Buffer buffer(resource, 1000, stream);
        put(buffer, 3);
        std::size_t known = 1000;
        for (const std::size_t nbytes : {1001U, 5'000'000U, 5'000'001U, 70'000U, 70'000U, 300U}) {
            CAPTURE(nbytes);
            pm::reallocate(buffer, nbytes);
            CHECK(buffer.nbytes() == nbytes);
            CHECK(buffer.stream() == stream);
            CHECK(resource->live_buffers() == 1);
            CHECK(resource->live_bytes() == nbytes);
            known = std::min(known, nbytes);
            CHECK(first_of(get(buffer), known) == pattern(known, 3));
            put(buffer, 3);
            known = nbytes;
        }
        pm::reallocate(buffer, 0);
        CHECK(buffer.ptr() == nullptr);
        pm::reallocate(buffer, 4096, pm::Stream::create(0));
        put(buffer, 4);
        CHECK(get(buffer) == pattern(4096, 4));
        buffer.close();
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm reallocate: a pool's buffer stays where it is while there is room, and nothing is copied") {
    if (no_device()) return;
    const auto pool = pool_of(64 * MiB);
    const auto stream = pm::Stream::create(0);
    pm::Buffer buffer(pool, 4 * MiB, stream);
    put(buffer, 5);
    const void* const address = buffer.address();
    // A memory checker is told of each block, and PORTAMEM_POOL=off keeps nothing.
    const bool stays = !pool->is_checked().value_or(true) && pool->reserved() >= 64 * MiB;
    for (const std::size_t nbytes : {5 * MiB, 20 * MiB, 20 * MiB - 100}) {
        pm::reallocate(buffer, nbytes);
        if (stays) CHECK(buffer.address() == address);
        CHECK(pool->live_bytes() == nbytes);
        CHECK(first_of(get(buffer), 4 * MiB) == pattern(4 * MiB, 5));
    }
    const pm::Buffer beside(pool, 4 * MiB, stream);
    put(beside, 6);
    put(buffer, 7);
    CHECK(get(beside) == pattern(4 * MiB, 6));
    pm::reallocate(buffer, 30 * MiB);
    CHECK(first_of(get(buffer), 20 * MiB - 100) == pattern(20 * MiB - 100, 7));
    CHECK(get(beside) == pattern(4 * MiB, 6));
}

TEST_CASE("pm reallocate: memory that another stream was told of moves, so that new bytes are ordered for it") {
    if (no_device()) return;
    const auto pool = pool_of(64 * MiB);
    const auto stream = pm::Stream::create(0), other = pm::Stream::create(0);
    pm::Buffer buffer(pool, 4 * MiB, stream);
    put(buffer, 8);
    buffer.record_stream(other);
    const void* const address = buffer.address();
    pm::reallocate(buffer, 8 * MiB);
    CHECK(buffer.address() != address);
    CHECK(first_of(get(buffer), 4 * MiB) == pattern(4 * MiB, 8));
}

TEST_CASE("pm reallocate: the copy runs behind work that was declared on other streams") {
    if (no_device()) return;
    for (const Resource& resource : {device_resource(), Resource(pool_of(0))}) {
        const auto stream = pm::Stream::create(0), writer = pm::Stream::create(0);
        pm::Buffer buffer(resource, MiB, stream);
        put(buffer, 1);
        const Gate gate(writer);
        pm::fill(pm::Span::of(buffer), 0x5a, writer);
        if (resource->is_stream_ordered()) {
            pm::reallocate(buffer, 3 * MiB);
            CHECK_FALSE(gate.is_open());  // the host has not waited
            gate.open();
        } else {
            gate.open_soon();
            pm::reallocate(buffer, 3 * MiB);
        }
        CHECK(first_of(get(buffer), MiB) == Bytes(MiB, 0x5a));
    }
}

TEST_CASE("pm reallocate: work that portamem does not see is waited for, on its own stream and on a consumer's") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0), consumer = pm::Stream::create(0);
    for (const Resource& resource : every_reallocating_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const auto written = [&](void* ptr, const StreamPtr& on) {
            if (!resource->is_device_accessible())
                return on->launch_host_func([](void* there) { std::memset(there, 0x5a, 1000); }, ptr);
            REQUIRE(rt::MemsetAsync(ptr, 0x5a, 1000, on->handle()) == rt::Error_t::Success);
        };
        for (const StreamPtr& on : {stream, consumer}) {
            pm::Buffer buffer(resource, 1000, stream);
            void* const ptr = buffer.ptr();
            if (on == consumer) buffer.allocation()->hand_over(consumer);
            const Gate gate(on);
            written(ptr, on);
            gate.open_soon();
            pm::reallocate(buffer, 50'000);
            CHECK(first_of(get(buffer), 1000) == Bytes(1000, 0x5a));
        }
        void* const ptr = resource->allocate(1000, stream);
        const Gate gate(stream);
        written(ptr, stream);
        gate.open_soon();
        void* const there = pm::reallocate(ptr, 50'000, stream);
        CHECK(bytes_at(there, 1000, stream) == Bytes(1000, 0x5a));
        pm::deallocate(there, stream);
    }
}

TEST_CASE("pm reallocate: on another stream the memory moves there, whatever its size") {
    if (no_device()) return;
    const auto pool = pool_of(8 * MiB);
    const auto stream = pm::Stream::create(0), other = pm::Stream::create(0);
    pm::Buffer buffer(pool, MiB, stream);
    put(buffer, 3);
    pm::reallocate(buffer, MiB, other);
    CHECK(buffer.stream() == other);
    CHECK(get(buffer) == pattern(MiB, 3));
    stream->close();
    pm::reallocate(buffer, MiB / 2);
    CHECK(get(buffer) == pattern(MiB / 2, 3));
}

TEST_CASE("pm reallocate: other threads find the buffer open meanwhile") {
    if (no_device()) return;
    const auto pool = pool_of(32 * MiB);
    const auto stream = pm::Stream::create(0);
    pm::Buffer buffer(pool, 4 * MiB, stream);
    const auto memory = buffer.allocation();
    std::atomic<bool> ends{false};
    std::atomic<int> found_closed{0};
    std::thread looks([&] {
        while (!ends) found_closed += memory->is_closed() ? 1 : 0;
    });
    for (std::size_t turn = 0; turn < 2000; ++turn) pm::reallocate(buffer, 4 * MiB + turn * 4096);
    ends = true;
    looks.join();
    if (buffer.allocation() == memory) CHECK(found_closed == 0);  // it moves where a memory checker follows the pool
}

TEST_CASE("pm reallocate: what cannot be changed is refused, and is as before") {
    if (no_device()) return;
    const auto limited = std::make_shared<pm::LimitingAdaptor>(pool_of(0), 3 * MiB);
    const auto stream = pm::Stream::create(0);
    pm::Buffer buffer(limited, 2 * MiB, stream);
    put(buffer, 9);
    CHECK_THROWS_AS(pm::reallocate(buffer, 4 * MiB), pm::OutOfMemory);
    {
        pm::Buffer part = buffer.sub(10, 20);
        CHECK_THROWS_AS(pm::reallocate(buffer, MiB), pm::ExportError);
        CHECK(contains(refusal<std::invalid_argument>([&] { pm::reallocate(part, 5); }), "reallocate the buffer"));
    }
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::reallocate(buffer, MiB, nullptr, 3); }), "power of two"));
    const auto closed = pm::Stream::create(0);
    closed->close();
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::reallocate(buffer, MiB, closed); }), "stream is closed"));
    CHECK(buffer.nbytes() == 2 * MiB);
    CHECK(get(buffer) == pattern(2 * MiB, 9));
    CHECK(limited->live_buffers() == 1);
    pm::Buffer foreign = pm::Buffer::from_handle(buffer.address(), 10, stream, buffer.traits(), nullptr);
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::reallocate(foreign, 5); }), "its owner alone"));
    buffer.close();
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::reallocate(buffer, 5); }), "closed"));
    pm::PitchedBuffer rows(std::make_shared<pm::DeviceMemoryResource>(0), 100, 7);
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::reallocate(rows, 5); }), "pitch"));
    CHECK(rows.nbytes() == rows.pitch() * 7);
    void* const ptr = limited->allocate(1000, stream);
    for (const std::size_t nbytes : {1001U, 50'000U}) {
        CHECK(contains(refusal<std::invalid_argument>([&] { (void)pm::reallocate(ptr, nbytes, closed); }), "closed"));
        CHECK(contains(refusal<std::invalid_argument>([&] { (void)pm::move(ptr, device_resource(), closed); }),
                       "closed"));
    }
    pm::deallocate(ptr, stream);
}

TEST_CASE("pm reallocate: memory that is known by its address gets another size in its own resource") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    for (const Resource& resource : every_reallocating_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        void* ptr = allocated(resource, pattern(1000, 2), stream);
        for (const std::size_t nbytes : {1010U, 3'000'000U, 400U}) {
            ptr = pm::reallocate(ptr, nbytes, stream);
            CHECK(pm::resource_of(ptr) == resource);
            CHECK(pm::size_of(ptr) == nbytes);
            CHECK(resource->live_buffers() == 1);
            CHECK(bytes_at(ptr, 400, stream) == first_of(pattern(1000, 2), 400));
            if (resource->is_host_accessible()) CHECK(*static_cast<unsigned char*>(ptr) == pattern(1, 2)[0]);
        }
        ptr = pm::reallocate(ptr, 800, stream->handle());
        CHECK(bytes_at(ptr, 400, stream) == first_of(pattern(1000, 2), 400));
        CHECK_THROWS_AS((void)pm::reallocate(static_cast<char*>(ptr) + 1, 10, stream), std::invalid_argument);
        CHECK(pm::reallocate(ptr, 0, stream) == nullptr);
        CHECK(resource->live_buffers() == 0);
    }
    int mine = 0;
    CHECK_THROWS_AS((void)pm::reallocate(&mine, 10, stream), std::invalid_argument);
    CHECK(pm::reallocate(nullptr, 0, stream) == nullptr);
    void* const fresh = pm::reallocate(nullptr, 10, stream);
    CHECK(pm::resource_of(fresh) == pm::current_resource(0));
    pm::deallocate(fresh, stream);
}

TEST_CASE("pm reallocate: memory moves between resources of every kind, with its contents") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const std::vector<Resource> all = every_reallocating_resource();
    for (const Resource& from : all) {
        for (const Resource& to : all) {
            CAPTURE(std::string(pm::to_string(from->kind())));
            CAPTURE(std::string(pm::to_string(to->kind())));
            void* const ptr = allocated(from, pattern(70'000, 6), stream);
            void* const there = pm::move(ptr, to, stream);
            CHECK((there == ptr) == (from == to));
            CHECK(pm::resource_of(there) == to);
            CHECK(pm::size_of(there) == 70'000);
            if (to->is_host_accessible())
                CHECK(static_cast<unsigned char*>(there)[69'999] == pattern(70'000, 6).back());
            CHECK(bytes_at(there, 70'000, stream) == pattern(70'000, 6));
            if (from != to) CHECK(from->live_buffers() == 0);
            pm::deallocate(there, stream);
            CHECK(to->live_buffers() == 0);
        }
    }
    CHECK(pm::move(nullptr, all.front(), stream) == nullptr);
    int mine = 0;
    CHECK_THROWS_AS((void)pm::move(&mine, all.front(), stream), std::invalid_argument);
    const auto small = std::make_shared<pm::LimitingAdaptor>(device_resource(), 100);
    void* const ptr = allocated(all.front(), pattern(200, 1), stream);
    CHECK_THROWS_AS((void)pm::move(ptr, small, stream), pm::OutOfMemory);
    small->close();
    CHECK_THROWS_AS((void)pm::move(ptr, small, stream), std::invalid_argument);
    CHECK_THROWS_AS((void)pm::move(ptr, nullptr, stream), std::invalid_argument);
    CHECK(bytes_at(ptr, 200, stream) == pattern(200, 1));
    pm::deallocate(ptr, stream);
}

TEST_CASE("pm reallocate: memory moves between devices") {
    if (no_device() || pm::device_count() < 2) return;
    const auto stream = pm::Stream::create(1);
    const std::vector<Resource> to = {std::make_shared<pm::DeviceMemoryResource>(1),
                                      pm::PoolMemoryResource::create(std::make_shared<pm::DeviceMemoryResource>(1))};
    for (const Resource& from : {device_resource(), Resource(pool_of(0))}) {
        for (const Resource& there : to) {
            const auto at_home = pm::Stream::create(0);
            void* const ptr = allocated(from, pattern(70'000, 4), at_home);
            void* const moved = pm::move(ptr, there, stream);
            CHECK(bytes_at(moved, 70'000, stream) == pattern(70'000, 4));
            CHECK(from->live_buffers() == 0);
            pm::deallocate(moved, stream);
        }
    }
}
