// SPDX-License-Identifier: MIT
// tests/cpp/pm_copy.cpp: copies between any two pieces of memory.
#include "pm_support.hpp"

namespace {

constexpr std::size_t kBytes = 100'003;

}  // namespace

TEST_CASE("pm copy: from every kind of memory to every kind") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    for (const Resource& from : every_resource()) {
        for (const Resource& to : every_resource()) {
            CAPTURE(std::string(pm::to_string(from->kind())));
            CAPTURE(std::string(pm::to_string(to->kind())));
            const pm::Buffer source(from, kBytes);
            const pm::Buffer target(to, kBytes);
            put(source, 3);
            CHECK(pm::copy(target, source) == nullptr);
            CHECK(get(target) == pattern(kBytes, 3));
            put(source, 4);
            pm::copy(target, source, stream)->synchronize();
            CHECK(get(target) == pattern(kBytes, 4));
        }
    }
}

TEST_CASE("pm copy: with a stream it is queued, and the event tells when it has happened") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer source(pinned_resource(), kBytes);
    const pm::Buffer target(device_resource(), kBytes);
    put(source, 1);
    put(target, 2);
    const Gate gate(stream);
    const auto done = pm::copy(target, source, stream);
    CHECK_FALSE(done->query());
    CHECK_FALSE(gate.is_open());
    gate.open();
    done->synchronize();
    CHECK(get(target) == pattern(kBytes, 1));
}

TEST_CASE("pm copy: parts of buffers") {
    if (no_device()) return;
    const pm::Buffer buffer(device_resource(), 4096);
    put(buffer, 1);
    Bytes expected = pattern(4096, 1);
    pm::copy(buffer.sub(3000, 500), buffer.sub(100, 500));
    std::copy_n(pattern(4096, 1).begin() + 100, 500, expected.begin() + 3000);
    CHECK(get(buffer) == expected);
    pm::copy(buffer.sub(500, 100), buffer.sub(400, 100));  // neighbours do not overlap
}

TEST_CASE("pm copy: what does not fit, or overlaps itself, is refused before any call") {
    if (no_device()) return;
    const pm::Buffer buffer(device_resource(), 4096);
    put(buffer, 1);
    const std::string text = refusal<std::invalid_argument>([&] { pm::copy(buffer.sub(0, 10), buffer.sub(100, 11)); });
    CHECK(contains(text, "11 bytes does not fit a target of 10 bytes"));
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::copy(buffer.sub(0, 10), buffer.sub(9, 10)); }), "overlap"));
    CHECK_THROWS_AS(pm::copy(buffer, buffer), std::invalid_argument);
    CHECK(get(buffer) == pattern(4096, 1));
    CHECK(buffer.exports() == 0);
    pm::copy(buffer.sub(5, 0), buffer.sub(5, 0));
}

TEST_CASE("pm copy: memory that may be read only is a source, and never a target") {
    if (no_device()) return;
    const pm::Buffer owner(pinned_resource(), 4096);
    const pm::Buffer other(pinned_resource(), 4096);
    put(owner, 1);
    put(other, 2);
    pm::MemoryTraits traits = owner.traits();
    traits.kind = pm::ResourceKind::Foreign;
    traits.read_only = true;
    const auto home = pm::Stream::default_stream(0);
    const pm::Buffer shared = pm::Buffer::from_handle(owner.ptr(), owner.nbytes(), home, traits, nullptr);
    const pm::Buffer part = shared.sub(8, 16);
    for (const auto& stream : {std::shared_ptr<pm::Stream>(), pm::Stream::create(0)}) {
        const auto refused = [](auto&& call) { return contains(refusal<std::invalid_argument>(call), "read-only"); };
        CHECK(refused([&] { pm::copy(shared, other, stream); }));
        CHECK(refused([&] { pm::copy(part, other.sub(0, 16), stream); }));
        CHECK(refused([&] { pm::copy_2d(pm::Span::of(shared), pm::Span::of(other), {8, 8, 8, 8}, stream); }));
        CHECK(refused([&] { pm::copy_3d(pm::Span::of(shared), pm::Span::of(other), {8, 8, 1, 8, 8, 8, 8}, stream); }));
        CHECK(refused([&] { pm::fill(pm::Span::of(part), 0, stream); }));
        CHECK(refused([&] { pm::fill_2d(pm::Span::of(shared), 8, 8, 8, 0, stream); }));
    }
    CHECK(get(owner) == pattern(4096, 1));
    CHECK(shared.exports() == 1);
    pm::copy(other, shared);
    CHECK(get(other) == pattern(4096, 1));
}

