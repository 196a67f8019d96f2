// SPDX-License-Identifier: MIT
// tests/cpp/pm_staged_copy.cpp: large copies of ordinary host memory, through pinned blocks.
#include <algorithm>
#include <array>

#include "pm_support.hpp"
#include "portamem/detail/staged_copy.hpp"

using pm::detail::StagingLane;

namespace {

constexpr std::size_t kBlock = MiB / 4;
constexpr std::size_t kAllBlocks = StagingLane::kBlocks * kBlock;
constexpr int kThreads = 3;

char* at(const pm::Buffer& buffer, std::size_t offset) { return static_cast<char*>(buffer.address()) + offset; }

// Carries bytes that lie one behind the other at both ends. It answers false where other copies use the blocks.
bool try_to_device(StagingLane& lane, char* dst, const unsigned char* src, std::size_t nbytes, const StreamPtr& on,
                   int threads = kThreads) {
    return lane.to_device({dst}, {const_cast<unsigned char*>(src), nbytes, 0, nullptr, nullptr}, nbytes, on->handle(),
                          threads);
}

bool to_device(StagingLane& lane, char* dst, const unsigned char* src, std::size_t nbytes, const StreamPtr& on) {
    return eventually([&] { return try_to_device(lane, dst, src, nbytes, on); });
}

bool to_host(StagingLane& lane, unsigned char* dst, char* src, std::size_t nbytes, const StreamPtr& on) {
    return eventually([&] {
        return lane.to_host({dst, nbytes, 0, nullptr, nullptr}, {src}, nbytes, on->handle(), kThreads);
    });
}

// Copies ordinary memory to a buffer of its size, as copy() does where that is large.
bool carry(const pm::Buffer& dst, Bytes& src, const pm::Stream& on) {
    return pm::detail::carry_staged(pm::Span::of(dst), {at(dst, 0)}, {src.data(), src.size(), 0, nullptr, nullptr},
                                    src.size(), true, on, 2);
}

}  // namespace

TEST_CASE("pm staged copy: every byte goes there and back, at any offset and of any length, and none beside them") {
    if (no_device()) return;
    StagingLane lane(0, kBlock);
    const auto stream = pm::Stream::create(0);
    const std::size_t room = 3 * kAllBlocks + 64;
    const pm::Buffer buffer(device_resource(), room, stream);
    for (const std::size_t size :
         {std::size_t{1}, kBlock - 1, kBlock, kBlock + 1, kAllBlocks, 2 * kAllBlocks + 12345}) {
        CAPTURE(size);
        const std::size_t offset = size % 61 + 1;
        pm::fill(pm::Span::of(buffer), 0xee, stream);
        const Bytes from = pattern(size, 5);
        REQUIRE(to_device(lane, at(buffer, offset), from.data(), size, stream));
        Bytes to(size + 2, 0xdd);
        REQUIRE(to_host(lane, to.data() + 1, at(buffer, offset), size, stream));
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
    StagingLane lane(0, kBlock);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kAllBlocks);
    put(buffer, 1);
    Bytes from = pattern(kAllBlocks, 2);
    {
        const Gate gate(stream);
        REQUIRE(to_device(lane, at(buffer, 0), from.data(), kAllBlocks, stream));
        CHECK_FALSE(stream->query());
        CHECK_FALSE(gate.is_open());
        std::fill(from.begin(), from.end(), static_cast<unsigned char>(0));
        gate.open();
    }
    stream->synchronize();
    CHECK(get(buffer) == pattern(kAllBlocks, 2));
}

TEST_CASE("pm staged copy: two streams take turns on the same blocks") {
    if (no_device()) return;
    StagingLane lane(0, kBlock);
    const StreamPtr streams[] = {pm::Stream::create(0), pm::Stream::create(0)};
    const pm::Buffer buffers[] = {pm::Buffer(device_resource(), 6 * kBlock), pm::Buffer(device_resource(), 6 * kBlock)};
    for (unsigned turn = 0; turn < 6; ++turn) {
        const Bytes from = pattern(3 * kBlock + 17 * turn, turn);
        REQUIRE(to_device(lane, at(buffers[turn % 2], turn), from.data(), from.size(), streams[turn % 2]));
        if (turn < 4) continue;
        Bytes to(from.size());
        REQUIRE(to_host(lane, to.data(), at(buffers[turn % 2], turn), to.size(), streams[turn % 2]));
        CHECK(to == from);
    }
}

