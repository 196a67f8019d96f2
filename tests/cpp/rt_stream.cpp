// SPDX-License-Identifier: MIT
// tests/cpp/rt_stream.cpp: streams and events: order, asynchrony, default streams.
#include <algorithm>

#include "rt_support.hpp"

TEST_CASE("rt: a stream tells its flags, priority and device") {
    if (no_device()) return;
    int least = 0, greatest = 0, current = -1;
    REQUIRE(rt::DeviceGetStreamPriorityRange(&least, &greatest) == Success);
    REQUIRE(rt::GetDevice(&current) == Success);
    for (const unsigned flags : {rt::StreamDefault + 0u, rt::StreamNonBlocking + 0u}) {
        for (const int priority : {least, greatest, greatest - 100, least + 100}) {
            rt::Stream_t stream{};
            REQUIRE(rt::StreamCreateWithPriority(&stream, flags, priority) == Success);
            unsigned got_flags = 99;
            int got = 99;
            CHECK(rt::StreamGetFlags(stream, &got_flags) == Success);
            CHECK(got_flags == flags);
            CHECK(rt::StreamGetPriority(stream, &got) == Success);
            CHECK(got == std::max(greatest, std::min(least, priority)));
            CHECK(rt::StreamGetDevice(stream, &got) == Success);
            CHECK(got == current);
            CHECK(rt::StreamQuery(stream) == Success);
            CHECK(rt::StreamDestroy(stream) == Success);
        }
    }
    rt::Stream_t stream{};
    CHECK(rt::StreamCreateWithPriority(&stream, 77, 0) == Error_t::InvalidValue);
}

TEST_CASE("rt: a stream belongs to the device on which it was created") {
    if (no_device()) return;
    const int last = device_count() - 1;
    rt::DeviceState_t saved{};
    rt::Stream_t stream{};
    REQUIRE(rt::PushDevice(last, &saved) == Success);
    REQUIRE(rt::StreamCreateWithPriority(&stream, rt::StreamNonBlocking, 0) == Success);
    CHECK(rt::PopDevice(saved) == Success);
    int before = -1, device = -1, after = -1;
    CHECK(rt::GetDevice(&before) == Success);
    CHECK(rt::StreamGetDevice(stream, &device) == Success);
    CHECK(device == last);
    CHECK(rt::GetDevice(&after) == Success);
    CHECK(after == before);
    CHECK(rt::StreamDestroy(stream) == Success);
}

TEST_CASE("rt: the default streams work, belong to the current device and are not destroyed") {
    if (no_device()) return;
    int current = -1;
    REQUIRE(rt::GetDevice(&current) == Success);
    const DeviceMemory memory(4096);
    for (const rt::Stream_t stream : {NullStream, rt::StreamLegacy(), rt::StreamPerThread()}) {
        int device = -1;
        CHECK(rt::MemsetAsync(memory.ptr, 1, 4096, stream) == Success);
        CHECK(rt::StreamSynchronize(stream) == Success);
        CHECK(rt::StreamQuery(stream) == Success);
        CHECK(rt::StreamGetDevice(stream, &device) == Success);
        CHECK(device == current);
        const Error_t destroyed = rt::StreamDestroy(stream);
        CHECK((destroyed == Error_t::InvalidHandle || destroyed == Error_t::InvalidValue));
    }
}