TEST_CASE("pm copy: between plain host memory") {
    if (no_device()) return;
    Bytes from = pattern(kBytes, 8);
    Bytes to(kBytes);
    pm::copy(pm::Span::host(to.data(), kBytes), pm::Span::host(from.data(), kBytes));
    CHECK(to == from);
}

TEST_CASE("pm copy: rows of different pitch") {
    if (no_device()) return;
    const std::size_t width = 100;
    const std::size_t height = 20;
    const auto resource = std::make_shared<pm::DeviceMemoryResource>(0);
    const pm::PitchedBuffer rows(resource, width, height);
    pm::fill(pm::Span::of(rows), 0);
    Bytes tight = pattern(width * height, 6);
    Bytes back(width * height);
    const auto in = pm::copy_2d(pm::Span::of(rows), pm::Span::host(tight.data(), tight.size()),
                                {width, height, rows.pitch(), width});
    CHECK(in == nullptr);
    const auto stream = pm::Stream::create(0);
    pm::copy_2d(pm::Span::host(back.data(), back.size()), pm::Span::of(rows), {width, height, width, rows.pitch()},
                stream)
        ->synchronize();
    CHECK(back == tight);
    const Bytes all = get(rows);
    for (std::size_t row = 0; row < height; ++row) {
        CHECK(std::count(all.begin() + static_cast<std::ptrdiff_t>(row * rows.pitch() + width),
                         all.begin() + static_cast<std::ptrdiff_t>((row + 1) * rows.pitch()),
                         0) == static_cast<std::ptrdiff_t>(rows.pitch() - width));
    }
}

TEST_CASE("pm copy: rows that do not fit are refused with what would") {
    if (no_device()) return;
    const pm::Buffer target(device_resource(), 1000);
    const pm::Buffer source(device_resource(), 1000);
    const auto refused = [&](const pm::Rows2D& rows) {
        return refusal<std::invalid_argument>([&] { pm::copy_2d(pm::Span::of(target), pm::Span::of(source), rows); });
    };
    CHECK(contains(refused({100, 10, 99, 100}), "target's pitch of 99 bytes is smaller"));
    CHECK(contains(refused({100, 10, 100, 99}), "source's pitch of 99 bytes is smaller"));
    CHECK(contains(refused({100, 11, 100, 100}), "do not fit the target of 1000 bytes: 10 would"));
    CHECK(contains(refused({100, 9, 100, 150}), "do not fit the source of 1000 bytes: 7 would"));
    CHECK(contains(refused({1001, 1, 1001, 1001}), ": 0 would"));
    CHECK(contains(refused({1, ~std::size_t{0}, 1, 1}), ": 1000 would"));
    pm::copy_2d(pm::Span::of(target), pm::Span::of(source), {100, 10, 100, 100});
    pm::copy_2d(pm::Span::of(target), pm::Span::of(source), {0, 10, 0, 0});
    CHECK_THROWS_AS(pm::copy_2d(pm::Span::of(target), pm::Span::of(target), {10, 2, 10, 10}), std::invalid_argument);
}

TEST_CASE("pm copy: between devices") {
    if (no_device() || pm::device_count() < 2) return;
    const pm::Buffer source(device_resource(), kBytes);
    const pm::Buffer target(std::make_shared<pm::DeviceMemoryResource>(1), kBytes);
    put(source, 9);
    pm::copy(target, source);
    CHECK(get(target) == pattern(kBytes, 9));
    const auto stream = pm::Stream::create(1);
    pm::fill(pm::Span::of(source), 1);
    pm::copy(target, source, stream)->synchronize();
    CHECK(get(target) == Bytes(kBytes, 1));
}
