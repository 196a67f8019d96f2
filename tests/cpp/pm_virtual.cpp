// SPDX-License-Identifier: MIT
// tests/cpp/pm_virtual.cpp: memory that is mapped to reserved addresses: it grows and shrinks in place, and sleeps.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "pm_support.hpp"

namespace {

using Virtual = std::shared_ptr<pm::VirtualMemoryResource>;

// Null where the device has no virtual memory.
Virtual virtual_resource(std::size_t reserve = 0) {
    return has_virtual() ? pm::VirtualMemoryResource::create(0, reserve) : nullptr;
}

Bytes first_of(Bytes bytes, std::size_t count) {
    bytes.resize(count);
    return bytes;
}

std::size_t rounded(std::size_t nbytes, std::size_t unit) { return (nbytes + unit - 1) / unit * unit; }

}  // namespace

TEST_CASE("pm virtual: a growable buffer gets every size at one address, and keeps its bytes") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const std::size_t unit = resource->granularity();
    pm::GrowableBuffer buffer(resource, 1000, 16 * unit);
    CHECK(buffer.capacity() == 16 * unit);
    CHECK(buffer.mapped() == unit);
    put(buffer, 1);
    const void* const address = buffer.ptr();
    std::size_t known = 1000;
    for (const std::size_t nbytes :
         {1001 * std::size_t{1}, unit, unit + 1, 16 * unit, 9 * unit + 5, 3 * unit, std::size_t{1}}) {
        CAPTURE(nbytes);
        buffer.resize(nbytes);
        CHECK(buffer.nbytes() == nbytes);
        CHECK(buffer.ptr() == address);
        CHECK(resource->live_bytes() == nbytes);
        CHECK(resource->size_of(address) == nbytes);
        CHECK(buffer.mapped() >= rounded(nbytes, unit));
        CHECK(resource->mapped() == buffer.mapped());
        known = std::min(known, nbytes);
        CHECK(first_of(get(buffer), known) == pattern(known, 1));
        put(buffer, 1);
        known = nbytes;
    }
    CHECK(buffer.mapped() <= 4 * unit);
    buffer.close();
    CHECK(resource->live_buffers() == 0);
    CHECK(resource->mapped() == 0);
}

TEST_CASE("pm virtual: exports stay valid while a buffer grows, and keep it from shrinking") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const std::size_t unit = resource->granularity();
    pm::GrowableBuffer buffer(resource, 2 * unit, 8 * unit);
    put(buffer, 2);
    {
        const pm::Buffer part = buffer.sub(unit, 100);
        const Bytes before = get(part);
        buffer.resize(6 * unit);
        CHECK(get(part) == before);
        CHECK_THROWS_AS(buffer.resize(unit), pm::ExportError);
        CHECK(buffer.nbytes() == 6 * unit);
        buffer.resize(6 * unit);
    }
    CHECK(first_of(get(buffer), 2 * unit) == pattern(2 * unit, 2));
    buffer.resize(unit);
    CHECK(get(buffer) == pattern(unit, 2));
}

TEST_CASE("pm virtual: fewer bytes wait for the work that was declared on the buffer") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const std::size_t unit = resource->granularity();
    const auto writer = pm::Stream::create(0);
    pm::GrowableBuffer buffer(resource, 4 * unit, 4 * unit);
    put(buffer, 3);
    const Gate gate(writer);
    pm::fill(pm::Span::of(buffer), 0x5a, writer);
    gate.open_soon();
    buffer.resize(unit);
    CHECK(gate.is_open());
    CHECK(get(buffer) == Bytes(unit, 0x5a));
}

TEST_CASE("pm virtual: a size that cannot be is refused, and the buffer is as it was") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const std::size_t unit = resource->granularity();
    CHECK_THROWS_AS(pm::GrowableBuffer(resource, 0), std::invalid_argument);
    CHECK_THROWS_AS(pm::GrowableBuffer(resource, 2 * unit, unit), std::invalid_argument);
    CHECK_THROWS_AS(pm::GrowableBuffer(resource, std::size_t{1} << 62), pm::Error);
    pm::GrowableBuffer buffer(resource, unit, 2 * unit);
    put(buffer, 4);
    CHECK_THROWS_AS(buffer.resize(0), std::invalid_argument);
    CHECK(contains(refusal<std::invalid_argument>([&] { buffer.resize(2 * unit + 1); }), "larger capacity"));
    CHECK_THROWS_AS(buffer.resize(std::size_t{1} << 63), std::invalid_argument);
    CHECK(buffer.nbytes() == unit);
    CHECK(get(buffer) == pattern(unit, 4));
    CHECK(resource->live_buffers() == 1);
    buffer.close();
    CHECK_THROWS_AS(buffer.resize(unit), std::invalid_argument);
    CHECK_THROWS_AS(resource->resize(nullptr, unit, pm::Stream::default_stream(0)), std::invalid_argument);
    CHECK(resource->live_buffers() == 0);
    resource->close();
    CHECK_THROWS_AS(pm::GrowableBuffer(resource, 10), std::invalid_argument);
}

