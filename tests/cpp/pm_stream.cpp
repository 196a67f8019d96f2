// SPDX-License-Identifier: MIT
// tests/cpp/pm_stream.cpp: in-order queues of work, their identity and their end.
#include <set>
#include <thread>

#include "pm_support.hpp"

namespace {

void add_one(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

// Closes the stream once another thread has begun to do something `times` times; answers what that was refused.
template <class Step>
std::string refused_while_closing(pm::Stream& closing, std::size_t times, Step step) {
    std::atomic<bool> begun{false};
    std::string refused;
    std::thread other([&] {
        try {
            for (std::size_t i = 0; i < times; ++i) {
                step(i);
                begun = true;
            }
        } catch (const std::exception& e) {
            refused = e.what();
        }
        begun = true;
    });
    while (!begun) std::this_thread::yield();
    closing.close();
    other.join();
    return refused;
}

}  // namespace

TEST_CASE("pm stream: work waits its turn, and the host does not") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    std::atomic<int> done{0};
    const Gate gate(stream);
    stream->launch_host_func(add_one, &done);
    CHECK_FALSE(stream->query());
    CHECK(done == 0);
    gate.open_soon();
    stream->synchronize();
    CHECK(gate.is_open());
    CHECK(done == 1);
    CHECK(stream->query());
}

TEST_CASE("pm stream: one waits for what another holds now, not for what comes later") {
    if (no_device()) return;
    const auto first = pm::Stream::create(0);
    const auto second = pm::Stream::create(0);
    std::atomic<int> done{0};
    const Gate gate(first);
    second->wait(*first);
    second->launch_host_func(add_one, &done);
    CHECK_FALSE(second->query());
    CHECK(done == 0);
    gate.open();
    second->synchronize();
    CHECK(done == 1);
    second->wait(*second);
    const Gate later(first);
    second->synchronize();
    CHECK_FALSE(later.is_open());
}

TEST_CASE("pm stream: the default stream orders against blocking streams only") {
    if (no_device()) return;
    const auto legacy = pm::Stream::default_stream(0);
    const auto blocking = pm::Stream::create(0, rt::StreamDefault);
    const auto free = pm::Stream::create(0);
    CHECK_FALSE(blocking->is_nonblocking());
    CHECK(free->is_nonblocking());
    std::atomic<int> done{0};
    const Gate gate(blocking);
    legacy->launch_host_func(add_one, &done);
    free->synchronize();
    CHECK(done == 0);
    CHECK_FALSE(legacy->query());
    gate.open();
    legacy->synchronize();
    CHECK(done == 1);
}

TEST_CASE("pm stream: what was submitted runs after close, and a closed stream is refused in words" *
          ends_a_held_stream()) {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    std::atomic<int> done{0};
    const Gate gate(stream);
    stream->launch_host_func(add_one, &done);
    stream->close();
    CHECK(stream->is_closed());
    CHECK(done == 0);
    stream->close();
    CHECK(contains(refusal<std::invalid_argument>([&] { (void)stream->handle(); }), "closed"));
    CHECK_THROWS_AS(stream->synchronize(), std::invalid_argument);
    CHECK_THROWS_AS(stream->query(), std::invalid_argument);
    CHECK_THROWS_AS(stream->launch_host_func(add_one, &done), std::invalid_argument);
    const auto last = stream->tail();
    REQUIRE(last != nullptr);
    CHECK_FALSE(last->query());
    gate.open();
    last->synchronize();
    CHECK(done == 1);
}

TEST_CASE("pm stream: default streams belong to their device") {
    if (no_device()) return;
    const auto legacy = pm::Stream::default_stream(0);
    CHECK(legacy == pm::Stream::default_stream(0));
    CHECK(legacy->is_default());
    CHECK_FALSE(legacy->is_nonblocking());
    CHECK_THROWS_AS(legacy->close(), std::invalid_argument);
    const auto own = pm::Stream::per_thread(0);
    CHECK(own == pm::Stream::per_thread(0));
    CHECK(own != legacy);
    CHECK_THROWS_AS(own->close(), std::invalid_argument);
    StreamPtr theirs;
    std::thread([&] { theirs = pm::Stream::per_thread(0); }).join();
    CHECK(theirs != own);
}

