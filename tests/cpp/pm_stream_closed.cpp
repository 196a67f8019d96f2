// SPDX-License-Identifier: MIT
// tests/cpp/pm_stream_closed.cpp: a stream that one thread closes while others call it.
#include <functional>
#include <thread>

#include "pm_support.hpp"

namespace {

constexpr std::size_t kBytes = 4096;

void nothing(void*) {}

// Objects that calls may use beside the stream that is closed.
struct Scene {
    StreamPtr other = pm::Stream::create(0);
    std::shared_ptr<pm::Event> event = pm::Event::create(0);
    std::shared_ptr<pm::Event> recorded = pm::Event::create(0);
    Resource device = device_resource();
    Resource async = has_pools() ? Resource(pm::AsyncMemoryResource::create(0)) : nullptr;
    pm::Buffer a{device, kBytes};
    pm::Buffer b{device, kBytes};
    pm::Buffer pinned{pinned_resource(), kBytes};
    std::shared_ptr<Bytes> plain = std::make_shared<Bytes>(kBytes);

    Scene() { other->record(*recorded); }
};

struct Call {
    const char* name;
    std::function<void(Scene&, const StreamPtr&)> run;
};

std::vector<Call> calls() {
    using pm::Span;
    std::vector<Call> all{
        {"copy", [](Scene& at, const StreamPtr& on) { pm::copy(at.a, at.b, on); }},
        {"copy to plain memory",
         [](Scene& at, const StreamPtr& on) {
             pm::copy(Span::host(at.plain->data(), kBytes, at.plain), Span::of(at.a), on);
         }},
        {"copy_2d",
         [](Scene& at, const StreamPtr& on) {
             pm::copy_2d(Span::of(at.a), Span::of(at.b), {16, 8, 64, 64}, on);
         }},
        {"copy_3d",
         [](Scene& at, const StreamPtr& on) {
             pm::copy_3d(Span::of(at.a), Span::of(at.b), {16, 4, 2, 64, 64, 4, 4}, on);
         }},
        {"fill", [](Scene& at, const StreamPtr& on) { pm::fill(Span::of(at.a), 1, on); }},
        {"fill_2d", [](Scene& at, const StreamPtr& on) { pm::fill_2d(Span::of(at.a), 64, 16, 8, 1, on); }},
        {"fill of pinned memory", [](Scene& at, const StreamPtr& on) { pm::fill(Span::of(at.pinned), 1, on); }},
        {"fill of plain memory",
         [](Scene& at, const StreamPtr& on) { pm::fill(Span::host(at.plain->data(), kBytes, at.plain), 1, on); }},
        {"declare a use", [](Scene& at, const StreamPtr& on) { pm::Buffer(at.device, 64).record_stream(on); }},
        {"wait for an event", [](Scene& at, const StreamPtr& on) { on->wait(*at.recorded); }},
        {"wait for a stream", [](Scene& at, const StreamPtr& on) { on->wait(*at.other); }},
        {"record", [](Scene& at, const StreamPtr& on) { on->record(*at.event); }},
        {"host function", [](Scene&, const StreamPtr& on) { on->launch_host_func(nothing, nullptr); }},
        {"query", [](Scene&, const StreamPtr& on) { (void)on->query(); }},
        {"synchronize", [](Scene&, const StreamPtr& on) { on->synchronize(); }},
        {"settle", [](Scene&, const StreamPtr& on) { on->settle(); }},
        {"capture status", [](Scene&, const StreamPtr& on) { (void)on->capture_status(); }},
        {"kind and priority",
         [](Scene&, const StreamPtr& on) {
             (void)on->is_nonblocking();
             (void)on->priority();
         }},
    };
    if (has_pools()) {
        all.push_back({"allocate and free", [](Scene& at, const StreamPtr& on) {
                           const pm::Buffer buffer(at.async, kBytes, on);
                           pm::fill(Span::of(buffer), 1, on);
                       }});
    }
    return all;
}

// Calls a stream again and again until that is refused. Returns the words of the refusal.
std::string until_refused(const std::function<void()>& call, std::atomic<bool>& begun) {
    try {
        for (;;) {
            call();
            begun = true;
        }
    } catch (const std::exception& e) {
        begun = true;
        return e.what();
    }
}

// Has a thread wait for the stream, which a gate holds, and closes it meanwhile. False where the close came first.
bool close_under_a_wait(pm::Stream& stream, const std::function<void()>& close) {
    std::atomic<bool> begun{false};
    std::string refused;
    std::thread waiter([&] {
        begun = true;
        try {
            stream.synchronize();
        } catch (const std::exception& e) {
            refused = e.what();
        }
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // mostly it waits by then
    close();
    waiter.join();
    if (!refused.empty()) CHECK(refused == "the stream is closed");
    return refused.empty();
}

}  // namespace

TEST_CASE("pm stream closed: what other threads call meanwhile is done, or refused in words") {
    if (no_device()) return;
    for (const Call& call : calls()) {
        CAPTURE(std::string(call.name));
        Scene scenes[2];
        for (int round = 0; round < 50; ++round) {
            const auto stream = pm::Stream::create(0);
            std::atomic<bool> begun{false};
            std::string met[2];
            std::vector<std::thread> threads;
            for (std::size_t i = 0; i < 2; ++i) {
                threads.emplace_back([&, i] { met[i] = until_refused([&] { call.run(scenes[i], stream); }, begun); });
            }
            while (!begun) std::this_thread::yield();
            stream->close();
            for (auto& thread : threads) thread.join();
            for (const std::string& text : met) REQUIRE(text == "the stream is closed");
            stream->tail()->wait();  // the next round's stream is ordered with this one by nothing else
        }
        pm::Device(0).synchronize();
    }
}

TEST_CASE("pm stream closed: it is captured by one thread while others close it") {
    if (no_device()) return;
    for (int round = 0; round < 200; ++round) {
        const auto stream = pm::Stream::create(0);
        std::atomic<bool> begun{false};
        std::string met;
        std::thread capturing([&] {
            met = until_refused(
                [&] {
                    stream->begin_capture(rt::StreamCaptureMode::Relaxed);
                    stream->end_capture();
                },
                begun);
        });
        while (!begun) std::this_thread::yield();
        for (bool is_closed = false; !is_closed;) {
            try {
                stream->close();
                is_closed = true;
            } catch (const std::invalid_argument& e) {
                REQUIRE(contains(e.what(), "captured"));
            }
        }
        capturing.join();
        REQUIRE(met == "the stream is closed");
    }
}

TEST_CASE("pm stream closed: a close waits for no work, and a thread that does keeps the handle" *
          ends_a_held_stream()) {
    if (no_device()) return;
    bool was_waited_for = false;
    for (int round = 0; round < 100 && !was_waited_for; ++round) {
        const auto stream = pm::Stream::create(0);
        const Gate gate(stream);
        was_waited_for = close_under_a_wait(*stream, [&] {
            stream->close();
            CHECK(stream->is_closed());
            CHECK_FALSE(gate.is_open());
            gate.open();
        });
    }
    CHECK(was_waited_for);
}

TEST_CASE("pm stream closed: somebody else's is given up once nobody waits for it") {
    if (no_device()) return;
    bool was_waited_for = false;
    for (int round = 0; round < 100 && !was_waited_for; ++round) {
        const TestStream theirs;
        const auto stream = pm::Stream::from_handle(theirs.handle, 0, std::make_shared<int>(0));
        const Gate gate(stream);
        bool was_open = false;
        was_waited_for = close_under_a_wait(*stream, [&] {
            gate.open_soon();
            stream->close();
            was_open = gate.is_open();
        });
        if (was_waited_for) CHECK(was_open);
        gate.open();
    }
    CHECK(was_waited_for);
}

TEST_CASE("pm stream closed: not within a use by the same thread, and by a function that a call runs at any time") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    {
        const pm::Stream::Use use(*stream);
        CHECK(static_cast<bool>(use));
        CHECK(contains(refusal<std::invalid_argument>([&] { stream->close(); }), "further out on this thread"));
    }
    alignas(256) static char bytes[2 * kBytes];  // more than is asked for: PORTAMEM_DEBUG adds redzones
    const auto allocate = [](std::size_t nbytes, const StreamPtr& on) -> void* {
        REQUIRE(nbytes <= sizeof bytes);
        std::thread([&] { on->close(); }).join();
        return bytes;
    };
    pm::CallbackMemoryResource resource(
        allocate, [](void*, std::size_t, const StreamPtr&) {},
        pm::CallbackMemoryResource::memory_of(pm::ResourceKind::System, 0));
    void* const ptr = resource.allocate(kBytes, stream);
    CHECK(stream->is_closed());
    CHECK_FALSE(static_cast<bool>(pm::Stream::Use(*stream)));
    resource.deallocate(ptr, kBytes, stream);
}
