// SPDX-License-Identifier: MIT
// tests/cpp/host_events.cpp: events of the CPU runtime.
#include "host_support.hpp"

using namespace host_tests;

namespace {

void set_flag(void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }

}  // namespace

TEST_CASE("host events: a mark is reached when the work before it has run") {
    Stream stream;
    Event event;
    Latch latch;
    latch.hold(stream);
    HOST_OK(pmhEventRecord(event, stream));
    CHECK(pmhEventQuery(event) == pmhErrorNotReady);
    Blocked sync([&] { return pmhEventSynchronize(event); });
    CHECK(sync.still());
    latch.open();
    CHECK(sync.join() == pmhSuccess);
    CHECK(pmhEventQuery(event) == pmhSuccess);
}

TEST_CASE("host events: work after the mark does not count") {
    Stream stream;
    Event event;
    Latch latch;
    HOST_OK(pmhEventRecord(event, stream));
    latch.hold(stream);
    CHECK(pmhEventQuery(event) == pmhSuccess);
    HOST_OK(pmhEventRecord(event, stream));
    CHECK(pmhEventQuery(event) == pmhErrorNotReady);
}

TEST_CASE("host events: one that was never recorded is done, and is no wait") {
    Stream stream;
    Event event;
    CHECK(pmhEventQuery(event) == pmhSuccess);
    CHECK(pmhEventSynchronize(event) == pmhSuccess);
    HOST_OK(pmhStreamWaitEvent(stream, event, 0));
    CHECK(pmhStreamQuery(stream) == pmhSuccess);
}

TEST_CASE("host events: a stream waits for the mark of another") {
    Stream first, second;
    Event event(pmhEventDisableTiming);
    std::atomic<bool> ran{false};
    Latch latch;
    latch.hold(first);
    HOST_OK(pmhEventRecord(event, first));
    HOST_OK(pmhStreamWaitEvent(second, event, 0));
    HOST_OK(pmhLaunchHostFunc(second, set_flag, &ran));
    CHECK(pmhStreamQuery(second) == pmhErrorNotReady);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(ran);
    SUBCASE("opened") { latch.open(); }
    SUBCASE("recorded again later, which the wait does not see") {
        HOST_OK(pmhEventRecord(event, second));
        latch.open();
    }
    SUBCASE("destroyed after the wait was submitted") {
        HOST_OK(pmhEventDestroy(event.handle));
        latch.open();
    }
    HOST_OK(pmhStreamSynchronize(second));
    CHECK(ran);
}

TEST_CASE("host events: a wait across devices") {
    Stream here;
    HOST_OK(pmhSetDevice(1));
    {
        Stream there;
        Event event;
        std::atomic<bool> ran{false};
        Latch latch;
        latch.hold(there);
        HOST_OK(pmhEventRecord(event, there));
        HOST_OK(pmhStreamWaitEvent(here, event, 0));
        HOST_OK(pmhLaunchHostFunc(here, set_flag, &ran));
        CHECK(pmhEventRecord(event, here) == pmhErrorInvalidHandle);
        CHECK_FALSE(ran);
        latch.open();
        HOST_OK(pmhStreamSynchronize(here));
        CHECK(ran);
    }
    HOST_OK(pmhSetDevice(0));
}

TEST_CASE("host events: a mark on a default stream stands for what that stream waits for") {
    Stream blocking(pmhStreamDefault);
    Event event;
    SUBCASE("legacy, while a blocking stream is held") {
        Latch latch;
        latch.hold(blocking);
        HOST_OK(pmhEventRecord(event, nullptr));
        CHECK(pmhEventQuery(event) == pmhErrorNotReady);
        latch.open();
        HOST_OK(pmhEventSynchronize(event));
    }
    SUBCASE("blocking, while legacy is held") {
        Latch latch;
        latch.hold(nullptr);
        HOST_OK(pmhEventRecord(event, blocking));
        CHECK(pmhEventQuery(event) == pmhErrorNotReady);
        latch.open();
        HOST_OK(pmhEventSynchronize(event));
    }
    SUBCASE("without timing") {
        Event plain(pmhEventDisableTiming);
        Latch latch;
        latch.hold(nullptr);
        HOST_OK(pmhEventRecord(plain, blocking));
        CHECK(pmhEventQuery(plain) == pmhErrorNotReady);
    }
}

TEST_CASE("host events: time between two marks") {
    Stream stream;
    Event start, end, untimed(pmhEventDisableTiming), unrecorded;
    float ms = -1;
    HOST_OK(pmhEventRecord(start, stream));
    HOST_OK(pmhEventRecord(untimed, stream));
    {
        Latch latch;
        latch.hold(stream);
        HOST_OK(pmhEventRecord(end, stream));
        CHECK(pmhEventElapsedTime(&ms, start, end) == pmhErrorNotReady);
        CHECK(pmhEventElapsedTime(&ms, untimed, end) == pmhErrorInvalidHandle);
        std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    HOST_OK(pmhEventSynchronize(end));
    HOST_OK(pmhEventElapsedTime(&ms, start, end));
    CHECK(ms >= 24.0F);
    CHECK(ms < 60000.0F);
    CHECK(pmhEventElapsedTime(&ms, start, unrecorded) == pmhErrorInvalidHandle);
}

TEST_CASE("host events: refusals") {
    pmhEvent_t event = nullptr;
    CHECK(pmhEventCreateWithFlags(&event, 8) == pmhErrorInvalidValue);
    CHECK(pmhEventCreateWithFlags(&event, pmhEventInterprocess) == pmhErrorInvalidValue);
    HOST_OK(pmhEventCreateWithFlags(&event, pmhEventInterprocess | pmhEventDisableTiming));
    CHECK(pmhStreamWaitEvent(nullptr, event, 8) == pmhErrorInvalidValue);
    HOST_OK(pmhEventDestroy(event));
    CHECK(pmhEventDestroy(event) == pmhErrorInvalidHandle);
    CHECK(pmhEventQuery(nullptr) == pmhErrorInvalidHandle);
    CHECK(pmhEventSynchronize(nullptr) == pmhErrorInvalidHandle);
    CHECK(pmhEventRecord(nullptr, nullptr) == pmhErrorInvalidHandle);
    CHECK(pmhEventDestroy(nullptr) == pmhErrorInvalidHandle);
}
