// SPDX-License-Identifier: MIT
// tests/cpp/host_capture.cpp: stream capture of the CPU runtime: what is recorded, and what is forbidden. The codes are
// those that an H200 gave.
#include <functional>

#include "host_support.hpp"

using namespace host_tests;

namespace {

struct Ended {
    pmhError_t code;
    int status;
    std::size_t nodes;
};

Ended end(pmhStream_t stream) {
    Ended result{pmhErrorUnknown, -1, 0};
    HOST_OK(pmhStreamIsCapturing(stream, &result.status));
    pmhGraph_t graph = reinterpret_cast<pmhGraph_t>(&result);
    result.code = pmhStreamEndCapture(stream, &graph);
    CHECK((graph != nullptr) == (result.code == pmhSuccess));
    if (graph != nullptr) {
        HOST_OK(pmhGraphGetNodeCount(graph, &result.nodes));
        HOST_OK(pmhGraphDestroy(graph));
    }
    return result;
}

void begin(pmhStream_t stream, int mode = pmhStreamCaptureModeGlobal) { HOST_OK(pmhStreamBeginCapture(stream, mode)); }

void check_valid(pmhStream_t stream, std::size_t nodes) {
    const Ended result = end(stream);
    CHECK(result.status == pmhStreamCaptureStatusActive);
    CHECK(result.code == pmhSuccess);
    CHECK(result.nodes == nodes);
}

void check_invalid(pmhStream_t stream) {
    const Ended result = end(stream);
    CHECK(result.status == pmhStreamCaptureStatusInvalidated);
    CHECK(result.code == pmhErrorStreamCaptureInvalidated);
}

}  // namespace

TEST_CASE("host capture: operations are recorded and do not run") {
    Stream stream(pmhStreamDefault);
    DeviceMemory device(KiB);
    PinnedMemory pinned(KiB);
    Bytes pageable(KiB);
    std::atomic<int> ran{0};
    HOST_OK(pmhMemset(device, 3, KiB));
    HOST_OK(pmhDeviceSynchronize());
    begin(stream);
    int status = 9;
    HOST_OK(pmhStreamIsCapturing(stream, &status));
    CHECK(status == pmhStreamCaptureStatusActive);
    HOST_OK(pmhMemsetAsync(device, 9, KiB, stream));
    HOST_OK(pmhMemcpyAsync(pinned, device, KiB, pmhMemcpyDeviceToHost, stream));
    HOST_OK(pmhMemcpyAsync(device, pageable.data(), KiB, pmhMemcpyHostToDevice, stream));
    HOST_OK(pmhLaunchHostFunc(
        stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &ran));
    HOST_OK(pmhMemcpyAsync(device, pinned, 0, pmhMemcpyDefault, stream));
    check_valid(stream, 4);
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(ran == 0);
    CHECK(get(device, KiB) == Bytes(KiB, 3));
    HOST_OK(pmhStreamIsCapturing(stream, &status));
    CHECK(status == pmhStreamCaptureStatusNone);
}

TEST_CASE("host capture: calls that may touch other work are forbidden by the mode") {
    Stream stream(pmhStreamDefault), other;
    Event event;
    DeviceMemory device(KiB);
    PinnedMemory pinned(KiB);
    ManagedMemory managed(KiB);
    Bytes bytes(KiB);
    void* ptr = nullptr;
    std::size_t pitch = 0;
    pmhMemPool_t pool = nullptr;
    HOST_OK(pmhDeviceGetDefaultMemPool(&pool, 0));
    const pmhMemPoolProps props{{pmhMemLocationTypeDevice, 0}, 0};
    const std::vector<std::function<pmhError_t()>> calls = {
        [&] { return pmhMalloc(&ptr, 64); },
        [&] { return pmhMallocPitch(&ptr, &pitch, 64, 64); },
        [&] { return pmhExtMallocWithFlags(&ptr, 64, 0); },
        [&] { return pmhMallocManaged(&ptr, 64, pmhMemAttachGlobal); },
        [&] { return pmhHostMalloc(&ptr, 64, 0); },
        [&] { return pmhFree(device); },
        [&] { return pmhHostFree(pinned); },
        [&] { return pmhHostRegister(bytes.data(), KiB, 0); },
        [&] { return pmhMemPoolCreate(&pool, &props); },
        [&] { return pmhMemPoolTrimTo(pool, 0); },
        [&] { return pmhDeviceSetMemPool(0, pool); },
        [&] { return pmhDeviceSetLimit(pmhLimitStackSize, 1024); },
        [&] {
            return pmhMemPrefetchAsync(managed, KiB, {pmhMemLocationTypeDevice, 0}, 0, other);
        },
        [&] { return pmhMemAdvise(managed, KiB, pmhMemAdviseSetReadMostly, {}); },
        [&] { return pmhStreamSynchronize(other); },
        [&] { return pmhStreamQuery(other); },
        [&] { return pmhEventQuery(event); },
        [&] { return pmhEventSynchronize(event); },
    };
    for (std::size_t i = 0; i < calls.size(); ++i) {
        CAPTURE(i);
        begin(stream);
        CHECK(calls[i]() == pmhErrorStreamCaptureUnsupported);
        CHECK(pmhMemsetAsync(device, 0, 16, stream) == pmhErrorStreamCaptureInvalidated);
        check_invalid(stream);
    }
    SUBCASE("not in a relaxed capture") {
        begin(stream, pmhStreamCaptureModeRelaxed);
        HOST_OK(pmhMalloc(&ptr, 64));
        HOST_OK(pmhFree(ptr));
        HOST_OK(pmhStreamQuery(other));
        check_valid(stream, 0);
    }
    SUBCASE("not on a relaxed thread") {
        int mode = pmhStreamCaptureModeRelaxed;
        HOST_OK(pmhThreadExchangeStreamCaptureMode(&mode));
        CHECK(mode == pmhStreamCaptureModeGlobal);
        begin(stream);
        HOST_OK(pmhMalloc(&ptr, 64));
        HOST_OK(pmhFree(ptr));
        check_valid(stream, 0);
        HOST_OK(pmhThreadExchangeStreamCaptureMode(&mode));
        CHECK(mode == pmhStreamCaptureModeRelaxed);
    }
    SUBCASE("on other threads only by a global capture") {
        pmhError_t answer = pmhErrorUnknown;
        const auto elsewhere = [&] {
            std::thread([&] { answer = pmhStreamQuery(other); }).join();
            return answer;
        };
        begin(stream, pmhStreamCaptureModeThreadLocal);
        CHECK(elsewhere() == pmhSuccess);
        check_valid(stream, 0);
        begin(stream);
        CHECK(elsewhere() == pmhErrorStreamCaptureUnsupported);
        check_invalid(stream);
    }
}

