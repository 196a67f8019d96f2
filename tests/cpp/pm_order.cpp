// SPDX-License-Identifier: MIT
// tests/cpp/pm_order.cpp: memory in use by a stream: kept alive by copies, given back behind declared work.
#include "pm_support.hpp"

namespace {

constexpr std::size_t kBytes = 64 << 10;

}  // namespace

TEST_CASE("pm order: a copy keeps both ends alive until it has happened") {
    if (no_device()) return;
    const auto pinned = pinned_resource();
    const auto device = device_resource();
    const auto stream = pm::Stream::create(0);
    pm::Buffer result(pinned, kBytes);
    auto source = std::make_unique<pm::Buffer>(pinned, kBytes);
    auto target = std::make_unique<pm::Buffer>(device, kBytes);
    put(*source, 8);
    const Gate gate(stream);
    pm::copy(*target, *source, stream);
    const auto done = pm::copy(result, *target, stream);
    source.reset();
    target.reset();
    CHECK(pinned->live_buffers() == 2);
    CHECK(device->live_buffers() == 1);
    CHECK_FALSE(done->query());
    gate.open();
    done->synchronize();
    CHECK(get(result) == pattern(kBytes, 8));
    stream->drain();
    CHECK(eventually([&] { return pinned->live_buffers() == 1 && device->live_buffers() == 0; }));
}

TEST_CASE("pm order: a copy keeps host memory of others alive") {
    if (no_device()) return;
    const pm::Buffer target(device_resource(), kBytes);
    const auto stream = pm::Stream::create(0);
    auto bytes = std::make_shared<Bytes>(pattern(kBytes, 5));
    const std::weak_ptr<Bytes> watch = bytes;
    pm::copy(pm::Span::of(target), pm::Span::host(bytes->data(), kBytes, bytes), stream);
    bytes.reset();
    stream->synchronize();
    CHECK(get(target) == pattern(kBytes, 5));
    CHECK(eventually([&] { return watch.expired(); }));
}

TEST_CASE("pm order: memory that is not stream-ordered is freed when declared work has run") {
    if (no_device()) return;
    enum class Held { ItsOwnStream, ADeclaredStream, TheStreamOfClose };
    for (const Held held : {Held::ItsOwnStream, Held::ADeclaredStream, Held::TheStreamOfClose}) {
        for (const Resource& resource : every_resource()) {
            if (resource->is_stream_ordered()) continue;
            CAPTURE(std::string(pm::to_string(resource->kind())));
            CAPTURE(static_cast<int>(held));
            const auto home = pm::Stream::create(0);
            const auto other = pm::Stream::create(0);
            pm::Buffer buffer(resource, kBytes, home);
            const Gate gate(held == Held::ItsOwnStream ? home : other);
            if (held == Held::ADeclaredStream) buffer.record_stream(other);
            gate.open_soon();
            buffer.close(held == Held::TheStreamOfClose ? other : nullptr);
            CHECK(gate.is_open());
            CHECK(resource->live_buffers() == 0);
        }
    }
}

TEST_CASE("pm order: stream-ordered memory goes back behind declared work, and the host does not wait" *
          ends_a_held_stream()) {
    if (no_device() || !has_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto home = pm::Stream::create(0);
    const auto user = pm::Stream::create(0);
    pm::Buffer buffer(pool, kBytes, home);
    home->synchronize();
    const Gate gate(user);
    buffer.record_stream(user);
    buffer.record_stream(user);
    SUBCASE("closed") { buffer.close(); }
    SUBCASE("destroyed") { buffer.abandon(); }
    SUBCASE("closed after the stream that was declared") {
        user->close();
        buffer.close();
    }
    CHECK(pool->live_buffers() == 0);
    CHECK_FALSE(home->query());
    gate.open();
    home->synchronize();
    CHECK(pool->get(rt::MemPoolAttr::UsedMemCurrent) == 0);
}

TEST_CASE("pm order: a declared stream is ordered behind what its memory's own stream holds") {
    if (no_device() || !has_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto home = pm::Stream::create(0);
    const auto user = pm::Stream::create(0);
    pm::Buffer buffer(pool, kBytes, home);
    const Gate gate(home);
    buffer.record_stream(user);
    CHECK_FALSE(user->query());
    gate.open();
    user->synchronize();
    CHECK_THROWS_AS(
        [&] {
            const auto closed = pm::Stream::create(0);
            closed->close();
            buffer.record_stream(closed);
        }(),
        std::invalid_argument);
}

TEST_CASE("pm order: a stream may be closed before its buffers" * ends_a_held_stream()) {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const auto stream = pm::Stream::create(0);
        pm::Buffer buffer(resource, kBytes, stream);
        put(buffer, 6);
        const Gate gate(stream);
        stream->close();
        gate.open_soon();
        CHECK(get(buffer) == pattern(kBytes, 6));
        CHECK(gate.is_open());
        buffer.close();
        CHECK(resource->live_buffers() == 0);
    }
    pm::Device(0).synchronize();
}

TEST_CASE("pm order: a blocking copy runs behind everything that was declared") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kBytes);
    put(buffer, 1);
    const Gate gate(stream);
    pm::fill(pm::Span::of(buffer), 77, stream);
    gate.open_soon();
    CHECK(get(buffer) == Bytes(kBytes, 77));
    CHECK(gate.is_open());
}

TEST_CASE("pm order: somebody else's memory is let go after declared work only") {
    if (no_device()) return;
    pm::Buffer theirs(device_resource(), kBytes);
    const auto stream = pm::Stream::create(0);
    auto owner = std::make_shared<int>(0);
    const std::weak_ptr<int> watch = owner;
    auto buffer =
        pm::Buffer::from_handle(theirs.ptr(), kBytes, pm::Stream::default_stream(0), theirs.traits(), std::move(owner));
    CHECK_THROWS_AS(buffer.release(), std::invalid_argument);
    CHECK(buffer.resource() == nullptr);
    const Gate gate(stream);
    pm::fill(pm::Span::of(buffer), 3, stream);
    SUBCASE("closed") { buffer.close(); }
    SUBCASE("destroyed") { buffer.abandon(); }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(watch.expired());
    gate.open();
    CHECK(eventually([&] { return watch.expired(); }));
    CHECK(get(theirs) == Bytes(kBytes, 3));
}

TEST_CASE("pm order: memory used on another thread's own stream is waited for" * ends_a_held_stream()) {
    if (no_device()) return;
    const auto resource = device_resource();
    pm::Buffer buffer(resource, kBytes);
    const Gate gate;
    std::thread([&] {
        const auto own = pm::Stream::per_thread(0);
        gate.hold(own);
        pm::fill(pm::Span::of(buffer), 9, own);
    }).join();
    gate.open_soon();
    CHECK(get(buffer) == Bytes(kBytes, 9));
    CHECK(gate.is_open());
    buffer.close();
}
