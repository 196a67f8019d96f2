// SPDX-License-Identifier: MIT
// tests/cpp/pm_buffer.cpp: memory with an owner: bytes, parts, exports, and how it goes back.
#include "pm_support.hpp"

TEST_CASE("pm buffer: memory of every resource keeps what is written") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        for (const std::size_t nbytes : {std::size_t{1}, std::size_t{4096}, 3 * MiB + 5}) {
            pm::Buffer buffer(resource, nbytes);
            CHECK(buffer.nbytes() == nbytes);
            CHECK(buffer.resource() == resource);
            CHECK(buffer.traits().kind == resource->kind());
            put(buffer, 17);
            CHECK(get(buffer) == pattern(nbytes, 17));
            CHECK(resource->live_buffers() == 1);
            CHECK(resource->live_bytes() == nbytes);
            buffer.close();
            CHECK(resource->live_buffers() == 0);
            CHECK(resource->live_bytes() == 0);
        }
        resource->close();
    }
}

TEST_CASE("pm buffer: one of 0 bytes is a buffer") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        pm::Buffer buffer(resource, 0);
        CHECK(buffer.ptr() == nullptr);
        CHECK(resource->live_buffers() == 1);
        CHECK(buffer.sub(0, 0).ptr() == nullptr);
        CHECK(get(buffer).empty());
        pm::fill(pm::Span::of(buffer), 1);
        buffer.close();
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm buffer: the destructor gives back, an assignment too, a move does not") {
    if (no_device()) return;
    const auto resource = device_resource();
    {
        pm::Buffer first(resource, 4096);
        pm::Buffer second(std::move(first));
        CHECK(first.is_closed());  // NOLINT(bugprone-use-after-move): that is what is tested
        CHECK_THROWS_AS(first.ptr(), std::invalid_argument);
        CHECK(resource->live_buffers() == 1);
        second = pm::Buffer(resource, 100);
        CHECK(resource->live_bytes() == 100);
    }
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm buffer: closed is closed") {
    if (no_device()) return;
    pm::Buffer buffer(device_resource(), 4096);
    buffer.close();
    buffer.close();
    CHECK(buffer.is_closed());
    CHECK_THROWS_AS(buffer.ptr(), std::invalid_argument);
    CHECK_THROWS_AS(buffer.stream(), std::invalid_argument);
    CHECK_THROWS_AS(buffer.resource(), std::invalid_argument);
    CHECK_THROWS_AS(buffer.sub(0, 1), std::invalid_argument);
    CHECK_THROWS_AS(buffer.release(), std::invalid_argument);
    CHECK_THROWS_AS(pm::Span::of(buffer), std::invalid_argument);
    CHECK_THROWS_AS(buffer.record_stream(pm::Stream::default_stream(0)), std::invalid_argument);
}

TEST_CASE("pm buffer: a part is memory of its own right") {
    if (no_device()) return;
    pm::Buffer buffer(device_resource(), 4096);
    put(buffer, 3);
    const Bytes whole = pattern(4096, 3);
    const auto part = buffer.sub(1000, 2000);
    const auto inner = part.sub(500, 100);
    CHECK(part.is_sub_view());
    CHECK(static_cast<char*>(inner.ptr()) == static_cast<char*>(buffer.ptr()) + 1500);
    CHECK(get(inner) == Bytes(whole.begin() + 1500, whole.begin() + 1600));
    pm::fill(pm::Span::of(inner), 0);
    CHECK(get(buffer.sub(1499, 1)) == Bytes(1, whole[1499]));
    CHECK(get(buffer.sub(1500, 100)) == Bytes(100, 0));
    CHECK(get(buffer.sub(1600, 1)) == Bytes(1, whole[1600]));
}

TEST_CASE("pm buffer: a part that leaves its buffer is refused") {
    if (no_device()) return;
    pm::Buffer buffer(device_resource(), 100);
    const std::size_t huge = ~std::size_t{0};
    using Range = std::pair<std::size_t, std::size_t>;
    for (const Range& range : {Range{0, 101}, Range{101, 0}, Range{50, 51}, Range{1, huge}}) {
        const std::size_t offset = range.first;
        const std::size_t nbytes = range.second;
        const std::string text = refusal<std::invalid_argument>([&] { (void)buffer.sub(offset, nbytes); });
        CHECK(contains(text, "of " + std::to_string(nbytes) + " bytes at offset " + std::to_string(offset)));
    }
    CHECK(buffer.sub(100, 0).nbytes() == 0);
}

