// SPDX-License-Identifier: MIT
// tests/cpp/pm_leaving.cpp: memory that work uses goes back behind that work, and no call that queues or asks waits.
#include <thread>

#include "pm_support.hpp"

namespace {

using pm::detail::Leaver;
using pm::detail::Leaving;
constexpr std::size_t kBytes = 4096;

/// A leaver whose state the test sets. It counts the calls that it gets.
class FakeLeaver : public Leaver {
  public:
    struct State {
        std::atomic<bool> has_run{false};
        std::atomic<bool> may_wait{false};
        std::atomic<int> refusals{0};  // of go()
        std::atomic<int> went{0};
        std::atomic<int> went_early{0};
        std::atomic<std::thread::id> thread{};
    };
    explicit FakeLeaver(std::shared_ptr<State> state) : state_(std::move(state)) {}
    bool has_run() noexcept override { return state_->has_run; }
    bool may_wait() const noexcept override { return state_->may_wait; }
    bool go() noexcept override {
        if (!state_->has_run) ++state_->went_early;
        if (state_->refusals-- > 0) return false;
        state_->thread = std::this_thread::get_id();
        ++state_->went;
        return true;
    }

  private:
    const std::shared_ptr<State> state_;
};

/// Adds a fake. It first waits until the leavers of earlier tests are counted as gone, a moment after they went.
std::shared_ptr<FakeLeaver::State> add_fake() {
    REQUIRE(eventually([] { return Leaving::instance().size() == 0; }));
    auto state = std::make_shared<FakeLeaver::State>();
    Leaving::instance().add(std::make_shared<FakeLeaver>(state));
    return state;
}

}  // namespace

TEST_CASE("pm leaving: what goes, goes once, and not before its work has run") {
    const auto state = add_fake();
    (void)Leaving::instance().let_go(Leaving::Caller::Waits);
    CHECK(state->went == 0);
    state->has_run = true;
    CHECK(eventually([&] {
        (void)Leaving::instance().let_go(Leaving::Caller::Waits);
        return state->went == 1;
    }));
    (void)Leaving::instance().let_go(Leaving::Caller::Waits);
    CHECK(state->went == 1);
    CHECK(state->went_early == 0);
}

TEST_CASE("pm leaving: what cannot go is tried again, also where no caller comes") {
    const auto state = add_fake();
    state->refusals = 3;
    state->has_run = true;
    CHECK(eventually([&] { return state->went == 1; }));
}

TEST_CASE("pm leaving: a caller who waits for room waits for nothing where nothing of it is on its way") {
    const auto state = add_fake();
    const std::uint64_t seen = Leaving::gone();
    CHECK_FALSE(Leaving::instance().wait_for_one(seen, [](const Leaver&) { return false; }));
    std::thread other([&] { state->has_run = true; });
    CHECK(Leaving::instance().wait_for_one(seen, [](const Leaver&) { return true; }));
    other.join();
    CHECK(eventually([&] { return state->went == 1; }));
}

TEST_CASE("pm leaving: what may wait for other work goes by the reaper alone") {
    const auto state = add_fake();
    state->may_wait = true;
    state->has_run = true;
    (void)Leaving::instance().let_go(Leaving::Caller::Asks);
    CHECK(eventually([&] { return state->went == 1; }));
    CHECK(state->thread != std::this_thread::get_id());
}

TEST_CASE("pm leaving: calls that queue or ask wait for nothing while dropped memory is in use") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        if (resource->traits().pageable) continue;  // a copy of it waits for its stream
        // There the reaper's Free waits for the gate, and may keep other threads' calls out of the runtime meanwhile.
        if (rt::FreeMayWait && !resource->is_stream_ordered()) continue;
        CAPTURE(pm::to_string(resource->kind()));
        const auto stream = pm::Stream::create(0);
        pm::Buffer x(resource, kBytes, resource->is_stream_ordered() ? stream : nullptr);
        pm::Buffer y(device_resource(), kBytes);
        const Gate first(stream);
        std::shared_ptr<pm::Event> copied;
        {
            const pm::Buffer source(resource, kBytes, resource->is_stream_ordered() ? stream : nullptr);
            copied = pm::copy(y, source, stream);
        }
        const Gate later(stream);
        first.open();
        REQUIRE(eventually([&] { return copied->has_happened(); }));
        (void)pm::copy(y, x, stream);
        (void)pm::fill(pm::Span::of(y), 1, stream);
        stream->launch_host_func([](void*) {}, nullptr);
        (void)stream->tail();
        x.record_stream(stream);
        x.abandon();
        CHECK(copied->query());
        CHECK_FALSE(stream->query());  // so the gate is shut: no call above has waited for its end
        later.open();
        stream->synchronize();
        CHECK(eventually([&] { return resource->live_buffers() == 0; }));
    }
}