TEST_CASE("pm virtual: reallocate keeps the address while the block's addresses suffice, and moves then") {
    if (no_device()) return;
    const Virtual resource = virtual_resource(std::size_t{32} << 20);
    if (!resource) return;
    pm::Buffer buffer(resource, MiB);
    put(buffer, 5);
    const void* const address = buffer.address();
    for (const std::size_t nbytes : {30 * MiB, MiB + 3, 32 * MiB}) {
        pm::reallocate(buffer, nbytes);
        if (!pm::detail::debug_on) CHECK(buffer.address() == address);  // between redzones no block can grow
        CHECK(first_of(get(buffer), MiB) == pattern(MiB, 5));
    }
    pm::reallocate(buffer, 40 * MiB);
    CHECK(buffer.address() != address);
    CHECK(first_of(get(buffer), MiB) == pattern(MiB, 5));
    CHECK(resource->live_buffers() == 1);
    const auto stream = pm::Stream::default_stream(0);
    void* ptr = resource->allocate(MiB, stream);
    void* const before = ptr;
    ptr = pm::reallocate(ptr, 20 * MiB, stream);
    if (!pm::detail::debug_on) CHECK(ptr == before);
    CHECK(resource->size_of(ptr) == 20 * MiB);
    pm::deallocate(ptr, stream);
}

TEST_CASE("pm virtual: while the resource sleeps its memory is the device's, and the bytes come back") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const std::size_t unit = resource->granularity();
    pm::GrowableBuffer growable(resource, 3 * unit + 7, 5 * unit);
    pm::Buffer plain(resource, 1234);
    const pm::Buffer part = growable.sub(unit, 10);
    put(growable, 6);
    put(plain, 7);
    const void* const address = growable.ptr();
    for (int round = 0; round < 2; ++round) {
        resource->sleep();
        resource->sleep();
        CHECK(resource->is_asleep());
        CHECK(resource->mapped() == 0);
        CHECK(growable.mapped() == 0);
        CHECK(growable.nbytes() == 3 * unit + 7);
        CHECK(contains(refusal<std::invalid_argument>([&] { (void)growable.ptr(); }), "wake"));
        CHECK_THROWS_AS((void)get(part), std::invalid_argument);
        CHECK_THROWS_AS(put(plain, 1), std::invalid_argument);
        CHECK_THROWS_AS(pm::fill(pm::Span::of(plain), 1), std::invalid_argument);
        CHECK_THROWS_AS(growable.resize(4 * unit), std::invalid_argument);
        CHECK_THROWS_AS(pm::Buffer(resource, 10), std::invalid_argument);
        CHECK_THROWS_AS(pm::reallocate(plain, 10 * unit), std::invalid_argument);
        resource->wake();
        resource->wake();
        CHECK_FALSE(resource->is_asleep());
        CHECK(growable.ptr() == address);
        CHECK(get(growable) == pattern(3 * unit + 7, 6));
        CHECK(get(plain) == pattern(1234, 7));
    }
    growable.resize(4 * unit);
    resource->sleep(pm::SleepContents::Drop);
    plain.close();
    CHECK(resource->live_buffers() == 1);
    resource->wake();
    CHECK(resource->mapped() == growable.mapped());
    put(growable, 8);
    CHECK(get(growable) == pattern(4 * unit, 8));
    const Bytes whole = pattern(4 * unit, 8);
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(unit);
    CHECK(get(part) == Bytes(begin, begin + 10));
}