TEST_CASE("host capture: a captured stream's progress cannot be asked for in any mode") {
    Stream stream(pmhStreamDefault);
    const auto forbidden = [&](auto&& call) {
        begin(stream, pmhStreamCaptureModeRelaxed);
        CHECK(call() == pmhErrorStreamCaptureUnsupported);
        check_invalid(stream);
    };
    forbidden([&] { return pmhStreamQuery(stream); });
    forbidden([&] { return pmhStreamSynchronize(stream); });
    forbidden([&] { return pmhDeviceSynchronize(); });
}

TEST_CASE("host capture: the legacy stream and a captured blocking stream exclude each other") {
    Stream blocking(pmhStreamDefault), free(pmhStreamNonBlocking);
    Event event;
    DeviceMemory device(KiB);
    Bytes bytes(KiB);
    int status = 9;
    for (const int mode : {pmhStreamCaptureModeGlobal, pmhStreamCaptureModeRelaxed}) {
        const auto forbidden = [&](auto&& call) {
            begin(blocking, mode);
            CHECK(call() == pmhErrorStreamCaptureImplicit);
            check_invalid(blocking);
        };
        forbidden([&] { return pmhMemcpy(device, bytes.data(), KiB, pmhMemcpyHostToDevice); });
        forbidden([&] { return pmhMemset(device, 0, KiB); });
        forbidden([&] { return pmhMemsetAsync(device, 0, KiB, nullptr); });
        forbidden([&] { return pmhStreamSynchronize(nullptr); });
        forbidden([&] { return pmhStreamQuery(nullptr); });
        forbidden([&] { return pmhEventRecord(event, nullptr); });
        forbidden([&] { return pmhMemcpyPeer(device, 0, device, 0, 16); });
        void* ptr = nullptr;
        forbidden([&] { return pmhMallocAsync(&ptr, KiB, nullptr); });
    }
    begin(blocking);
    CHECK(pmhStreamIsCapturing(nullptr, &status) == pmhErrorStreamCaptureImplicit);
    check_valid(blocking, 0);
    begin(free);
    HOST_OK(pmhStreamIsCapturing(nullptr, &status));
    CHECK(status == pmhStreamCaptureStatusNone);
    HOST_OK(pmhMemcpy(device, bytes.data(), KiB, pmhMemcpyHostToDevice));
    check_valid(free, 0);
}

TEST_CASE("host capture: harmless calls are allowed") {
    Stream stream(pmhStreamDefault);
    DeviceMemory device(KiB);
    begin(stream);
    {
        Stream other;
        Event event;
        std::size_t free = 0, total = 0, limit = 0;
        pmhPointerAttributes attributes{};
        HOST_OK(pmhMemGetInfo(&free, &total));
        HOST_OK(pmhPointerGetAttributes(&attributes, device));
        HOST_OK(pmhDeviceGetLimit(&limit, pmhLimitStackSize));
        HOST_OK(pmhSetDevice(0));
    }
    check_valid(stream, 0);
}

TEST_CASE("host capture: stream-ordered memory is not supported, and the capture stays valid") {
    Stream stream;
    void *ptr = nullptr, *live = nullptr;
    HOST_OK(pmhMallocAsync(&live, KiB, stream));
    begin(stream);
    CHECK(pmhMallocAsync(&ptr, KiB, stream) == pmhErrorNotSupported);
    CHECK(detail().find("MallocAsync on a captured stream") != std::string::npos);
    CHECK(pmhFreeAsync(live, stream) == pmhErrorNotSupported);
    check_valid(stream, 0);
    HOST_OK(pmhFreeAsync(live, stream));
}

