// SPDX-License-Identifier: MIT
// tests/cpp/pm_latest_events.cpp: events that stand for the operations of a thread on a stream.
#include <thread>

#include "pm_support.hpp"
#include "portamem/detail/latest_events.hpp"

TEST_CASE("pm latest events: of the operations of a thread on a stream the latest event stands for all") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    pm::detail::LatestEvents events;
    const Gate gate(stream);
    std::weak_ptr<pm::Event> first;
    for (int i = 0; i < 3; ++i) {
        const auto event = stream->tail();
        if (i == 0) first = event;
        (void)events.add(*stream, event);
        (void)events.add(*other, other->tail());
    }
    CHECK(first.expired());
    CHECK_FALSE(events.have_happened());
    std::thread([&] { (void)events.add(*stream, stream->tail()); }).join();
    std::size_t kept = 0;
    events.for_each([&](const std::shared_ptr<pm::Event>&) { ++kept; });
    CHECK(kept >= 2);  // of two threads neither event stands for the other
    gate.open();
    stream->synchronize();
    other->synchronize();
    CHECK(events.have_happened());
    CHECK(events.empty());
}

TEST_CASE("pm latest events: of operations on a handle whose end no Stream tells each event stands for its own") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto bare = pm::Stream::from_handle_alone(stream->handle(), 0);
    pm::detail::LatestEvents events;
    std::weak_ptr<pm::Event> first;
    for (int i = 0; i < 2; ++i) {
        const auto event = bare->tail();
        if (i == 0) first = event;
        (void)events.add(*bare, event);
    }
    CHECK_FALSE(first.expired());
    stream->synchronize();
    CHECK(events.have_happened());
}
