// SPDX-License-Identifier: MIT
// tests/cpp/pm_fork.cpp: in a forked child every call refuses in words, and what was inherited leaks in silence.
#include <functional>

#include "forked_child.hpp"
#include "pm_support.hpp"

namespace {

bool says_forked(const std::function<void()>& call) {
    try {
        call();
    } catch (const pm::Error& e) {
        return e.name() == "Forked" && contains(e.what(), "spawn");
    }
    return false;
}

}  // namespace

TEST_CASE("pm fork: every call refuses by name") {
    if (no_device()) return;
    const auto resource = device_resource();
    const auto stream = pm::Stream::create(0);
    const auto event = pm::Event::create(0);
    const pm::Device device(0);
    pm::Buffer buffer(resource, 4096);
    pm::Buffer spare(resource, 16);
    const pm::Buffer host(pinned_resource(), 4096);
    const auto pool = pm::PoolMemoryResource::create(resource);
    const auto fixed = std::make_shared<pm::FixedSizeMemoryResource>(resource, 256);
    const auto monotonic = std::make_shared<pm::MonotonicMemoryResource>(resource, 4096);
    const auto limited = std::make_shared<pm::LimitingAdaptor>(pool, MiB);
    const auto counted = pm::StatisticsAdaptor::create(resource);
    std::vector<std::function<void()>> calls = {
        [] { (void)pm::device_count(); },
        [] { (void)pm::current_device(); },
        [] { (void)pm::Device(0); },
        [&] { device.synchronize(); },
        [&] { (void)device.memory_info(); },
        [&] { device.set_current(); },
        [&] { (void)device.capabilities(); },
        [&] { (void)pm::probe(device); },
        [&] { (void)pm::quirks(device); },
        [] { (void)pm::Stream::create(0); },
        [&] { stream->synchronize(); },
        [&] { stream->query(); },
        [&] { stream->wait(*event); },
        [&] { stream->record(*event); },
        [&] { stream->close(); },
        [&] { stream->begin_capture(rt::StreamCaptureMode::Relaxed); },
        [] { (void)pm::Event::create(0); },
        [&] { event->synchronize(); },
        [&] { event->query(); },
        [] { (void)device_resource(); },
        [&] { pm::Buffer(resource, 16); },
        [&] { spare.close(); },
        [&] { resource->close(); },
        [&] { buffer.record_stream(stream); },
        [&] { pm::copy(host, buffer); },
        [&] { pm::fill(pm::Span::of(buffer), 1, stream); },
        [&] { (void)pm::pointer_info(buffer.ptr()); },
        [&] { (void)pm::resource_of(buffer.ptr()); },
        [&] { (void)pm::size_of(buffer.ptr()); },
        [&] { (void)pm::block_of(buffer.ptr()); },
        [&] { pm::deallocate(buffer.ptr(), stream); },
        [&] { pm::deallocate(buffer.ptr(), rt::Stream_t{}); },
        [] { (void)pm::current_resource(0); },
        [&] { pm::push_resource(resource); },
        [&] { pm::HostRegistration(&spare, 16, 0, 0, nullptr); },
        [&] { (void)pool->stats(); },
        [&] { (void)pool->cached(); },
        [&] { (void)fixed->cached(); },
        [&] { (void)fixed->reserved(); },
        [&] { (void)monotonic->cached(); },
        [&] { (void)monotonic->reserved(); },
        [&] { (void)limited->cached(); },
        [&] { counted->reset_peak(); },
    };
    if (device.capabilities().memory_pools) {
        const auto async = pm::AsyncMemoryResource::create(0);
        calls.emplace_back([async] { (void)async->cached(); });
        calls.emplace_back([async] { (void)async->access(0); });
        calls.emplace_back([async] { async->set_access(0, rt::MemAccessFlags::ReadWrite); });
    }
    if (device.capabilities().virtual_memory) {
        const auto mapped = pm::VirtualMemoryResource::create(0);
        calls.emplace_back([mapped] { (void)mapped->access(0); });
        calls.emplace_back([mapped] { mapped->set_access(0, rt::MemAccessFlags::ReadWrite); });
    }
    const int first_wrong = answer_of_forked_child([&] {
        for (std::size_t i = 0; i < calls.size(); ++i) {
            if (!says_forked(calls[i])) return static_cast<int>(i) + 1;
        }
        return 0;
    });
    CHECK(first_wrong == 0);
    put(buffer, 1);
    CHECK(get(buffer) == pattern(4096, 1));
}

