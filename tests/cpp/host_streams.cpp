// SPDX-License-Identifier: MIT
// tests/cpp/host_streams.cpp: streams of the CPU runtime: real asynchrony, and the order of default streams.
#include "host_support.hpp"

using namespace host_tests;

namespace {

void append(void* target) {
    auto& out = *static_cast<std::vector<int>*>(target);
    out.push_back(static_cast<int>(out.size()));
}

void count(void* target) { ++*static_cast<std::atomic<int>*>(target); }

}  // namespace

TEST_CASE("host streams: a stream is in order and the host does not wait for it") {
    Stream stream;
    PinnedMemory source(KiB), target(KiB);
    DeviceMemory device(KiB);
    const Bytes bytes = pattern(KiB, 1), zeros(KiB, 0);
    std::copy(bytes.begin(), bytes.end(), source.bytes());
    Latch latch;
    latch.hold(stream);
    HOST_OK(pmhMemcpyAsync(device, source, KiB, pmhMemcpyHostToDevice, stream));
    HOST_OK(pmhMemcpyAsync(target, device, KiB, pmhMemcpyDeviceToHost, stream));
    CHECK(pmhStreamQuery(stream) == pmhErrorNotReady);
    CHECK(peek(target, KiB) == zeros);
    latch.open();
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(pmhStreamQuery(stream) == pmhSuccess);
    CHECK(get(target, KiB) == bytes);
}

TEST_CASE("host streams: two streams do not wait for each other") {
    Stream held, free;
    PinnedMemory target(KiB);
    DeviceMemory device(KiB);
    Latch latch;
    latch.hold(held);
    HOST_OK(pmhMemsetAsync(device, 7, KiB, free));
    HOST_OK(pmhMemcpyAsync(target, device, KiB, pmhMemcpyDeviceToHost, free));
    HOST_OK(pmhStreamSynchronize(free));
    CHECK(pmhStreamQuery(held) == pmhErrorNotReady);
    CHECK(target.bytes()[KiB - 1] == 7);
}