TEST_CASE("pm stream: reserved handles are the default streams") {
    if (no_device()) return;
    const auto of = [](std::uintptr_t value) {
        return pm::Stream::from_handle(reinterpret_cast<rt::Stream_t>(value), 0);
    };
    CHECK(of(0) == pm::Stream::default_stream(0));
    CHECK(of(1) == pm::Stream::default_stream(0));
    CHECK(of(2) == pm::Stream::per_thread(0));
    CHECK(pm::Stream::from_handle(rt::StreamLegacy(), 0) == pm::Stream::default_stream(0));
    CHECK(pm::Stream::from_handle(rt::StreamPerThread(), 0) == pm::Stream::per_thread(0));
}

TEST_CASE("pm stream: somebody else's is kept alive and never destroyed") {
    if (no_device()) return;
    const TestStream theirs;
    const auto owner = std::make_shared<int>(0);
    auto stream = pm::Stream::from_handle(theirs.handle, 0, owner);
    std::atomic<int> done{0};
    stream->launch_host_func(add_one, &done);
    stream->synchronize();
    CHECK(done == 1);
    CHECK(owner.use_count() == 2);
    stream->close();
    CHECK(owner.use_count() == 1);
    CHECK(rt::StreamQuery(theirs.handle) == Success);
    stream = pm::Stream::from_handle(theirs.handle, 0, owner);
    stream.reset();
    CHECK(owner.use_count() == 1);
    CHECK(rt::StreamQuery(theirs.handle) == Success);
}

TEST_CASE("pm stream: an owner that is let go may ask the stream") {
    if (no_device()) return;
    const TestStream theirs;
    bool asked = false;
    std::weak_ptr<pm::Stream> watch;
    const auto ask = [&](void*) {
        if (const auto alive = watch.lock()) asked = alive->is_closed();
    };
    const auto stream = pm::Stream::from_handle(theirs.handle, 0, std::shared_ptr<void>(nullptr, ask));
    watch = stream;
    stream->close();
    CHECK(asked);
}

TEST_CASE("pm stream: an identity is never used again, as handles are") {
    if (no_device()) return;
    std::set<std::uint64_t> identities;
    for (int i = 0; i < 20; ++i) CHECK(identities.insert(pm::Stream::create(0)->identity()).second);
    CHECK(identities.count(0) == 0);
}

TEST_CASE("pm stream: a priority out of range is clamped") {
    if (no_device()) return;
    const auto [least, greatest] = pm::Device(0).stream_priority_range();
    CHECK(pm::Stream::create(0, rt::StreamNonBlocking, greatest)->priority() == greatest);
    CHECK(pm::Stream::create(0, rt::StreamNonBlocking, least + 100)->priority() == least);
}

TEST_CASE("pm stream: the mark of a per-thread stream is right whoever asks, also after its thread") {
    if (no_device()) return;
    StreamPtr theirs;
    std::atomic<int> done{0};
    const Gate gate;
    std::thread([&] {
        theirs = pm::Stream::per_thread(0);
        gate.hold(theirs);
        theirs->launch_host_func(add_one, &done);
    }).join();
    // Its own thread is gone, and the system may give that one's id to the next.
    std::thread([&] {
        gate.open_soon();
        if (const auto tail = theirs->tail()) tail->synchronize();
        CHECK(done == 1);
    }).join();
}

TEST_CASE("pm stream: others may wait for it while it is closed") {
    if (no_device()) return;
    for (int round = 0; round < 1500; ++round) {
        const auto closing = pm::Stream::create(0);
        const auto waiting = pm::Stream::create(0);
        const pm::Buffer memory(std::make_shared<pm::DeviceMemoryResource>(0), 256, closing);
        CHECK(refused_while_closing(*closing, 100, [&](std::size_t) {
                  waiting->wait(*closing);
                  memory.allocation()->order_behind_users(*waiting);
              }) == "");
    }
}

TEST_CASE("pm stream: memory goes back on it from another thread while it is closed") {
    if (no_device() || !pm::Device(0).capabilities().memory_pools) return;
    const auto resource = pm::AsyncMemoryResource::create(0);
    for (int round = 0; round < 500; ++round) {
        const auto closing = pm::Stream::create(0);
        std::vector<pm::Buffer> buffers;
        for (int i = 0; i < 100; ++i) buffers.emplace_back(resource, 256, closing);
        CHECK(refused_while_closing(*closing, buffers.size(), [&](std::size_t i) { buffers[i].close(); }) == "");
    }
    CHECK(resource->live_buffers() == 0);
}