TEST_CASE("host capture: begin and end") {
    Stream stream, joined;
    pmhGraph_t graph = nullptr;
    CHECK(pmhStreamBeginCapture(nullptr, pmhStreamCaptureModeGlobal) == pmhErrorStreamCaptureUnsupported);
    CHECK(pmhStreamBeginCapture(pmhStreamLegacy, pmhStreamCaptureModeGlobal) == pmhErrorStreamCaptureUnsupported);
    CHECK(pmhStreamBeginCapture(stream, 7) == pmhErrorInvalidValue);
    CHECK(pmhStreamEndCapture(stream, &graph) == pmhErrorIllegalState);
    begin(stream);
    CHECK(pmhStreamBeginCapture(stream, pmhStreamCaptureModeGlobal) == pmhErrorIllegalState);
    check_valid(stream, 0);
    begin(pmhStreamPerThread);
    check_valid(pmhStreamPerThread, 0);

    pmhError_t answer = pmhErrorUnknown;
    const auto end_elsewhere = [&] {
        std::thread([&] {
            answer = pmhStreamEndCapture(stream, &graph);
            if (graph != nullptr) HOST_OK(pmhGraphDestroy(graph));
        }).join();
        return answer;
    };
    begin(stream);
    CHECK(end_elsewhere() == pmhErrorStreamCaptureWrongThread);
    CHECK(pmhStreamEndCapture(stream, &graph) == pmhErrorIllegalState);  // the capture was given up
    begin(stream, pmhStreamCaptureModeRelaxed);
    CHECK(end_elsewhere() == pmhSuccess);

    CHECK(pmhGraphDestroy(nullptr) == pmhErrorInvalidValue);
    int mode = 9;
    CHECK(pmhThreadExchangeStreamCaptureMode(&mode) == pmhErrorInvalidValue);
    begin(stream);
    pmhStream_t gone = nullptr;
    HOST_OK(pmhStreamCreateWithPriority(&gone, 0, 0));
    check_valid(stream, 0);
    begin(gone);
    HOST_OK(pmhStreamDestroy(gone));
    HOST_OK(pmhStreamQuery(stream));  // no capture is left that would forbid it
}

TEST_CASE("host capture: other streams join through events") {
    Stream origin, branch;
    Event fork(pmhEventDisableTiming), join(pmhEventDisableTiming), outside(pmhEventDisableTiming);
    DeviceMemory device(KiB);
    int status = 9;
    begin(origin);
    HOST_OK(pmhEventRecord(fork, origin));
    HOST_OK(pmhStreamWaitEvent(branch, fork, 0));
    HOST_OK(pmhStreamIsCapturing(branch, &status));
    CHECK(status == pmhStreamCaptureStatusActive);
    SUBCASE("and are joined again") {
        HOST_OK(pmhMemsetAsync(device, 0, 16, branch));
        HOST_OK(pmhMemsetAsync(device, 0, 16, origin));
        HOST_OK(pmhEventRecord(join, branch));
        HOST_OK(pmhStreamWaitEvent(origin, join, 0));
        check_valid(origin, 2);
        CHECK(pmhEventQuery(join) == pmhErrorInvalidValue);
        CHECK(pmhStreamWaitEvent(branch, join, 0) == pmhErrorInvalidValue);
        HOST_OK(pmhEventRecord(join, branch));
        HOST_OK(pmhEventSynchronize(join));
    }
    SUBCASE("and have nothing to join") { check_valid(origin, 0); }
    SUBCASE("and are forgotten") {
        HOST_OK(pmhMemsetAsync(device, 0, 16, branch));
        const Ended result = end(origin);
        CHECK(result.status == pmhStreamCaptureStatusActive);
        CHECK(result.code == pmhErrorStreamCaptureUnjoined);
    }
    SUBCASE("and are ended instead of the origin") {
        pmhGraph_t graph = nullptr;
        CHECK(pmhStreamEndCapture(branch, &graph) == pmhErrorStreamCaptureUnmatched);
        check_invalid(origin);
    }
    SUBCASE("whose captured events cannot be asked") {
        CHECK(pmhEventQuery(fork) == pmhErrorCapturedEvent);
        check_invalid(origin);
    }
    SUBCASE("but not through events from outside") {
        Stream free;
        HOST_OK(pmhEventRecord(outside, free));
        CHECK(pmhStreamWaitEvent(origin, outside, 0) == pmhErrorStreamCaptureIsolation);
        check_invalid(origin);
    }
    SUBCASE("nor from another capture") {
        Stream second;
        begin(second);
        CHECK(pmhStreamWaitEvent(second, fork, 0) == pmhErrorStreamCaptureMerge);
        check_invalid(second);
        check_invalid(origin);
    }
    HOST_OK(pmhStreamIsCapturing(branch, &status));
    CHECK(status == pmhStreamCaptureStatusNone);
    HOST_OK(pmhStreamSynchronize(branch));
}
