// SPDX-License-Identifier: MIT
// tests/cpp/pm_monotonic.cpp: memory that is taken piece by piece and goes back all at once.
#include <thread>
#include <vector>

#include "pm_support.hpp"

using Monotonic = pm::MonotonicMemoryResource;

TEST_CASE("pm monotonic: pieces of every kind of memory, until all of it is released") {
    if (no_device()) return;
    for (const Resource& upstream : every_resource()) {
        CAPTURE(std::string(pm::to_string(upstream->kind())));
        const auto arena = std::make_shared<Monotonic>(upstream, 64 << 10);
        CHECK(arena->kind() == upstream->kind());
        CHECK(arena->is_stream_ordered() == upstream->is_stream_ordered());
        for (int round = 0; round < 2; ++round) {
            const auto stream = pm::Stream::create(0);
            std::vector<pm::Buffer> all;
            for (unsigned i = 0; i < 40; ++i) {
                all.emplace_back(arena, 5000 + i, stream, i % 5 == 0 ? 1024 : 256);
                CHECK(reinterpret_cast<std::uintptr_t>(all.back().ptr()) % (i % 5 == 0 ? 1024 : 256) == 0);
            }
            stream->synchronize();
            for (unsigned i = 0; i < 40; ++i) put(all[i], i);
            for (unsigned i = 0; i < 40; ++i) CHECK(get(all[i]) == pattern(5000 + i, i));
            CHECK(upstream->live_buffers() == 3);  // 64, 128 and 256 KiB
            CHECK(arena->reserved() == 448 << 10);
            CHECK(contains(refusal<pm::ExportError>([&] { arena->release(); }), "40 allocation(s)"));
            all.clear();
            CHECK(arena->live_buffers() == 0);
            CHECK(upstream->live_buffers() == 3);
            arena->release();
            CHECK(upstream->live_buffers() == 0);
            CHECK(arena->reserved() == 0);
        }
        arena->close();
    }
    settle();
}

TEST_CASE("pm monotonic: freed memory is not used again before it is released") {
    if (no_device()) return;
    const auto arena = std::make_shared<Monotonic>(pinned_resource(), 4096);
    pm::Buffer first(arena, 1000);
    const auto* at = static_cast<char*>(first.ptr());
    first.close();
    const pm::Buffer second(arena, 1000);
    CHECK(static_cast<char*>(second.ptr()) == at + 1024);
    CHECK(arena->cached() == 4096 - 1024 - 1000);
}

TEST_CASE("pm monotonic: one large allocation does not waste the rest of a chunk") {
    if (no_device()) return;
    const auto upstream = device_resource();
    const auto arena = std::make_shared<Monotonic>(upstream, 64 << 10);
    const auto stream = pm::Stream::default_stream(0);
    const pm::Buffer small(arena, 256, stream);
    const pm::Buffer large(arena, 1 << 20, stream);
    const pm::Buffer next(arena, 256, stream);
    CHECK(static_cast<char*>(next.ptr()) == static_cast<char*>(small.ptr()) + 256);
    CHECK(upstream->live_buffers() == 2);
}

TEST_CASE("pm monotonic: release is behind all streams that used the memory") {
    if (no_device()) return;
    for (const Resource& upstream : every_resource()) {
        if (upstream->kind() == pm::ResourceKind::System) continue;  // copies of it may wait for the stream themselves
        CAPTURE(std::string(pm::to_string(upstream->kind())));
        const auto arena = std::make_shared<Monotonic>(upstream, 64 << 10);
        const auto first = pm::Stream::create(0);
        const auto second = pm::Stream::create(0);
        const pm::Buffer out(device_resource(), 4096);
        void* const one = arena->allocate(4096, first);
        void* two = nullptr;
        {
            pm::Buffer buffer(arena, 4096, second);
            pm::fill(pm::Span::of(buffer), 6);
            two = buffer.release();
        }
        const Gate gate(second);
        REQUIRE(rt::MemcpyAsync(out.ptr(), two, 4096, MemcpyKind::Default, second->handle()) == Success);
        arena->deallocate(two, 4096, second);
        arena->deallocate(one, 4096, first);
        CHECK_FALSE(gate.is_open());
        gate.open_soon();
        arena->release();  // the chunk came from the first stream
        CHECK(gate.is_open());
        CHECK(upstream->live_buffers() == 0);
        second->synchronize();
        CHECK(get(out) == Bytes(4096, 6));
    }
}

TEST_CASE("pm monotonic: short of memory, it takes what is needed and no more") {
    if (no_device()) return;
    const auto limited = std::make_shared<pm::LimitingAdaptor>(device_resource(), 6000);
    const auto arena = std::make_shared<Monotonic>(limited, 4096);
    const pm::Buffer first(arena, 4096);
    pm::Buffer second(arena, 1000);
    CHECK(arena->reserved() == 5096);
    CHECK(contains(refusal<pm::OutOfMemory>([&] { pm::Buffer(arena, 1000); }), "limit"));
    put(second, 4);
    CHECK(get(second) == pattern(1000, 4));
    CHECK(arena->live_buffers() == 2);
}

TEST_CASE("pm monotonic: what is not its own cannot be given back") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    CHECK(contains(refusal<std::invalid_argument>([] { Monotonic(nullptr); }), "no upstream"));
    CHECK(contains(refusal<std::invalid_argument>([] { Monotonic(pinned_resource(), 0); }), "at least 1 byte"));
    const auto arena = std::make_shared<Monotonic>(pinned_resource(), 4096);
    void* ptr = arena->allocate(1000, stream);
    int elsewhere = 0;
    CHECK_THROWS_AS(arena->deallocate(&elsewhere, 4, stream), std::invalid_argument);
    CHECK_THROWS_AS(arena->deallocate(static_cast<char*>(ptr) + 512, 1000, stream), std::invalid_argument);
    arena->deallocate(ptr, 1000, stream);
    CHECK_THROWS_AS(arena->deallocate(ptr, 1000, stream), std::invalid_argument);
    arena->close();
    CHECK_THROWS_AS(arena->allocate(1, stream), std::invalid_argument);
}

TEST_CASE("pm monotonic: threads take pieces of one arena") {
    if (no_device()) return;
    const auto arena = std::make_shared<Monotonic>(pinned_resource(), 4096);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            std::vector<pm::Buffer> mine;
            for (unsigned i = 0; i < 100; ++i) {
                mine.emplace_back(arena, 1 + i * 13);
                const Bytes bytes = pattern(1 + i * 13, t * 100 + i);
                std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(mine.back().ptr()));
            }
            for (unsigned i = 0; i < 100; ++i) {
                const Bytes bytes = pattern(1 + i * 13, t * 100 + i);
                if (!std::equal(bytes.begin(), bytes.end(), static_cast<unsigned char*>(mine[i].ptr()))) ++wrong;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    arena->release();
    CHECK(arena->reserved() == 0);
}