TEST_CASE("host streams: host functions run in order, one after the other") {
    Stream stream;
    std::vector<int> out;
    for (int i = 0; i < 100; ++i) HOST_OK(pmhLaunchHostFunc(stream, append, &out));
    HOST_OK(pmhStreamSynchronize(stream));
    REQUIRE(out.size() == 100);
    for (int i = 0; i < 100; ++i) CHECK(out[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("host streams: a host function may make no runtime call") {
    struct Answers {
        pmhError_t malloc = pmhSuccess, query = pmhSuccess, count = pmhSuccess;
        std::string detail;
    } answers;
    Stream stream;
    HOST_OK(pmhLaunchHostFunc(
        stream,
        [](void* data) {
            auto& out = *static_cast<Answers*>(data);
            void* ptr = nullptr;
            int devices = 0;
            out.malloc = pmhMalloc(&ptr, 16);
            out.query = pmhStreamQuery(nullptr);
            out.count = pmhGetDeviceCount(&devices);
            out.detail = pmhGetLastErrorDetail();
        },
        &answers));
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(answers.malloc == pmhErrorNotPermitted);
    CHECK(answers.query == pmhErrorNotPermitted);
    CHECK(answers.count == pmhErrorNotPermitted);
    CHECK(answers.detail.find("GetDeviceCount") != std::string::npos);
}

TEST_CASE("host streams: the legacy stream waits for blocking streams and not for others") {
    Stream blocking(pmhStreamDefault), other(pmhStreamNonBlocking);
    DeviceMemory device(KiB);
    std::atomic<int> ran{0};
    SUBCASE("blocking") {
        Latch latch;
        latch.hold(blocking);
        CHECK(pmhStreamQuery(nullptr) == pmhErrorNotReady);
        HOST_OK(pmhLaunchHostFunc(pmhStreamLegacy, count, &ran));
        Blocked sync([] { return pmhStreamSynchronize(nullptr); });
        CHECK(sync.still());
        CHECK(ran == 0);
        latch.open();
        CHECK(sync.join() == pmhSuccess);
        CHECK(ran == 1);
    }
    SUBCASE("non-blocking") {
        Latch latch;
        latch.hold(other);
        HOST_OK(pmhLaunchHostFunc(nullptr, count, &ran));
        HOST_OK(pmhStreamSynchronize(nullptr));
        CHECK(ran == 1);
        CHECK(pmhStreamQuery(other) == pmhErrorNotReady);
    }
    SUBCASE("a copy without a stream") {
        Latch latch;
        latch.hold(blocking);
        Blocked copy([&] {
            Bytes bytes(KiB);
            return pmhMemcpy(bytes.data(), device, KiB, pmhMemcpyDeviceToHost);
        });
        CHECK(copy.still());
        latch.open();
        CHECK(copy.join() == pmhSuccess);
    }
}

TEST_CASE("host streams: blocking streams wait for the legacy stream") {
    Stream blocking(pmhStreamDefault), other(pmhStreamNonBlocking);
    std::atomic<int> after{0}, beside{0};
    Latch latch;
    latch.hold(nullptr);
    CHECK(pmhStreamQuery(blocking) == pmhSuccess);  // it has no work of its own
    HOST_OK(pmhLaunchHostFunc(blocking, count, &after));
    HOST_OK(pmhLaunchHostFunc(other, count, &beside));
    HOST_OK(pmhStreamSynchronize(other));
    CHECK(beside == 1);
    CHECK(after == 0);
    CHECK(pmhStreamQuery(blocking) == pmhErrorNotReady);
    latch.open();
    HOST_OK(pmhStreamSynchronize(blocking));
    CHECK(after == 1);
}

TEST_CASE("host streams: the legacy streams of two devices are two") {
    std::atomic<int> ran{0};
    Latch latch;
    latch.hold(nullptr);
    HOST_OK(pmhSetDevice(1));
    HOST_OK(pmhLaunchHostFunc(nullptr, count, &ran));
    HOST_OK(pmhStreamSynchronize(nullptr));
    HOST_OK(pmhDeviceSynchronize());
    HOST_OK(pmhSetDevice(0));
    CHECK(ran == 1);
    CHECK(pmhStreamQuery(nullptr) == pmhErrorNotReady);
}

TEST_CASE("host streams: a thread's default stream is its own, and blocking") {
    Latch latch;
    latch.hold(pmhStreamPerThread);
    std::thread([] {
        std::atomic<int> ran{0};
        HOST_OK(pmhLaunchHostFunc(pmhStreamPerThread, count, &ran));
        HOST_OK(pmhStreamSynchronize(pmhStreamPerThread));
        CHECK(ran == 1);
    }).join();
    CHECK(pmhStreamQuery(pmhStreamPerThread) == pmhErrorNotReady);
    CHECK(pmhStreamQuery(pmhStreamLegacy) == pmhErrorNotReady);
    latch.open();
    HOST_OK(pmhStreamSynchronize(pmhStreamLegacy));
    CHECK(pmhStreamQuery(pmhStreamPerThread) == pmhSuccess);
}

TEST_CASE("host streams: work of a thread that has ended still runs") {
    std::atomic<int> ran{0};
    Latch latch;
    std::thread([&] {
        latch.hold(pmhStreamPerThread);
        HOST_OK(pmhLaunchHostFunc(pmhStreamPerThread, count, &ran));
    }).join();
    CHECK(ran == 0);
    latch.open();
    HOST_OK(pmhDeviceSynchronize());
    CHECK(ran == 1);
}

TEST_CASE("host streams: a destroyed stream's work still runs, and the device waits for it") {
    std::atomic<int> ran{0};
    Latch latch;
    pmhStream_t stream = nullptr;
    HOST_OK(pmhStreamCreateWithPriority(&stream, pmhStreamNonBlocking, 0));
    latch.hold(stream);
    HOST_OK(pmhLaunchHostFunc(stream, count, &ran));
    HOST_OK(pmhStreamDestroy(stream));
    CHECK(pmhStreamQuery(stream) == pmhErrorInvalidHandle);
    CHECK(pmhStreamDestroy(stream) == pmhErrorInvalidHandle);
    Blocked sync([] { return pmhDeviceSynchronize(); });
    CHECK(sync.still());
    latch.open();
    CHECK(sync.join() == pmhSuccess);
    CHECK(ran == 1);
}

TEST_CASE("host streams: what a handle tells") {
    Stream stream(pmhStreamNonBlocking);
    unsigned flags = 9;
    int number = 9;
    HOST_OK(pmhStreamGetFlags(stream, &flags));
    CHECK(flags == pmhStreamNonBlocking);
    HOST_OK(pmhStreamGetFlags(nullptr, &flags));
    CHECK(flags == pmhStreamDefault);
    HOST_OK(pmhStreamGetPriority(stream, &number));
    CHECK(number == 0);
    HOST_OK(pmhSetDevice(1));
    HOST_OK(pmhStreamGetDevice(stream, &number));
    CHECK(number == 0);
    HOST_OK(pmhStreamGetDevice(pmhStreamPerThread, &number));
    CHECK(number == 1);
    HOST_OK(pmhSetDevice(0));
}

TEST_CASE("host streams: refusals") {
    pmhStream_t stream = nullptr;
    CHECK(pmhStreamCreateWithPriority(&stream, 8, 0) == pmhErrorInvalidValue);
    CHECK(pmhStreamCreateWithPriority(nullptr, 0, 0) == pmhErrorInvalidValue);
    CHECK(pmhStreamDestroy(nullptr) == pmhErrorInvalidHandle);
    CHECK(pmhStreamDestroy(pmhStreamLegacy) == pmhErrorInvalidHandle);
    CHECK(pmhStreamDestroy(pmhStreamPerThread) == pmhErrorInvalidHandle);
    CHECK(pmhLaunchHostFunc(nullptr, nullptr, nullptr) == pmhErrorInvalidValue);
    int not_a_stream = 0;
    CHECK(pmhStreamQuery(reinterpret_cast<pmhStream_t>(&not_a_stream)) == pmhErrorInvalidHandle);
}
