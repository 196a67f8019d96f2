// SPDX-License-Identifier: MIT
// tests/cpp/pm_staged_copy.cpp: large copies of ordinary host memory, through pinned blocks.
#include <algorithm>

#include "pm_support.hpp"
#include "portamem/detail/staged_copy.hpp"

using pm::detail::StagingLane;

namespace {

constexpr std::size_t kBlock = StagingLane::kBlockBytes;
constexpr std::size_t kAllBlocks = StagingLane::kBlocks * kBlock;
constexpr int kThreads = 3;

void* at(const pm::Buffer& buffer, std::size_t offset) { return static_cast<char*>(buffer.address()) + offset; }

}  // namespace

TEST_CASE("pm staged copy: every byte goes there and back, at any offset and of any length, and none beside them") {
    if (no_device()) return;
    StagingLane lane(0);
    const auto stream = pm::Stream::create(0);
    const std::size_t room = 3 * kAllBlocks + 64;
    const pm::Buffer buffer(device_resource(), room, stream);
    for (const std::size_t size :
         {std::size_t{1}, kBlock - 1, kBlock, kBlock + 1, kAllBlocks, 2 * kAllBlocks + 12345}) {
        CAPTURE(size);
        const std::size_t offset = size % 61 + 1;
        pm::fill(pm::Span::of(buffer), 0xee, stream);
        const Bytes from = pattern(size, 5);
        REQUIRE(lane.to_device(at(buffer, offset), from.data(), size, stream->handle(), kThreads));
        Bytes to(size + 2, 0xdd);
        REQUIRE(lane.to_host(to.data() + 1, at(buffer, offset), size, stream->handle(), kThreads));
        CHECK(to.front() == 0xdd);
        CHECK(to.back() == 0xdd);
        CHECK(std::equal(from.begin(), from.end(), to.begin() + 1));
        stream->synchronize();
        const Bytes all = get(buffer);
        const auto is_untouched = [](unsigned char byte) { return byte == 0xee; };
        CHECK(std::all_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(offset), is_untouched));
        CHECK(std::all_of(all.begin() + static_cast<std::ptrdiff_t>(offset + size), all.end(), is_untouched));
    }
}

TEST_CASE("pm staged copy: what the blocks hold is queued behind the stream's work, and the source has been read") {
    if (no_device()) return;
    StagingLane lane(0);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kAllBlocks);
    put(buffer, 1);
    Bytes from = pattern(kAllBlocks, 2);
    {
        const Gate gate(stream);
        REQUIRE(lane.to_device(buffer.address(), from.data(), kAllBlocks, stream->handle(), kThreads));
        CHECK_FALSE(stream->query());
        CHECK_FALSE(gate.is_open());
        std::fill(from.begin(), from.end(), static_cast<unsigned char>(0));
        gate.open_soon();  // more than the blocks hold waits for the stream
        from = pattern(kAllBlocks, 3);
        REQUIRE(lane.to_device(buffer.address(), from.data(), kBlock, stream->handle(), kThreads));
        CHECK(gate.is_open());
    }
    stream->synchronize();
    const Bytes all = get(buffer);
    const Bytes second = pattern(kAllBlocks, 2);
    CHECK(std::equal(from.begin(), from.begin() + kBlock, all.begin()));
    CHECK(std::equal(second.begin() + kBlock, second.end(), all.begin() + kBlock));
}

TEST_CASE("pm staged copy: two streams take turns on the same blocks") {
    if (no_device()) return;
    StagingLane lane(0);
    const StreamPtr streams[] = {pm::Stream::create(0), pm::Stream::create(0)};
    const pm::Buffer buffers[] = {pm::Buffer(device_resource(), 6 * kBlock), pm::Buffer(device_resource(), 6 * kBlock)};
    for (unsigned turn = 0; turn < 6; ++turn) {
        const Bytes from = pattern(3 * kBlock + 17 * turn, turn);
        REQUIRE(lane.to_device(at(buffers[turn % 2], turn), from.data(), from.size(), streams[turn % 2]->handle(),
                               kThreads));
        if (turn < 4) continue;
        Bytes to(from.size());
        REQUIRE(lane.to_host(to.data(), at(buffers[turn % 2], turn), to.size(), streams[turn % 2]->handle(), kThreads));
        CHECK(to == from);
    }
}