TEST_CASE("rt: a copy behind a latch waits, and the call does not") {
    if (no_device()) return;
    const std::size_t nbytes = MiB;
    const PinnedMemory from(nbytes);
    const PinnedMemory to(nbytes);
    const DeviceMemory memory(nbytes);
    const TestStream stream;
    const TestEvent event;
    const Bytes bytes = pattern(nbytes, 61);
    std::copy(bytes.begin(), bytes.end(), from.bytes());
    std::fill_n(to.bytes(), nbytes, static_cast<unsigned char>(0xcc));
    Latch latch;
    latch.hold(stream.handle);
    CHECK(rt::MemcpyAsync(memory.ptr, from.ptr, nbytes, MemcpyKind::HostToDevice, stream.handle) == Success);
    CHECK(rt::MemcpyAsync(to.ptr, memory.ptr, nbytes, MemcpyKind::DeviceToHost, stream.handle) == Success);
    CHECK(rt::EventRecord(event.handle, stream.handle) == Success);
    CHECK(rt::StreamQuery(stream.handle) == Error_t::NotReady);
    CHECK(rt::EventQuery(event.handle) == Error_t::NotReady);
    CHECK(rt::PeekAtLastError() == Success);
    CHECK(std::count(to.bytes(), to.bytes() + nbytes, 0xcc) == static_cast<std::ptrdiff_t>(nbytes));
    latch.release();
    CHECK(rt::EventSynchronize(event.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    CHECK(rt::StreamQuery(stream.handle) == Success);
    CHECK(rt::EventQuery(event.handle) == Success);
    CHECK(Bytes(to.bytes(), to.bytes() + nbytes) == bytes);
}

TEST_CASE("rt: host functions run in the order of their stream") {
    if (no_device()) return;
    struct Step {
        std::vector<int>* seen;
        int number;
    };
    std::vector<int> seen;
    Step steps[] = {{&seen, 0}, {&seen, 1}, {&seen, 2}};
    const TestStream stream;
    for (Step& step : steps) {
        CHECK(rt::LaunchHostFunc(
                  stream.handle,
                  [](void* data) {
                      const Step& self = *static_cast<Step*>(data);
                      self.seen->push_back(self.number);
                  },
                  &step) == Success);
    }
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    CHECK(seen == std::vector<int>{0, 1, 2});
}

TEST_CASE("rt: a stream waits for another's event") {
    if (no_device()) return;
    const DeviceMemory memory(MiB);
    const TestStream first;
    const TestStream second;
    const TestEvent event;
    const TestEvent never_recorded;
    Latch latch;
    latch.hold(first.handle);
    CHECK(rt::MemsetAsync(memory.ptr, 1, MiB, first.handle) == Success);
    CHECK(rt::EventRecord(event.handle, first.handle) == Success);
    CHECK(rt::StreamWaitEvent(second.handle, never_recorded.handle) == Success);
    CHECK(rt::StreamQuery(second.handle) == Success);
    CHECK(rt::StreamWaitEvent(second.handle, event.handle) == Success);
    CHECK(rt::MemsetAsync(memory.ptr, 2, MiB, second.handle) == Success);
    CHECK(rt::StreamQuery(second.handle) == Error_t::NotReady);
    latch.release();
    CHECK(rt::StreamSynchronize(second.handle) == Success);
    CHECK(contents(memory.ptr, MiB) == Bytes(MiB, 2));
}

TEST_CASE("rt: the legacy stream waits for blocking streams, and for no others") {
    if (no_device()) return;
    const DeviceMemory memory(MiB);
    for (const unsigned flags : {rt::StreamDefault + 0u, rt::StreamNonBlocking + 0u}) {
        const TestStream stream(flags);
        const TestEvent event;
        Latch latch;
        latch.hold(stream.handle);
        CHECK(rt::MemsetAsync(memory.ptr, 5, MiB, rt::StreamLegacy()) == Success);
        CHECK(rt::EventRecord(event.handle, rt::StreamLegacy()) == Success);
        if (flags == rt::StreamNonBlocking) {
            CHECK(rt::EventSynchronize(event.handle) == Success);
            CHECK(rt::StreamQuery(stream.handle) == Error_t::NotReady);
        } else {
            CHECK(rt::EventQuery(event.handle) == Error_t::NotReady);
        }
        latch.release();
        CHECK(rt::DeviceSynchronize() == Success);
    }
}

TEST_CASE("rt: memory freed in stream order is not taken while a latch holds its stream") {
    if (no_device() || !has(rt::DeviceAttr::MemoryPoolsSupported)) return;
    const TestStream first;
    const TestStream second;
    void* freed = nullptr;
    void* wanted = nullptr;
    REQUIRE(rt::MallocAsync(&freed, 8 * MiB, first.handle) == Success);
    REQUIRE(rt::StreamSynchronize(first.handle) == Success);
    Latch latch;
    latch.hold(first.handle);
    CHECK(rt::FreeAsync(freed, first.handle) == Success);
    REQUIRE(rt::MallocAsync(&wanted, 8 * MiB, second.handle) == Success);
    // Either it is other memory, or the runtime made the second stream wait for the first.
    CHECK((wanted != freed || rt::StreamQuery(second.handle) == Error_t::NotReady));
    latch.release();
    CHECK(rt::FreeAsync(wanted, second.handle) == Success);
    CHECK(rt::StreamSynchronize(second.handle) == Success);
}

TEST_CASE("rt: events measure time where they were made to") {
    if (no_device()) return;
    const TestStream stream;
    const TestEvent start(rt::EventDefault);
    const TestEvent end(rt::EventBlockingSync);
    const TestEvent untimed;
    const TestEvent never(rt::EventDefault);
    float milliseconds = -1;
    CHECK(rt::EventQuery(never.handle) == Success);
    CHECK(rt::EventSynchronize(never.handle) == Success);
    CHECK(rt::EventRecord(start.handle, stream.handle) == Success);
    Latch latch;
    latch.hold(stream.handle);
    CHECK(rt::EventRecord(end.handle, stream.handle) == Success);
    CHECK(rt::EventRecord(untimed.handle, stream.handle) == Success);
    CHECK(rt::EventElapsedTime(&milliseconds, start.handle, end.handle) == Error_t::NotReady);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    latch.release();
    CHECK(rt::EventSynchronize(end.handle) == Success);
    CHECK(rt::EventElapsedTime(&milliseconds, start.handle, end.handle) == Success);
    CHECK(milliseconds >= 15);
    CHECK(milliseconds < 10000);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    for (const rt::Event_t other : {untimed.handle, never.handle}) {
        const Error_t error = rt::EventElapsedTime(&milliseconds, start.handle, other);
        CHECK((error == Error_t::InvalidHandle || error == Error_t::InvalidValue));
    }
    rt::Event_t event{};
    CHECK(rt::EventCreateWithFlags(&event, rt::EventInterprocess) == Error_t::InvalidValue);
}