TEST_CASE("pm virtual: a buffer that shrinks has no new exports meanwhile") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const std::size_t unit = resource->granularity();
    const auto stream = pm::Stream::create(0);
    pm::GrowableBuffer buffer(resource, 6 * unit, 6 * unit, stream);
    put(buffer, 4);
    const auto memory = buffer.allocation();
    const Gate gate(stream);
    pm::fill(pm::Span::of(buffer), 0x11, stream);
    std::atomic<bool> is_done{false};
    std::thread shrinking([&] {
        buffer.resize(unit);
        is_done = true;
    });
    const auto is_refused = [&] {
        try {
            memory->begin_export();
            memory->end_export();
        } catch (const pm::ExportError&) {
            return true;
        }
        return false;
    };
    CHECK(eventually(is_refused));
    CHECK_FALSE(is_done);
    CHECK_FALSE(memory->is_closed());
    CHECK_THROWS_AS(memory->close(stream), pm::ExportError);
    gate.open();
    shrinking.join();
    CHECK_FALSE(is_refused());
    CHECK(get(buffer) == Bytes(unit, 0x11));
}

TEST_CASE("pm virtual: figures do not count what sleeps") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    settle();
    const std::size_t before = portamem_held(rt::BackendId, 0);
    pm::Buffer buffer(resource, 3 * MiB), other(resource, MiB);
    CHECK(portamem_held(rt::BackendId, 0) == before + 4 * MiB);
    resource->sleep();
    CHECK(portamem_held(rt::BackendId, 0) == before);
    CHECK(resource->live_bytes() == 4 * MiB);
    other.close();
    CHECK(portamem_held(rt::BackendId, 0) == before);
    resource->wake();
    CHECK(portamem_held(rt::BackendId, 0) == before + 3 * MiB);
    buffer.close();
    CHECK(portamem_held(rt::BackendId, 0) == before);
}

TEST_CASE("pm virtual: within a capture nothing sleeps or wakes, and the capture stays whole") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    pm::Buffer buffer(resource, 5000);
    put(buffer, 6);
    const auto stream = pm::Stream::create(0);
    const auto captured = [&](auto&& call) {
        stream->begin_capture(rt::StreamCaptureMode::Relaxed);
        CHECK_THROWS_AS(call(), std::invalid_argument);
        CHECK(stream->capture_status() == rt::StreamCaptureStatus::Active);
        stream->end_capture();
    };
    captured([&] { resource->sleep(); });
    CHECK(get(buffer) == pattern(5000, 6));
    resource->sleep();
    captured([&] { resource->wake(); });
    CHECK(resource->is_asleep());
    resource->wake();
    CHECK(get(buffer) == pattern(5000, 6));
}

TEST_CASE("pm virtual: other threads allocate and close while the resource sleeps and wakes") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    pm::Buffer kept(resource, 100'000);
    put(kept, 7);
    std::atomic<bool> is_over{false};
    std::atomic<unsigned> given{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < 2; ++number) {
        threads.emplace_back([&] {
            while (!is_over) {
                try {
                    pm::Buffer(resource, 10'000).close();
                    ++given;
                } catch (const std::invalid_argument&) {  // it sleeps
                }
            }
        });
    }
    for (int round = 0; round < 60; ++round) {
        resource->sleep();
        resource->wake();
    }
    CHECK(eventually([&] { return given > 0; }));
    is_over = true;
    for (std::thread& thread : threads) thread.join();
    CHECK(get(kept) == pattern(100'000, 7));
    CHECK(resource->live_buffers() == 1);
}

TEST_CASE("pm virtual: memory of an alternate that sleeps is refused") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const auto none = std::make_shared<pm::LimitingAdaptor>(virtual_resource(), 0);
    const pm::Buffer buffer(std::make_shared<pm::FallbackAdaptor>(none, resource), 1000);
    put(buffer, 8);
    resource->sleep();
    CHECK_THROWS_AS((void)buffer.ptr(), std::invalid_argument);
    resource->wake();
    CHECK(get(buffer) == pattern(1000, 8));
}

TEST_CASE("pm virtual: a pool over it knows what its chunks take of the device") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const auto pool = pm::PoolMemoryResource::create(resource);
    const auto stream = pm::Stream::create(0);
    std::mt19937 random(6);
    std::vector<pm::Buffer> buffers;
    for (int i = 0; i < 200; ++i) {
        buffers.emplace_back(pool, std::size_t{1} << random() % 22 | random() % 4096, stream);
        REQUIRE(pool->stats().reserved == resource->mapped());
        if (i % 3 == 2) buffers.erase(buffers.begin() + static_cast<std::ptrdiff_t>(random() % buffers.size()));
    }
    CHECK(pool->stats().reserved % resource->granularity() == 0);
}

TEST_CASE("pm virtual: a limit between a pool and virtual memory is used up in chunks as large as may be") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const std::size_t unit = resource->granularity();
    const std::size_t limit = 3 * unit + unit / 2;
    const auto pool = pm::PoolMemoryResource::create(std::make_shared<pm::LimitingAdaptor>(resource, limit));
    const auto stream = pm::Stream::create(0);
    std::vector<pm::Buffer> buffers;
    try {
        for (;;) buffers.emplace_back(pool, 5000, stream);
    } catch (const pm::OutOfMemory&) {
    }
    CHECK(pool->stats().reserved <= limit);
    CHECK(pool->stats().reserved > limit / 10 * 9);
    CHECK(resource->mapped() <= 6 * unit);
}