TEST_CASE("pm staged copy: copies that are cut into parts of different size keep off each other's bytes") {
    if (no_device()) return;
    StagingLane lane(0, 2 * MiB);
    const StreamPtr streams[] = {pm::Stream::create(0), pm::Stream::create(0)};
    const std::size_t sizes[] = {6 * MiB, 5 * MiB};
    const std::size_t row = MiB + MiB / 2;  // one to a block
    const pm::Buffer flat(device_resource(), sizes[0]), rows(device_resource(), 4 * row);
    for (unsigned turn = 0; turn < 20; ++turn) {
        CAPTURE(turn);
        const Bytes first = pattern(sizes[0], turn), second = pattern(3 * row, turn + 100);
        const portamem_host_runs runs{const_cast<unsigned char*>(second.data()), second.size(), 0, nullptr, nullptr};
        REQUIRE(to_device(lane, at(flat, 0), first.data(), first.size(), streams[0]));
        REQUIRE(eventually([&] {
            return lane.to_device({at(rows, 0), row, row + 5, 3, 0}, runs, second.size(), streams[1]->handle(),
                                  kThreads);
        }));
        REQUIRE(to_device(lane, at(flat, 0), first.data(), sizes[1], streams[0]));
        for (const StreamPtr& stream : streams) stream->synchronize();
        CHECK(get(flat) == first);
        const Bytes there = get(rows);
        for (std::size_t number = 0; number < 3; ++number) {
            const auto begin = there.begin() + static_cast<std::ptrdiff_t>(number * (row + 5));
            CHECK(std::equal(begin, begin + row, second.begin() + static_cast<std::ptrdiff_t>(number * row)));
        }
    }
}

TEST_CASE("pm staged copy: blocks that other work holds up leave the copy to the runtime") {
    if (no_device()) return;
    StagingLane lane(0, kBlock);
    const auto held = pm::Stream::create(0);
    const auto free = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kAllBlocks);
    const Bytes from = pattern(kAllBlocks, 4);
    {
        const Gate gate(held);
        REQUIRE(to_device(lane, at(buffer, 0), from.data(), kAllBlocks, held));
        for (int turn = 0; turn < 100; ++turn)  // it waits for them once
            CHECK_FALSE(try_to_device(lane, at(buffer, 0), from.data(), kAllBlocks, free));
        CHECK_FALSE(gate.is_open());
        gate.open();
    }
    held->synchronize();
    CHECK(get(buffer) == from);
    CHECK(to_device(lane, at(buffer, 0), from.data(), kAllBlocks, free));
    free->synchronize();
}

TEST_CASE("pm staged copy: slices that lie like rows are rows") {
    using pm::detail::device_box;
    char first = 0;
    const auto seen = [&](std::size_t pitch, std::size_t slice, std::size_t width, std::size_t height,
                          std::size_t depth) {
        const auto box = device_box(&first, {pitch, slice}, width, height, depth);
        return std::array<std::size_t, 4>{box.width, box.pitch, box.height, box.slice};
    };
    using Box = std::array<std::size_t, 4>;
    CHECK(seen(64, 0, 64, 10, 1)[0] == 0);    // all bytes lie one behind the other
    CHECK(seen(64, 640, 64, 10, 3)[0] == 0);  // here too
    CHECK(seen(64, 0, 64, 1, 1)[0] == 0);
    CHECK(seen(64, 64, 64, 1, 9)[0] == 0);
    CHECK(seen(80, 0, 64, 10, 1) == Box{64, 80, 10, 0});
    CHECK(seen(80, 800, 64, 10, 3) == Box{64, 80, 30, 800});
    CHECK(seen(80, 900, 64, 10, 3) == Box{64, 80, 10, 900});
    CHECK(seen(64, 128, 64, 1, 9) == Box{64, 128, 9, 128});
    constexpr std::size_t far = std::size_t{3} << 30;  // is more than a pitch may be
    CHECK(seen(64, far, 64, 1, 4) == Box{64, 64, 1, far});
}

TEST_CASE("pm staged copy: of two threads at once, one leaves the copy to the runtime") {
    if (no_device()) return;
    StagingLane lane(0, kBlock);
    const auto stream = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), 2 * kAllBlocks);
    const pm::Buffer unused(device_resource(), 1);
    const Bytes from = pattern(2 * kAllBlocks, 4);
    const Gate gate(stream);
    std::thread first([&] {
        while (!to_device(lane, at(buffer, 0), from.data(), from.size(), stream)) std::this_thread::yield();
    });
    const unsigned char byte = 1;
    CHECK(eventually([&] { return !try_to_device(lane, at(unused, 0), &byte, 1, other, 1); }));
    CHECK_FALSE(gate.is_open());
    gate.open();
    first.join();
    stream->synchronize();
    other->synchronize();  // until the lane is taken, it carries the byte as well
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
        const auto kind = each->kind();
        const bool is_of_device =
            kind == pm::ResourceKind::Device || kind == pm::ResourceKind::Async || kind == pm::ResourceKind::Virtual;
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
    const std::size_t size = 2 * StagingLane::kBlocks * StagingLane::kBlockBytes + 4097;
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
    REQUIRE(eventually([&] { return carry(target, source, *stream); }));
    stream->synchronize();
    CHECK(get(target) == Bytes(size, 7));
}

