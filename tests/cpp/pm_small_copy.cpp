// SPDX-License-Identifier: MIT
// tests/cpp/pm_small_copy.cpp: small copies to ordinary host memory, through pinned blocks.
#include <cstring>
#include <thread>
#include <vector>

#include "pm_support.hpp"
#include "portamem/detail/small_copy.hpp"

using pm::detail::SmallBlocks;
using pm::detail::SmallSources;

namespace {

// The part of a buffer from `offset` on.
pm::Span part(const pm::Buffer& buffer, std::size_t offset, std::size_t nbytes) {
    pm::Span span = pm::Span::of(buffer);
    span.ptr = static_cast<char*>(span.ptr) + offset;
    span.nbytes = nbytes;
    return span;
}

}  // namespace

TEST_CASE("pm small copy: every byte comes, behind the stream's work, and none beside them") {
    if (no_device()) return;
    SmallBlocks blocks(0);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), SmallBlocks::kBlockBytes + 64, stream);
    for (const std::size_t size : {std::size_t{1}, std::size_t{64}, std::size_t{4097}, SmallBlocks::kBlockBytes}) {
        CAPTURE(size);
        const std::size_t offset = size % 61 + 1;
        const Bytes from = pattern(size, 5);
        pm::copy(part(buffer, offset, size), pm::Span::host(const_cast<unsigned char*>(from.data()), size), stream);
        Bytes to(size + 2, 0xdd);
        REQUIRE(pm::detail::carry_small(to.data() + 1, part(buffer, offset, size), *stream, blocks));
        CHECK(std::memcmp(to.data() + 1, from.data(), size) == 0);
        CHECK(to.front() == 0xdd);
        CHECK(to.back() == 0xdd);
    }
}

TEST_CASE("pm small copy: a block serves no other copy while a copy that was left still writes it") {
    if (no_device()) return;
    SmallBlocks blocks(0);
    const auto stream = pm::Stream::create(0);
    const auto resource = device_resource();
    const auto other = pm::Stream::create(0);
    const pm::Buffer theirs(resource, 64, other);
    unsigned char bytes[64] = {};
    {
        const Gate gate(stream);
        {
            const pm::Buffer ours(resource, 64, stream);
            pm::fill(pm::Span::of(ours), 7, stream);
            const HeardInWaits heard;
            for (std::size_t i = 0; i < SmallBlocks::kBlocks - 1; ++i)
                CHECK_THROWS_AS(pm::detail::carry_small(bytes, pm::Span::of(ours), *stream, blocks), Heard);
        }
        CHECK(resource->live_buffers() == 2);  // the copies that were left keep their memory
        pm::fill(pm::Span::of(theirs), 3, other);
        for (int i = 0; i < 3; ++i) {
            CHECK(pm::detail::carry_small(bytes, pm::Span::of(theirs), *other, blocks));
            CHECK(bytes[63] == 3);
            bytes[63] = 0;
        }
        const HeardInWaits heard;
        CHECK_THROWS_AS(pm::detail::carry_small(bytes, pm::Span::of(theirs), *stream, blocks), Heard);
        CHECK_FALSE(pm::detail::carry_small(bytes, pm::Span::of(theirs), *other, blocks));
    }
    stream->synchronize();
    CHECK(eventually([&] { return resource->live_buffers() == 1; }));
    CHECK(pm::detail::carry_small(bytes, pm::Span::of(theirs), *other, blocks));
    CHECK(bytes[63] == 3);
}