TEST_CASE("pm virtual: a pool over it sleeps with it, and so do adaptors") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const auto pool = pm::PoolMemoryResource::create(std::make_shared<pm::StatisticsAdaptor>(resource));
    const auto stream = pm::Stream::create(0);
    pm::Buffer buffer(pool, 100'000, stream), freed(pool, 50'000, stream);
    std::vector<pm::Buffer> small;
    for (int i = 0; i < 9; ++i) small.emplace_back(pool, 700, stream);
    put(buffer, 9);
    put(freed, 1);
    for (const pm::Buffer& each : small) put(each, 2);
    pm::Buffer(pool, 3 * MiB, stream).close();  // has no contents any more
    resource->sleep();
    if (!pm::detail::debug_on) CHECK(resource->kept() >= 100'000 + 50'000 + 9 * 700);
    if (!pm::detail::debug_on) CHECK(resource->kept() < MiB);
    freed.close();
    CHECK(pool->is_asleep());
    CHECK_THROWS_AS((void)buffer.ptr(), std::invalid_argument);
    resource->wake();
    CHECK_FALSE(pool->is_asleep());
    CHECK(resource->kept() == 0);
    CHECK(get(buffer) == pattern(100'000, 9));
    for (const pm::Buffer& each : small) CHECK(get(each) == pattern(700, 2));
}

TEST_CASE("pm virtual: what others cut from the memory of a pool's first chunk wakes up too") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const auto stream = pm::Stream::create(0);
    const auto lower = pm::PoolMemoryResource::create(resource);
    const auto all = std::make_shared<pm::MonotonicMemoryResource>(resource, 16 * MiB);
    pm::Buffer(lower, 20 * MiB, stream).close();
    // Each inner pool has a chunk at the beginning of a block of the resource, and others have the bytes behind it.
    for (const Resource& below : {Resource(lower), Resource(all)}) {
        const auto inner = pm::PoolMemoryResource::create(below);
        const pm::Buffer first(inner, 5000, stream), second(below, 3 * MiB, stream);
        put(first, 1);
        put(second, 2);
        resource->sleep();
        resource->wake();
        CHECK(get(first) == pattern(5000, 1));
        CHECK(get(second) == pattern(3 * MiB, 2));
    }
}

TEST_CASE("pm virtual: a resource that closes while it sleeps, or with memory out, is right") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    {
        pm::Buffer buffer(resource, 100);
        CHECK_THROWS_AS(resource->close(), pm::ExportError);
        resource->sleep();
    }
    resource->close();
    CHECK_THROWS_AS(resource->sleep(), std::invalid_argument);
    CHECK_THROWS_AS(resource->wake(), std::invalid_argument);
}

TEST_CASE("pm virtual: random sizes over several streams, with sleep between, lose no byte") {
    if (no_device()) return;
    const Virtual resource = virtual_resource();
    if (!resource) return;
    const std::size_t unit = resource->granularity();
    std::mt19937 random(20);
    const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random()) % count; };
    const StreamPtr streams[] = {pm::Stream::default_stream(0), pm::Stream::create(0), pm::Stream::create(0)};
    pm::GrowableBuffer buffer(resource, 1, 12 * unit, streams[1]);
    Bytes expected{0};
    put(buffer, 0);
    for (int step = 0; step < 60; ++step) {
        CAPTURE(step);
        const std::size_t nbytes = 1 + below(12 * unit);
        const std::size_t had = expected.size();
        buffer.resize(nbytes, streams[below(3)]);
        expected.resize(nbytes);
        const std::size_t begin = had < nbytes ? had : below(nbytes);  // what is new gets a value
        const auto value = static_cast<unsigned char>(step);
        pm::fill(pm::Span::of(buffer.sub(begin, nbytes - begin)), value, streams[below(3)]);
        std::fill(expected.begin() + static_cast<std::ptrdiff_t>(begin), expected.end(), value);
        if (step % 7 == 0) {
            resource->sleep();
            resource->wake();
        }
        if (step % 5 == 0) CHECK(get(buffer) == expected);
    }
    CHECK(get(buffer) == expected);
}