TEST_CASE("pm staged copy: of two threads at once, one leaves the copy to the runtime") {
    if (no_device()) return;
    StagingLane lane(0);
    const auto stream = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), 2 * kAllBlocks);
    const pm::Buffer unused(device_resource(), 1);
    const Bytes from = pattern(2 * kAllBlocks, 4);
    const Gate gate(stream);
    std::thread first([&] {
        while (!lane.to_device(buffer.address(), from.data(), from.size(), stream->handle(), kThreads))
            std::this_thread::yield();
    });
    const unsigned char byte = 1;
    CHECK(eventually([&] { return !lane.to_device(unused.address(), &byte, 1, other->handle(), 1); }));
    CHECK_FALSE(gate.is_open());
    gate.open();
    first.join();
    stream->synchronize();
    CHECK(get(buffer) == from);
}

TEST_CASE("pm staged copy: it serves ordinary host memory and memory of a device alone") {
    if (no_device()) return;
    Bytes bytes(64);
    const pm::Span ordinary = pm::Span::host(bytes.data(), bytes.size());
    CHECK(pm::detail::is_ordinary_host_memory(ordinary));
    CHECK_FALSE(pm::detail::is_memory_of_device_alone(ordinary));
    for (const Resource& each : every_resource()) {
        const pm::Buffer buffer(each, 64);
        CAPTURE(std::string(pm::to_string(each->kind())));
        const bool is_system = each->kind() == pm::ResourceKind::System;
        const bool is_of_device = each->kind() == pm::ResourceKind::Device || each->kind() == pm::ResourceKind::Async;
        CHECK(pm::detail::is_ordinary_host_memory(pm::Span::of(buffer)) == is_system);
        CHECK(pm::detail::is_memory_of_device_alone(pm::Span::of(buffer)) ==
              (is_of_device && !each->is_host_accessible()));
    }
    const pm::Buffer pinned(pinned_resource(), 64);
    CHECK_FALSE(pm::detail::is_ordinary_host_memory(pm::Span::host(pinned.address(), 64)));
}

TEST_CASE("pm staged copy: copies of many megabytes arrive whole, whichever way they go") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const std::size_t size = 2 * kAllBlocks + 4097;
    const pm::Buffer buffer(device_resource(), size, stream);
    Bytes from = pattern(size, 6);
    Bytes to(size);
    pm::copy(pm::Span::of(buffer), pm::Span::host(from.data(), size), stream)->synchronize();
    pm::copy(pm::Span::host(to.data(), size), pm::Span::of(buffer), stream)->synchronize();
    CHECK(to == from);
    put(buffer, 7);
    CHECK(get(buffer) == pattern(size, 7));
}

TEST_CASE("pm staged copy: a source that queued work writes is read behind that work") {
    if (no_device()) return;
    constexpr std::size_t size = 3 * kBlock;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer target(device_resource(), size);
    put(target, 1);
    Bytes source(size, 1);
    const Gate gate(stream);
    stream->launch_host_func(
        [](void* bytes) { std::fill(static_cast<Bytes*>(bytes)->begin(), static_cast<Bytes*>(bytes)->end(), 7); },
        &source);
    gate.open_soon();
    REQUIRE(pm::detail::carry_staged(pm::Span::of(target), pm::Span::host(source.data(), size), true, *stream, 2));
    stream->synchronize();
    CHECK(get(target) == Bytes(size, 7));
}

TEST_CASE("pm staged copy: one stream's copy does not wait for another stream's work") {
    if (no_device()) return;
    const auto held = pm::Stream::create(0);
    const auto free = pm::Stream::create(0);
    const pm::Buffer targets[] = {pm::Buffer(device_resource(), kAllBlocks), pm::Buffer(device_resource(), kAllBlocks)};
    Bytes from = pattern(kAllBlocks, 8);
    const pm::Span source = pm::Span::host(from.data(), from.size());
    const Gate gate(held);
    std::thread first([&] {
        while (!pm::detail::carry_staged(pm::Span::of(targets[0]), source, true, *held, 2)) std::this_thread::yield();
    });
    REQUIRE(pm::detail::carry_staged(pm::Span::of(targets[1]), source, true, *free, 2));
    free->synchronize();
    CHECK_FALSE(gate.is_open());
    gate.open();
    first.join();
    held->synchronize();
    CHECK(get(targets[0]) == from);
    CHECK(get(targets[1]) == from);
}