TEST_CASE("pm small copy: threads that copy at once have their own bytes") {
    if (no_device()) return;
    SmallBlocks blocks(0);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (unsigned char number = 1; number <= 2 * SmallBlocks::kBlocks; ++number) {
        threads.emplace_back([&, number] {
            const auto stream = pm::Stream::create(0);
            const pm::Buffer buffer(device_resource(), 4096, stream);
            pm::fill(pm::Span::of(buffer), number, stream);
            for (int i = 0; i < 20; ++i) {
                Bytes bytes(4096, 0);
                if (!pm::detail::carry_small(bytes.data(), pm::Span::of(buffer), *stream, blocks)) continue;
                for (const unsigned char byte : bytes) wrong += byte != number;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
}

TEST_CASE("pm small copy: a source that the call reads while work is held up is let go at once") {
    if (no_device()) return;
    const bool reads_at_once =
        pm::rt::StagedAtOnce >= 4096 && pm::detail::stages_copies() && !SmallSources::of(0).kernels_reach_host();
    if (!reads_at_once) return;  // elsewhere the call waits for that work
    const auto stream = pm::Stream::create(0);
    const pm::Buffer target(device_resource(), MiB, stream);
    const Gate gate(stream);
    std::weak_ptr<Bytes> left;
    {
        const auto bytes = std::make_shared<Bytes>(pattern(4096, 3));
        left = bytes;
        pm::copy(part(target, 0, 4096), pm::Span::host(bytes->data(), 4096, bytes), stream);
    }
    CHECK(left.expired());
    CHECK_FALSE(gate.is_open());
    gate.open();
    stream->synchronize();
    Bytes back(4096);
    pm::copy(pm::Span::host(back.data(), back.size()), part(target, 0, 4096));
    CHECK(back == pattern(4096, 3));
}

TEST_CASE("pm small copy: room for sources is used again once the copies from it have run, and not before") {
    if (no_device()) return;
    SmallSources sources(0);
    const auto stream = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    constexpr std::size_t kSize = SmallSources::kBlockBytes / 4;
    constexpr std::size_t kRooms = 4 * SmallSources::kBlocks;
    const pm::Buffer target(device_resource(), kRooms * kSize, stream);
    const auto copy = [&](std::size_t number, const StreamPtr& on) {
        const Bytes from = pattern(kSize, static_cast<unsigned>(number));
        const pm::Span src = pm::Span::host(const_cast<unsigned char*>(from.data()), kSize);
        SmallSources::Room room(sources, kSize);
        if (room.memory() == nullptr) return false;
        pm::detail::submit_small(part(target, number * kSize, kSize), src, room, *on);
        room.leave_to(*on, on->tail());
        return true;
    };
    for (int round = 0; round < 2; ++round) {
        const Gate gate(stream);
        for (std::size_t i = 0; i < kRooms; ++i) CHECK(copy(i, i % 4 == 3 ? stream : other));
        other->synchronize();
        CHECK_FALSE(copy(0, other));  // one copy of each block is behind the gate
        gate.open();
        stream->synchronize();
        CHECK(copy(0, other));
        other->synchronize();
        for (std::size_t i = 1; i < 4; ++i) CHECK(copy(i, other));  // fills the block, for the next round
        other->synchronize();
        for (std::size_t i = 0; i < kRooms; ++i) {
            CAPTURE(i);
            Bytes back(kSize);
            pm::copy(pm::Span::host(back.data(), kSize), part(target, i * kSize, kSize));
            CHECK(back == pattern(kSize, static_cast<unsigned>(i)));
        }
    }
}

TEST_CASE("pm small copy: room that no copy took is free at once, and larger room than a block is none") {
    if (no_device()) return;
    SmallSources sources(0);
    for (std::size_t i = 0; i < 3 * SmallSources::kBlocks; ++i)
        CHECK(SmallSources::Room(sources, SmallSources::kBlockBytes).memory() != nullptr);
    CHECK(SmallSources::Room(sources, SmallSources::kBlockBytes + 1).memory() == nullptr);
}

TEST_CASE("pm small copy: an event that the program records again still stands behind the copy") {
    if (no_device()) return;
    SmallSources sources(0);
    const auto stream = pm::Stream::create(0);
    const auto idle = pm::Stream::create(0);
    const Gate gate(stream);
    std::vector<std::shared_ptr<pm::Event>> events;
    for (std::size_t i = 0; i < SmallSources::kBlocks; ++i) {
        SmallSources::Room room(sources, SmallSources::kBlockBytes);
        REQUIRE(room.memory() != nullptr);
        events.push_back(pm::Event::create(0));
        stream->record(*events.back());
        room.leave_to(*stream, events.back());
    }
    idle->begin_capture(pm::rt::StreamCaptureMode::Relaxed);
    idle->record(*events[0]);
    idle->end_capture();
    for (std::size_t i = 1; i < events.size(); ++i) idle->record(*events[i]);
    idle->synchronize();
    CHECK(SmallSources::Room(sources, 64).memory() == nullptr);
    gate.open();
    stream->synchronize();
    for (std::size_t i = 0; i < 2 * SmallSources::kBlocks; ++i)
        CHECK(SmallSources::Room(sources, SmallSources::kBlockBytes).memory() != nullptr);
}
