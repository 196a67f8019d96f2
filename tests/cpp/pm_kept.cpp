// SPDX-License-Identifier: MIT
// tests/cpp/pm_kept.cpp: what queued work keeps alive, and the reaper that lets go once no thread calls any more.
#include <thread>

#include "pm_support.hpp"

namespace {

/// A reference whose end can be seen.
struct Tracked {
    std::shared_ptr<int> reference = std::make_shared<int>(0);
    std::weak_ptr<int> watch = reference;

    std::shared_ptr<void> take() { return std::move(reference); }
    bool gone() const { return watch.expired(); }
};

}  // namespace

TEST_CASE("pm kept: references go when their event has happened, in order") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    pm::Kept kept;
    Tracked early;
    Tracked late;
    kept.keep(stream->tail(), {early.take(), nullptr});
    stream->synchronize();
    const Gate gate(stream);
    kept.keep(stream->tail(), {late.take(), nullptr});
    kept.drain();
    CHECK(early.gone());
    CHECK_FALSE(late.gone());
    CHECK_FALSE(kept.empty());
    gate.open();
    stream->synchronize();
    kept.drain();
    CHECK(late.gone());
    CHECK(kept.empty());
}

TEST_CASE("pm kept: what a copy uses stays until it has run, also where its event was recorded again") {
    if (no_device()) return;
    const auto busy = pm::Stream::create(0);
    const auto idle = pm::Stream::create(0);
    const Resource resource = pinned_resource();
    const pm::Buffer target(device_resource(), 256);
    Tracked tracked;
    const Gate gate(busy);
    const auto until = busy->tail();
    busy->keep(until, {tracked.take(), nullptr});
    std::shared_ptr<pm::Event> done;
    {
        const pm::Buffer source(resource, 256);
        done = pm::copy(target, source, busy);
    }
    for (const auto& event : {until, done, done}) {
        idle->record(*event);
        event->synchronize();
        CHECK(event->query());
    }
    busy->drain();
    CHECK(resource->live_buffers() == 1);
    CHECK_FALSE(tracked.gone());
    busy->record(*done);
    CHECK_FALSE(done->query());
    gate.open();
    done->synchronize();
    CHECK(eventually([&] { return resource->live_buffers() == 0 && tracked.gone(); }));
}

TEST_CASE("pm kept: a stream lets go at its own synchronize and query") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    Tracked tracked;
    const Gate gate(stream);
    stream->keep(stream->tail(), {tracked.take(), nullptr});
    CHECK_FALSE(stream->query());
    CHECK_FALSE(tracked.gone());
    gate.open();
    stream->synchronize();
    CHECK(tracked.gone());
}

TEST_CASE("pm kept: synchronize waits for what another thread is letting go, which may synchronize itself") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    std::atomic<bool> begun{false};
    std::atomic<bool> ended{false};
    const auto let_go_slowly = [&](void*) {
        begun = true;
        stream->synchronize();  // no deadlock: a call made while letting go does not wait for that
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ended = true;
    };
    stream->keep(stream->tail(), {std::shared_ptr<void>(nullptr, let_go_slowly), nullptr});
    std::thread other([&] {
        while (!begun) (void)stream->query();  // unless the reaper is first
    });
    while (!begun) std::this_thread::yield();
    stream->synchronize();
    CHECK(ended);
    other.join();
}

TEST_CASE("pm kept: a stream that nobody holds any more still lets go" * ends_a_held_stream()) {
    if (no_device()) return;
    Tracked tracked;
    const Gate gate;
    {
        const auto stream = pm::Stream::create(0);
        gate.hold(stream);
        stream->keep(stream->tail(), {tracked.take(), nullptr});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(tracked.gone());
    gate.open();
    CHECK(eventually([&] { return tracked.gone(); }));
}

TEST_CASE("pm kept: the reaper runs a chore until it is done") {
    if (no_device()) return;
    const auto runs = std::make_shared<std::atomic<int>>(0);
    pm::Reaper::instance().add([runs] { return ++*runs == 3; });
    CHECK(eventually([&] { return *runs == 3; }));
    CHECK(eventually([&] { return runs.use_count() == 1; }));
    CHECK(*runs == 3);
}

TEST_CASE("pm kept: chores run now for those who ask") {
    if (no_device()) return;
    const auto done = std::make_shared<std::atomic<bool>>(false);
    pm::Reaper::instance().add([done] { return done->load(); });
    *done = true;
    pm::Reaper::instance().run_once();
    CHECK(eventually([&] { return done.use_count() == 1; }));
}

TEST_CASE("pm kept: what is let go may close what it owns") {
    if (no_device()) return;
    // The last reference to a library's whole state: memory that lives, and the resource that refuses because of it.
    const auto resource = pinned_resource();
    const auto buffer = std::make_shared<pm::Buffer>(resource, 4096);
    const auto refused = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<void> state(nullptr, [=](void*) {
        try {
            resource->close();
        } catch (const pm::ExportError&) {
            *refused = true;
        }
    });
    pm::Reaper::instance().add([state] { return true; });
    state.reset();
    CHECK(eventually([&] { return refused->load(); }));
    buffer->close();
    resource->close();
}
