// SPDX-License-Identifier: MIT
// tests/cpp/pm_hand_over.cpp: memory handed to streams of others, which may be gone when it goes back.
#include "pm_support.hpp"

namespace {

constexpr std::size_t kBytes = 64 << 10;

// A foreign name for a stream: another object with the same handle.
StreamPtr theirs(const StreamPtr& stream) { return pm::Stream::from_handle(stream->handle(), stream->device()); }

}  // namespace

TEST_CASE("pm hand over: the stream waits for all declared work, and the host does not") {
    if (no_device()) return;
    for (const bool declared_elsewhere : {false, true}) {
        CAPTURE(declared_elsewhere);
        settle();
        const auto home = pm::Stream::create(0);
        const auto other = pm::Stream::create(0);
        const auto consumer = pm::Stream::create(0);
        const pm::Buffer buffer(device_resource(), kBytes, home);
        const pm::Buffer result(pinned_resource(), kBytes, consumer);
        put(buffer, 1);
        const Gate gate(declared_elsewhere ? other : home);
        pm::fill(pm::Span::of(buffer), 5, declared_elsewhere ? other : home);
        buffer.allocation()->hand_over(theirs(consumer));
        CHECK_FALSE(consumer->query());
        pm::copy(result, buffer, consumer);
        gate.open();
        consumer->synchronize();
        CHECK(get(result) == Bytes(kBytes, 5));
    }
    settle();
}

TEST_CASE("pm hand over: a stream that is known by another object does not wait for itself") {
    if (no_device()) return;
    const auto home = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kBytes, home);
    home->begin_capture(rt::StreamCaptureMode::Relaxed);
    buffer.allocation()->hand_over(theirs(home));  // an event of its own would be refused here
    home->end_capture();
}

TEST_CASE("pm hand over: a captured stream is refused where it would have to wait") {
    if (no_device()) return;
    const auto captured = pm::Stream::create(0);
    const auto home = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kBytes, home);
    captured->begin_capture(rt::StreamCaptureMode::Relaxed);
    CHECK_THROWS_AS(buffer.allocation()->hand_over(theirs(captured)), std::invalid_argument);
    CHECK(captured->capture_status() == rt::StreamCaptureStatus::Active);
    captured->end_capture();
}

TEST_CASE("pm hand over: memory goes back behind a borrower's work, also when its stream is gone" *
          ends_a_held_stream()) {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const auto home = pm::Stream::create(0);
        auto consumer = pm::Stream::create(0);
        pm::Buffer buffer(resource, kBytes, home);
        buffer.allocation()->hand_over(theirs(consumer));
        const Gate gate(consumer);
        consumer->close();
        consumer.reset();
        gate.open_soon();
        buffer.close();
        CHECK(gate.is_open());
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm hand over: streams that are declared need no waiting of the host") {
    if (no_device() || !has_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto home = pm::Stream::create(0);
    const auto consumer = pm::Stream::create(0);
    pm::Buffer buffer(pool, kBytes, home);
    buffer.record_stream(consumer);
    buffer.allocation()->hand_over(theirs(consumer));
    buffer.allocation()->hand_over(theirs(home));
    buffer.allocation()->hand_over(pm::Stream::default_stream(0));
    const Gate gate(consumer);
    buffer.close();
    CHECK_FALSE(home->query());
    gate.open();
    home->synchronize();
    CHECK(pool->get(rt::MemPoolAttr::UsedMemCurrent) == 0);
}

TEST_CASE("pm hand over: a default stream counts as declared") {
    if (no_device()) return;
    const auto home = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kBytes, home);
    const auto standing = pm::Stream::default_stream(0);
    buffer.allocation()->hand_over(theirs(standing));
    const Gate gate(standing);
    gate.open_soon();
    buffer.allocation()->synchronize_declared();
    CHECK(gate.is_open());
}

TEST_CASE("pm hand over: the default streams of two devices are two, though they have one handle") {
    if (no_device() || pm::device_count() < 2) return;
    const auto home = pm::Stream::default_stream(0);
    const auto consumer = pm::Stream::default_stream(1);
    const pm::Buffer buffer(pinned_resource(), kBytes, home);
    const Gate gate(home);
    buffer.allocation()->hand_over(consumer);
    CHECK_FALSE(consumer->query());
    gate.open();
    consumer->synchronize();
    CHECK(home->query());
}
