// SPDX-License-Identifier: MIT
// tests/cpp/pm_event.cpp: marks in streams.
#include <vector>

#include "pm_support.hpp"

TEST_CASE("pm event: without a mark it is done, and a wait for it is none") {
    if (no_device()) return;
    const auto event = pm::Event::create(0);
    const auto stream = pm::Stream::create(0);
    CHECK(event->device() == 0);
    CHECK(event->query());
    event->synchronize();
    stream->wait(*event);
    stream->synchronize();
}

TEST_CASE("pm event: it is done when the work before its mark has run") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto event = pm::Event::create(0);
    const Gate gate(stream);
    stream->record(*event);
    CHECK_FALSE(event->query());
    gate.open_soon();
    event->synchronize();
    CHECK(gate.is_open());
    CHECK(event->query());
}

TEST_CASE("pm event: recording again moves the mark") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto event = pm::Event::create(0);
    stream->record(*event);
    event->synchronize();
    const Gate gate(stream);
    CHECK(event->query());
    stream->record(*event);
    CHECK_FALSE(event->query());
    gate.open();
    event->synchronize();
}

TEST_CASE("pm event: it may go while a stream still waits for it") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    const Gate gate(stream);
    {
        const auto event = pm::Event::create(0);
        stream->record(*event);
        other->wait(*event);
    }
    CHECK_FALSE(other->query());
    gate.open();
    other->synchronize();
}

TEST_CASE("pm event: time is measured where both ends were made for it") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto start = pm::Event::create(0, rt::EventDefault);
    const auto end = pm::Event::create(0, rt::EventDefault);
    const auto untimed = pm::Event::create(0);
    stream->record(*start);
    const Gate gate(stream);
    stream->record(*end);
    stream->record(*untimed);
    CHECK(contains(refusal<pm::Error>([&] { (void)start->elapsed_time(*end); }), "NotReady"));
    gate.open_soon();
    stream->synchronize();
    CHECK(start->elapsed_time(*end) > 1.0F);
    CHECK(contains(refusal<std::invalid_argument>([&] { (void)start->elapsed_time(*untimed); }), "timing"));
    CHECK(contains(refusal<std::invalid_argument>([&] { (void)untimed->elapsed_time(*end); }), "timing"));
}

TEST_CASE("pm event: somebody else's is used, kept and never destroyed") {
    if (no_device()) return;
    const TestEvent theirs;
    const auto owner = std::make_shared<int>(0);
    const auto stream = pm::Stream::create(0);
    {
        const auto event = pm::Event::from_handle(theirs.handle, 0, owner);
        CHECK(event->handle() == theirs.handle);
        CHECK(owner.use_count() == 2);
        stream->record(*event);
        event->synchronize();
    }
    CHECK(owner.use_count() == 1);
    CHECK(rt::EventQuery(theirs.handle) == Success);
}

TEST_CASE("pm event: one out of use serves a caller that records before anyone asks, and no program") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const Gate gate(stream);
    pm::rt::Event_t left{};
    {
        const auto event = pm::Event::create(0);
        stream->record(*event);
        left = event->handle();
    }
    const auto next = pm::Event::create_to_record(0);
    CHECK(next->handle() == left);
    CHECK(pm::Event::create(0)->query());  // a program's has no mark yet
    const auto idle = pm::Stream::create(0);
    idle->record(*next);
    next->synchronize();
    CHECK_FALSE(gate.is_open());
}

TEST_CASE("pm event: one that measures time, and one of a capture, serve no second time") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    std::vector<pm::rt::Event_t> left;
    {
        const auto timed = pm::Event::create(0, pm::rt::EventDefault);
        stream->record(*timed);
        left.push_back(timed->handle());
        stream->begin_capture(pm::rt::StreamCaptureMode::Relaxed);
        const auto captured = pm::Event::create(0);
        stream->record(*captured);
        left.push_back(captured->handle());
        stream->end_capture();
    }
    std::vector<pm::rt::Event_t> kept;
    auto& spare = pm::detail::SpareEvents::instance();
    while (const pm::rt::Event_t event = spare.take(0)) kept.push_back(event);
    for (const pm::rt::Event_t event : kept) {
        for (const pm::rt::Event_t never : left) CHECK(event != never);
        CHECK(spare.keep(0, event));
    }
}