TEST_CASE("pm fork: inherited objects leak in silence, whatever the parent was doing") {
    if (no_device()) return;
    const auto resource = device_resource();
    auto stream = pm::Stream::create(0);
    pm::Buffer buffer(resource, 4096, stream);
    auto event = stream->tail();
    const Gate gate(stream);
    pm::fill(pm::Span::of(buffer), 3, stream);
    CHECK(answer_of_forked_child([&] {
              buffer.abandon();
              event.reset();
              stream.reset();
              return 0;
          }) == 0);
    CHECK(resource->live_buffers() == 1);
    gate.open();
    stream->synchronize();
    CHECK(get(buffer) == Bytes(4096, 3));
}

TEST_CASE("pm fork: a child does not wait for threads that it does not have") {
    if (no_device()) return;
    const auto resource = device_resource();
    const pm::Buffer buffer(resource, 16);
    std::atomic<bool> running{false};
    std::atomic<bool> leave{false};
    pm::Reaper::instance().add([&] {
        running = true;
        return eventually([&] { return leave.load(); });
    });
    REQUIRE(eventually([&] { return running.load(); }));
    const int answer = answer_of_forked_child([&] { return says_forked([&] { resource->close(); }) ? 0 : 1; });
    leave = true;
    CHECK(answer == 0);
    pm::Reaper::instance().run_once();  // the chore refers to this frame
}

TEST_CASE("pm fork: a child reads what a wait has shown to have run, and no memory of later work") {
    if (no_device()) return;
    const auto resource = std::make_shared<pm::PinnedMemoryResource>(0);
    const auto stream = pm::Stream::create(0);
    const auto own = pm::Stream::create(0);
    const pm::Device device(0);
    const pm::Buffer here(resource, 4096, stream);
    const pm::Buffer elsewhere(resource, 4096, own);
    const pm::Buffer later(resource, 4096, stream);
    for (const bool by_device : {false, true}) {
        pm::fill(pm::Span::of(here), 3, stream);
        const auto done = pm::fill(pm::Span::of(elsewhere), 3, stream);
        if (by_device) {
            device.synchronize();
        } else {
            done->synchronize();
        }
        Gate gate(stream);
        pm::fill(pm::Span::of(later), 3, stream);
        CHECK(answer_of_forked_child([&] {
                  here.allocation()->synchronize_declared();
                  elsewhere.allocation()->synchronize_declared();
                  return says_forked([&] { later.allocation()->synchronize_declared(); }) ? 0 : 1;
              }) == 0);
        gate.open();
        stream->synchronize();
    }
}

TEST_CASE("pm fork: what is asked before the fork needs no wait; a mark that is set again stands for nothing before") {
    if (no_device()) return;
    const auto resource = std::make_shared<pm::PinnedMemoryResource>(0);
    const auto stream = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    const pm::Buffer buffer(resource, 4096, stream);
    const auto reads = [&] {
        return answer_of_forked_child(
            [&] { return says_forked([&] { buffer.allocation()->synchronize_declared(); }) ? 1 : 0; });
    };
    const auto event = pm::Event::create(0);
    {
        const Gate gate(stream);
        pm::fill(pm::Span::of(buffer), 3, stream);
        stream->record(*event);
        other->record(*event);
        event->synchronize();
        pm::detail::note_what_has_run();
        CHECK(reads() == 1);
    }
    CHECK(eventually([&] { return stream->is_idle(); }));
    CHECK(reads() == 1);
    pm::detail::note_what_has_run();
    CHECK(reads() == 0);
}