TEST_CASE("pm leaving: memory goes back behind its copy's event, whatever the stream got to do before it was dropped") {
    if (no_device() || rt::FreeMayWait) return;  // there a Free waits for the gate
    const auto stream = pm::Stream::create(0);
    const pm::Buffer target(pinned_resource(), kBytes);
    const auto limited = std::make_shared<pm::LimitingAdaptor>(device_resource(), kBytes);
    pm::Buffer source(limited, kBytes);
    const auto copied = pm::copy(target, source, stream);
    const Gate later(stream);
    source.abandon();
    copied->synchronize();
    CHECK(limited->live_buffers() == 0);
    pm::Buffer(limited, kBytes).close();
    CHECK_FALSE(stream->query());
    later.open();
    stream->synchronize();
}

TEST_CASE("pm leaving: memory whose address the program has goes back behind all that its streams hold") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto resource = device_resource();
    pm::Buffer buffer(resource, kBytes, stream);
    CHECK(buffer.ptr() != nullptr);
    const Gate work(stream);
    buffer.abandon();
    (void)Leaving::instance().let_go(Leaving::Caller::Asks);
    CHECK(resource->live_buffers() == 1);
    work.open();
    CHECK(eventually([&] { return resource->live_buffers() == 0; }));
}

TEST_CASE("pm leaving: an allocation without room waits for memory that was dropped while work uses it") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto limited = std::make_shared<pm::LimitingAdaptor>(device_resource(), kBytes);
    const pm::Buffer target(pinned_resource(), kBytes);
    const Gate work(stream);
    (void)pm::copy(target, pm::Buffer(limited, kBytes), stream);
    work.open_soon();
    pm::Buffer(limited, kBytes).close();
    CHECK(limited->live_buffers() == 0);
}

TEST_CASE("pm leaving: an allocation without room waits for no free that was refused") {
    if (no_device()) return;
    std::atomic<bool> refuses{true};
    const auto upstream = std::make_shared<pm::SystemMemoryResource>(0);
    const auto resource = std::make_shared<pm::CallbackMemoryResource>(
        [&](std::size_t nbytes, const StreamPtr& on) { return upstream->allocate(nbytes, on); },
        [&](void* ptr, std::size_t nbytes, const StreamPtr& on) {
            if (refuses) throw std::domain_error("deallocate says no");
            upstream->deallocate(ptr, nbytes, on);
        },
        pm::CallbackMemoryResource::memory_of(pm::ResourceKind::System, 0));
    const auto limited = std::make_shared<pm::LimitingAdaptor>(resource, kBytes);
    (void)pm::Buffer(limited, kBytes);
    CHECK(limited->live_buffers() == 1);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(pm::Buffer(limited, kBytes), pm::OutOfMemory);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));  // for each it would wait as long
    refuses = false;
    CHECK(eventually([&] { return limited->live_buffers() == 0; }));
}

TEST_CASE("pm leaving: host memory is registered again once the event of its copy was waited for") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer target(device_resource(), kBytes);
    alignas(4096) static char memory[2 * kBytes];
    for (int turn = 0; turn < 3; ++turn) {
        std::shared_ptr<pm::Event> copied;
        {
            const pm::HostRegistration registered(memory, kBytes, 0, rt::HostRegisterDefault, nullptr);
            copied = pm::copy(pm::Span::of(target), pm::Span::of(registered.buffer()), stream);
        }
        copied->synchronize();
        pm::HostRegistration(memory, sizeof memory, 0, rt::HostRegisterDefault, nullptr).close();
    }
}

TEST_CASE("pm leaving: threads that copy, drop, ask and close lose nothing") {
    if (no_device()) return;
    const auto resource = device_resource();
    const auto limited = std::make_shared<pm::LimitingAdaptor>(pinned_resource(), 16 * kBytes);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const auto stream = pm::Stream::create(0);
            for (int i = 0; i < 100; ++i) {
                auto to = std::make_unique<pm::Buffer>(resource, kBytes);
                auto from = std::make_unique<pm::Buffer>(limited, kBytes);
                if ((i + t) % 3 == 0) (void)from->ptr();
                const auto done = pm::copy(*to, *from, stream);
                if (i % 2 == 0) from.reset();
                if (i % 3 == 0) (void)done->query();
                if (i % 5 == 0) done->synchronize();
                if (i % 7 == 0) to->close();
                if (i % 11 == 0) (void)stream->query();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(eventually([&] { return resource->live_buffers() == 0 && limited->live_buffers() == 0; }));
    CHECK(limited->allocated() == 0);
    limited->close();
    resource->close();
}
