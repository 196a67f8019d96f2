// SPDX-License-Identifier: MIT
// tests/cpp/pm_waits.cpp: waits of a thread that hears something else meanwhile, and what they leave behind.
#include "pm_support.hpp"

namespace detail = pm::detail;

TEST_CASE("pm waits: streams, events and copies end by what is heard, and can be waited for again") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    pm::Buffer buffer(device_resource(), 64, stream);
    char bytes[64] = {};
    {
        const Gate gate(stream);
        pm::fill(pm::Span::of(buffer), 3, stream);
        const auto event = pm::Event::create(0);
        stream->record(*event);
        const HeardInWaits heard;
        CHECK_THROWS_AS(stream->synchronize(), Heard);
        CHECK_THROWS_AS(event->synchronize(), Heard);
        CHECK_THROWS_AS(pm::copy(pm::Span::host(bytes, sizeof bytes), pm::Span::of(buffer)), Heard);
        CHECK_THROWS_AS(buffer.close(), Heard);
        CHECK_FALSE(buffer.is_closed());
        CHECK(bytes[0] == 0);
        CHECK_FALSE(gate.is_open());
    }
    stream->synchronize();
    pm::copy(pm::Span::host(bytes, sizeof bytes), pm::Span::of(buffer));
    CHECK(bytes[63] == 3);
    buffer.close();
}

TEST_CASE("pm waits: without the hearing, and in destructors, nothing is heard") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const HeardInWaits heard;
    const detail::HearingScope deaf(detail::Hearing::Dropping);
    const Gate gate(stream);
    gate.open_soon();
    stream->synchronize();
    CHECK(gate.is_open());
}

TEST_CASE("pm waits: memory that would be waited for at once goes back later") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto resource = device_resource();
    {
        const Gate gate(stream);
        std::optional<pm::Buffer> buffer(std::in_place, resource, 64, stream);
        pm::fill(pm::Span::of(*buffer), 3, stream);
        {
            const detail::HearingScope leaving(detail::Hearing::AtOnce);
            buffer.reset();
        }
        CHECK_FALSE(gate.is_open());
        CHECK(resource->live_buffers() == 1);
    }
    CHECK(eventually([&] { return resource->live_buffers() == 0; }));
}