TEST_CASE("pm buffer: close under an export is refused and leaves the buffer usable") {
    if (no_device()) return;
    const auto resource = device_resource();
    pm::Buffer buffer(resource, 4096);
    auto part = buffer.sub(0, 10);
    auto inner = part.sub(0, 5);
    CHECK(buffer.exports() == 2);
    CHECK(contains(refusal<pm::ExportError>([&] { buffer.close(); }), "2 export(s)"));
    CHECK(contains(refusal<pm::ExportError>([&] { (void)buffer.release(); }), "2 export(s)"));
    CHECK_THROWS_AS(part.release(), std::invalid_argument);
    put(buffer, 9);
    CHECK(get(buffer) == pattern(4096, 9));
    part.close();
    CHECK(part.is_closed());
    CHECK_THROWS_AS(part.ptr(), std::invalid_argument);
    CHECK_THROWS_AS(buffer.close(), pm::ExportError);
    inner.close();
    buffer.close();
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm buffer: memory under an export goes back with its last export") {
    if (no_device()) return;
    const auto resource = device_resource();
    pm::Buffer buffer(resource, 4096);
    put(buffer, 21);
    auto part = buffer.sub(96, 4000);
    SUBCASE("abandoned") { buffer.abandon(); }
    SUBCASE("overwritten") { buffer = pm::Buffer(device_resource(), 1); }
    CHECK(resource->live_buffers() == 1);
    const Bytes whole = pattern(4096, 21);
    CHECK(get(part) == Bytes(whole.begin() + 96, whole.end()));
    part = pm::Buffer(device_resource(), 1);
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm buffer: released memory is the caller's to deallocate") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        pm::Buffer buffer(resource, 4096);
        const auto stream = buffer.stream();
        void* ptr = buffer.release();
        CHECK(buffer.is_closed());
        CHECK(resource->live_buffers() == 1);
        resource->deallocate(ptr, 4096, stream);
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm buffer: where the wait for memory was put off, the first look at the address does it") {
    if (no_device()) return;
    const auto pool = pm::PoolMemoryResource::create(device_resource());
    const auto stream = pm::Stream::create(0);
    for (const bool releases : {false, true}) {
        CAPTURE(releases);
        pm::Buffer buffer(pool, 4096, stream);
        CHECK_FALSE(buffer.is_unsettled());
        buffer.settle_when_exposed();
        {
            const pm::Buffer part = buffer.sub(16, 16);
            const Gate gate(stream);
            const void* const known = part.address();  // portamem's own operations wait in stream order
            CHECK_FALSE(gate.is_open());
            if (!releases) {
                gate.open_soon();
                CHECK(part.ptr() == known);
                CHECK(gate.is_open());
                CHECK_FALSE(buffer.is_unsettled());
            }
        }
        if (!releases) continue;
        const Gate gate(stream);
        gate.open_soon();
        void* const ptr = buffer.release();
        CHECK(gate.is_open());
        pool->deallocate(ptr, 4096, stream);
    }
}

TEST_CASE("pm buffer: memory outlives every other holder of its resource and its stream") {
    if (no_device()) return;
    for (Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        auto stream = pm::Stream::create(0);
        pm::Buffer buffer(resource, 4096, stream);
        const std::weak_ptr<pm::MemoryResource> watch_resource = resource;
        const std::weak_ptr<pm::Stream> watch_stream = stream;
        resource.reset();
        stream.reset();
        CHECK_FALSE(watch_resource.expired());
        CHECK_FALSE(buffer.stream()->is_closed());
        put(buffer, 4);
        CHECK(get(buffer) == pattern(4096, 4));
        buffer.close();
        CHECK(eventually([&] { return watch_resource.expired() && watch_stream.expired(); }));
    }
}

TEST_CASE("pm buffer: rows of pitched memory") {
    if (no_device()) return;
    const auto resource = std::make_shared<pm::DeviceMemoryResource>(0);
    {
        const pm::PitchedBuffer rows(resource, 100, 33);
        CHECK((rows.width() == 100 && rows.height() == 33));
        CHECK(rows.pitch() >= 100);
        CHECK(rows.nbytes() == rows.pitch() * 33);
        CHECK(resource->live_bytes() == rows.nbytes());
        put(rows, 2);
        CHECK(get(rows) == pattern(rows.nbytes(), 2));
        const pm::PitchedBuffer none(resource, 0, 5);
        CHECK((none.ptr() == nullptr && none.nbytes() == 0));
    }
    CHECK(resource->live_buffers() == 0);
    const auto fine = [] { return std::make_shared<pm::DeviceMemoryResource>(0, rt::Coherence::FineGrained); };
    CHECK_THROWS_AS(pm::PitchedBuffer(fine(), 100, 33), std::invalid_argument);
}
