// SPDX-License-Identifier: MIT
// tests/cpp/pm_capture.cpp: stream capture: nothing that portamem does harms one.
#include <functional>

#include "pm_support.hpp"

namespace {

constexpr std::size_t kBytes = 4096;

/// A stream to be captured, another, and memory from before: of no stream in particular, and of the captured one.
struct Scene {
    std::shared_ptr<pm::DeviceMemoryResource> plain = std::make_shared<pm::DeviceMemoryResource>(0);
    Resource pinned = pinned_resource();
    StreamPtr stream = pm::Stream::create(0);
    StreamPtr other = pm::Stream::create(0);
    pm::Buffer buffer{plain, kBytes};
    pm::Buffer host{pinned, kBytes};
    pm::Buffer home{plain, kBytes, stream};

    bool active() const { return stream->capture_status() == rt::StreamCaptureStatus::Active; }
    void end() const {
        CHECK(active());
        stream->end_capture();
        CHECK(stream->capture_status() == rt::StreamCaptureStatus::None);
    }
};

struct Call {
    std::string name;
    std::function<void(Scene&)> run;
};
using Calls = std::vector<Call>;

const Calls& forbidden() {
    static const Calls calls = {
        {"synchronize the stream", [](Scene& at) { at.stream->synchronize(); }},
        {"query the stream", [](Scene& at) { at.stream->query(); }},
        {"close the stream", [](Scene& at) { at.stream->close(); }},
        {"capture again", [](Scene& at) { at.stream->begin_capture(rt::StreamCaptureMode::Relaxed); }},
        {"ask for its flags", [](Scene& at) { (void)at.stream->is_nonblocking(); }},
        {"synchronize the device", [](Scene&) { pm::Device(0).synchronize(); }},
        {"fill on the stream", [](Scene& at) { pm::fill(pm::Span::of(at.buffer), 1, at.stream); }},
        {"copy on the stream", [](Scene& at) { pm::copy(at.host, at.buffer, at.stream); }},
        {"declare a use on the stream", [](Scene& at) { at.buffer.record_stream(at.stream); }},
        {"close memory on the stream", [](Scene& at) { at.buffer.close(at.stream); }},
        {"close memory of the stream", [](Scene& at) { at.home.close(); }},
        {"close memory of the stream on another", [](Scene& at) { at.home.close(at.other); }},
        {"use memory of the stream on another", [](Scene& at) { pm::fill(pm::Span::of(at.home), 1, at.other); }},
        {"declare memory of the stream on another", [](Scene& at) { at.home.record_stream(at.other); }},
        {"copy memory of the stream and wait", [](Scene& at) { pm::copy(at.host, at.home); }},
    };
    return calls;
}

const Calls& beside() {
    static const Calls calls = {
        {"allocate device memory", [](Scene& at) { pm::Buffer(at.plain, kBytes).close(); }},
        {"allocate pitched memory", [](Scene& at) { pm::PitchedBuffer(at.plain, 100, 4).close(); }},
        {"allocate pinned memory", [](Scene& at) { pm::Buffer(at.pinned, kBytes).close(); }},
        {"blocking copy", [](Scene& at) { pm::copy(at.host, at.buffer); }},
        {"work on another stream", [](Scene& at) { pm::fill(pm::Span::of(at.buffer), 1, at.other)->synchronize(); }},
        {"a new stream and event", [](Scene&) { pm::Stream::create(0)->tail()->synchronize(); }},
        {"memory figures", [](Scene&) { (void)pm::Device(0).memory_info(); }},
        {"the pointer query", [](Scene& at) { (void)pm::pointer_info(at.buffer.ptr()); }},
        {"a pool of its own",
         [](Scene& at) {
             if (!has_pools()) return;
             const auto pool = pm::AsyncMemoryResource::create(0);
             pm::Buffer(pool, kBytes, at.other).close();
             at.other->synchronize();
             pool->trim();
             pool->close();
         }},
        {"a registration",
         [](Scene&) {
             static std::array<char, 2 * kBytes> bytes;
             pm::HostRegistration(bytes.data(), bytes.size(), 0, rt::HostRegisterDefault, nullptr).close();
         }},
    };
    return calls;
}

constexpr rt::StreamCaptureMode kModes[] = {rt::StreamCaptureMode::Global, rt::StreamCaptureMode::ThreadLocal,
                                            rt::StreamCaptureMode::Relaxed};

}  // namespace

TEST_CASE("pm capture: what it forbids is refused in words, and it stays valid") {
    if (no_device()) return;
    for (const auto mode : kModes) {
        for (const Call& call : forbidden()) {
            CAPTURE(call.name);
            CAPTURE(static_cast<int>(mode));
            Scene at;
            put(at.buffer, 1);
            at.stream->begin_capture(mode);
            CHECK(contains(refusal<std::invalid_argument>([&] { call.run(at); }), "captured"));
            at.end();
            pm::fill(pm::Span::of(at.buffer), 5, at.stream)->synchronize();
            pm::fill(pm::Span::of(at.home), 6, at.other)->synchronize();
            CHECK(get(at.buffer) == Bytes(kBytes, 5));
            CHECK(get(at.home) == Bytes(kBytes, 6));
        }
    }
}

