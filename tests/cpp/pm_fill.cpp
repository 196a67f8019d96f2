// SPDX-License-Identifier: MIT
// tests/cpp/pm_fill.cpp: setting memory to a byte.
#include "pm_support.hpp"

TEST_CASE("pm fill: memory of every kind, at once and on a stream") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const pm::Buffer buffer(resource, 10'001);
        CHECK(pm::fill(pm::Span::of(buffer), 0xfe) == nullptr);
        CHECK(get(buffer) == Bytes(10'001, 0xfe));
        pm::fill(pm::Span::of(buffer), 7, stream)->synchronize();
        CHECK(get(buffer) == Bytes(10'001, 7));
        pm::fill(pm::Span::of(buffer.sub(10, 5)), 0);
        CHECK(get(buffer.sub(9, 7)) == Bytes{7, 0, 0, 0, 0, 0, 7});
    }
}

TEST_CASE("pm fill: it keeps its place in the stream") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), 4096);
    pm::fill(pm::Span::of(buffer), 1);
    const Gate gate(stream);
    const auto done = pm::fill(pm::Span::of(buffer), 2, stream);
    CHECK_FALSE(done->query());
    gate.open();
    done->synchronize();
    CHECK(get(buffer) == Bytes(4096, 2));
}

TEST_CASE("pm fill: plain host memory, kept alive by its owner") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto bytes = std::make_shared<Bytes>(1000);
    pm::fill(pm::Span::host(bytes->data(), bytes->size()), 3);
    CHECK(*bytes == Bytes(1000, 3));
    pm::fill(pm::Span::host(bytes->data(), bytes->size(), bytes), 4, stream)->synchronize();
    CHECK(*bytes == Bytes(1000, 4));
}

TEST_CASE("pm fill: rows, and none of the padding between them") {
    if (no_device()) return;
    const auto resource = std::make_shared<pm::DeviceMemoryResource>(0);
    const pm::PitchedBuffer rows(resource, 10, 3);
    REQUIRE(rows.pitch() > 10);
    pm::fill(pm::Span::of(rows), 1);
    CHECK(pm::fill_2d(rows, 9) == nullptr);
    const Bytes all = get(rows);
    for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == (i % rows.pitch() < 10 ? 9 : 1));
    const auto stream = pm::Stream::create(0);
    pm::fill_2d(rows, 8, stream)->synchronize();
    CHECK(get(rows)[0] == 8);
    pm::fill_2d(pm::PitchedBuffer(resource, 0, 3), 1);
}