TEST_CASE("pm staged copy: one stream's copy does not wait for another stream's work") {
    if (no_device()) return;
    const auto held = pm::Stream::create(0);
    const auto free = pm::Stream::create(0);
    const pm::Buffer targets[] = {pm::Buffer(device_resource(), kAllBlocks), pm::Buffer(device_resource(), kAllBlocks)};
    Bytes from = pattern(kAllBlocks, 8);
    const Gate gate(held);
    std::thread first([&] {
        while (!carry(targets[0], from, *held)) std::this_thread::yield();
    });
    REQUIRE(eventually([&] { return carry(targets[1], from, *free); }));
    free->synchronize();
    CHECK_FALSE(gate.is_open());
    gate.open();
    first.join();
    held->synchronize();
    CHECK(get(targets[0]) == from);
    CHECK(get(targets[1]) == from);
}

TEST_CASE("pm staged copy: rows go between any pitches, and nothing between them is touched") {
    if (no_device()) return;
    StagingLane lane(0, kBlock);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), 8 * MiB, stream);
    struct Box {
        std::size_t width, height, depth, there, here, rows_there, rows_here;
    };
    // Many blocks, rows that fill a block, slices that end within a block, one row, one byte wide.
    const Box boxes[] = {{1000, 900, 3, 1024, 1100, 1000, 900},
                         {kBlock, 7, 1, kBlock + 64, kBlock, 7, 7},
                         {333, 100, 40, 512, 333, 130, 101},
                         {100'000, 1, 1, 100'000, 100'000, 1, 1},
                         {1, 200, 50, 3, 2, 201, 250}};
    for (const Box& box : boxes) {
        CAPTURE(box.width);
        const std::size_t slice_there = box.there * box.rows_there, slice_here = box.here * box.rows_here;
        const std::size_t nbytes = box.width * box.height * box.depth;
        const std::size_t counts[] = {box.depth, box.height};
        const std::ptrdiff_t strides[] = {static_cast<std::ptrdiff_t>(slice_here),
                                          static_cast<std::ptrdiff_t>(box.here)};
        const pm::detail::DeviceBox device{at(buffer, 5), box.width, box.there, box.height, slice_there};
        Bytes from = pattern(slice_here * box.depth, 3), to(from.size(), 0xdd);
        pm::fill(pm::Span::of(buffer), 0xee, stream);
        REQUIRE(eventually([&] {
            return lane.to_device(device, {from.data(), box.width, 2, counts, strides}, nbytes, stream->handle(),
                                  kThreads);
        }));
        REQUIRE(eventually([&] {
            return lane.to_host({to.data(), box.width, 2, counts, strides}, device, nbytes, stream->handle(), kThreads);
        }));
        Bytes there(8 * MiB, 0xee), here(from.size(), 0xdd);
        for (std::size_t z = 0; z < box.depth; ++z) {
            for (std::size_t y = 0; y < box.height; ++y) {
                const unsigned char* const row = from.data() + z * slice_here + y * box.here;
                std::copy_n(row, box.width, there.data() + 5 + z * slice_there + y * box.there);
                std::copy_n(row, box.width, here.data() + z * slice_here + y * box.here);
            }
        }
        CHECK(to == here);
        stream->synchronize();
        CHECK(get(buffer) == there);
    }
    const pm::detail::DeviceBox wide{at(buffer, 0), kBlock + 1, kBlock + 1, 2, 0};
    Bytes from(2 * kBlock + 2);
    CHECK_FALSE(lane.to_device(wide, {from.data(), from.size(), 0, nullptr, nullptr}, from.size(), stream->handle(),
                               kThreads));  // a row is larger than a block
}

TEST_CASE("pm staged copy: boxes of many megabytes arrive whole, whichever way they go") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    constexpr std::size_t width = 4000, height = 600, depth = 3, pitch = 4096, rows = 610;
    const pm::Buffer buffer(device_resource(), pitch * rows * depth, stream);
    Bytes from = pattern(width * height * depth, 6), to(from.size());
    pm::Box3D box{width, height, depth, pitch, width, rows, height};
    pm::copy_3d(pm::Span::of(buffer), pm::Span::host(from.data(), from.size()), box, stream)->synchronize();
    std::swap(box.dst_pitch, box.src_pitch);
    std::swap(box.dst_rows, box.src_rows);
    pm::copy_3d(pm::Span::host(to.data(), to.size()), pm::Span::of(buffer), box, stream)->synchronize();
    CHECK(to == from);
    const pm::Rows2D out{width, height, width, pitch};
    std::fill(to.begin(), to.end(), static_cast<unsigned char>(0));
    pm::copy_2d(pm::Span::host(to.data(), width * height), pm::Span::of(buffer), out);
    CHECK(std::equal(to.begin(), to.begin() + width * height, from.begin()));
}