TEST_CASE("pm capture: memory of the stream that is declared elsewhere is not handed out") {
    if (no_device()) return;
    for (const auto mode : kModes) {
        CAPTURE(static_cast<int>(mode));
        Scene at;
        at.home.record_stream(at.other);
        const auto memory = at.home.allocation();
        at.stream->begin_capture(mode);
        CHECK(contains(refusal<std::invalid_argument>([&] { (void)memory->exchange_stream(); }), "captured"));
        CHECK(contains(refusal<std::invalid_argument>([&] { memory->order_behind_users(*at.stream); }), "captured"));
        at.end();
        CHECK(memory->exchange_stream() == at.stream);
    }
}

TEST_CASE("pm capture: what has nothing to do with it goes on beside it") {
    if (no_device()) return;
    for (const auto mode : kModes) {
        for (const Call& call : beside()) {
            CAPTURE(call.name);
            CAPTURE(static_cast<int>(mode));
            Scene at;
            at.stream->begin_capture(mode);
            CHECK_NOTHROW(call.run(at));
            at.end();
        }
    }
}

TEST_CASE("pm capture: stream-ordered memory is not allocated inside one") {
    if (no_device() || !has_pools()) return;
    const Scene at;
    const auto pool = pm::AsyncMemoryResource::create(0);
    at.stream->begin_capture(rt::StreamCaptureMode::Global);
    CHECK_THROWS_AS(pm::Buffer(pool, kBytes, at.stream), std::invalid_argument);
    CHECK(pool->live_buffers() == 0);
    at.end();
}

TEST_CASE("pm capture: a destructor puts off what nobody could refuse") {
    if (no_device()) return;
    Scene at;
    auto owner = std::make_shared<int>(0);
    const std::weak_ptr<int> watch = owner;
    auto theirs = pm::Buffer::from_handle(at.buffer.ptr(), kBytes, at.stream, at.buffer.traits(), std::move(owner));
    auto resource = device_resource();
    auto ours = std::make_unique<pm::Buffer>(resource, kBytes, at.stream);
    at.stream->begin_capture(rt::StreamCaptureMode::Global);
    ours.reset();
    theirs.abandon();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(resource->live_buffers() == 1);
    CHECK_FALSE(watch.expired());
    CHECK_THROWS_AS(resource->close(), pm::ExportError);
    at.end();
    CHECK(eventually([&] { return watch.expired() && resource->live_buffers() == 0; }));
    resource->close();
}

TEST_CASE("pm capture: a resource that is asked to close takes back at once what was put off") {
    if (no_device()) return;
    const Scene at;
    const auto resource = device_resource();
    auto buffer = std::make_unique<pm::Buffer>(resource, kBytes, at.stream);
    at.stream->begin_capture(rt::StreamCaptureMode::Global);
    buffer.reset();
    at.end();
    resource->close();
    CHECK(resource->is_closed());
}

TEST_CASE("pm capture: a captured blocking stream forbids work on the default stream") {
    if (no_device()) return;
    Scene at;
    const auto blocking = pm::Stream::create(0, rt::StreamDefault);
    blocking->begin_capture(rt::StreamCaptureMode::Global);
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::copy(at.host, at.buffer); }), "name a stream"));
    CHECK(blocking->capture_status() == rt::StreamCaptureStatus::Active);
    blocking->end_capture();
    pm::copy(at.host, at.buffer);
}

TEST_CASE("pm capture: the device can be synchronized again, however the capture ended") {
    if (no_device()) return;
    const Scene at;
    rt::Graph_t graph{};
    SUBCASE("begun and ended here") {
        at.stream->begin_capture(rt::StreamCaptureMode::Global);
        at.stream->end_capture();
    }
    SUBCASE("begun elsewhere, ended here") {
        REQUIRE(rt::StreamBeginCapture(at.stream->handle(), rt::StreamCaptureMode::Global) == Success);
        at.stream->end_capture();
    }
    SUBCASE("begun here, ended elsewhere") {
        at.stream->begin_capture(rt::StreamCaptureMode::Global);
        REQUIRE(rt::StreamEndCapture(at.stream->handle(), &graph) == Success);
        CHECK(rt::GraphDestroy(graph) == Success);
        CHECK(at.stream->capture_status() == rt::StreamCaptureStatus::None);
    }
    SUBCASE("its stream destroyed meanwhile") {
        const auto gone = pm::Stream::create(0);
        gone->begin_capture(rt::StreamCaptureMode::Global);
    }
    pm::Device(0).synchronize();
}

TEST_CASE("pm capture: ends and modes that there are not") {
    if (no_device()) return;
    const Scene at;
    CHECK_THROWS_AS(at.stream->end_capture(), pm::Error);
    for (const auto& stream : {pm::Stream::default_stream(0), pm::Stream::per_thread(0)}) {
        CHECK_THROWS_AS(stream->begin_capture(rt::StreamCaptureMode::Global), std::invalid_argument);
        CHECK(stream->capture_status() == rt::StreamCaptureStatus::None);
    }
    pm::Device(0).synchronize();
}
