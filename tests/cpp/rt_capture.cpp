// SPDX-License-Identifier: MIT
// tests/cpp/rt_capture.cpp: stream capture: what it records, what it forbids, and what leaves it whole.
#include "rt_support.hpp"

namespace {

rt::StreamCaptureStatus capture_status(rt::Stream_t stream) {
    rt::StreamCaptureStatus status{};
    REQUIRE(rt::StreamIsCapturing(stream, &status) == Success);
    return status;
}

}  // namespace

TEST_CASE("rt: a captured stream records and does not run") {
    if (no_device()) return;
    const TestStream stream;
    const DeviceMemory memory(4096);
    CHECK(rt::Memset(memory.ptr, 1, 4096) == Success);
    CHECK(rt::DeviceSynchronize() == Success);
    for (const auto mode :
         {rt::StreamCaptureMode::Global, rt::StreamCaptureMode::ThreadLocal, rt::StreamCaptureMode::Relaxed}) {
        CHECK(capture_status(stream.handle) == rt::StreamCaptureStatus::None);
        REQUIRE(rt::StreamBeginCapture(stream.handle, mode) == Success);
        CHECK(capture_status(stream.handle) == rt::StreamCaptureStatus::Active);
        CHECK(rt::MemsetAsync(memory.ptr, 2, 4096, stream.handle) == Success);
        rt::Graph_t graph{};
        CHECK(rt::StreamEndCapture(stream.handle, &graph) == Success);
        REQUIRE(graph != nullptr);
        CHECK(rt::GraphDestroy(graph) == Success);
    }
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    CHECK(contents(memory.ptr, 4096) == Bytes(4096, 1));
}

TEST_CASE("rt: an allocation under a global capture is refused and invalidates it") {
    if (no_device()) return;
    const TestStream stream;
    void* ptr = nullptr;
    REQUIRE(rt::StreamBeginCapture(stream.handle, rt::StreamCaptureMode::Global) == Success);
    CHECK(rt::Malloc(&ptr, 4096) == Error_t::StreamCaptureUnsupported);
    CHECK(ptr == nullptr);
    CHECK(capture_status(stream.handle) == rt::StreamCaptureStatus::Invalidated);
    rt::Graph_t graph{};
    CHECK(rt::StreamEndCapture(stream.handle, &graph) == Error_t::StreamCaptureInvalidated);
    CHECK(graph == nullptr);
    CHECK(capture_status(stream.handle) == rt::StreamCaptureStatus::None);
    CHECK(rt::PeekAtLastError() == Success);
    const DeviceMemory memory(4096);
    CHECK(keeps_bytes(memory.ptr, 4096, 71));
}

TEST_CASE("rt: under the relaxed mode an allocation leaves a capture whole") {
    if (no_device()) return;
    const TestStream stream;
    REQUIRE(rt::StreamBeginCapture(stream.handle, rt::StreamCaptureMode::Global) == Success);
    auto mode = rt::StreamCaptureMode::Relaxed;
    CHECK(rt::ThreadExchangeStreamCaptureMode(&mode) == Success);
    CHECK(mode == rt::StreamCaptureMode::Global);
    { const DeviceMemory memory(4096); }
    CHECK(rt::ThreadExchangeStreamCaptureMode(&mode) == Success);
    CHECK(mode == rt::StreamCaptureMode::Relaxed);
    CHECK(capture_status(stream.handle) == rt::StreamCaptureStatus::Active);
    rt::Graph_t graph{};
    CHECK(rt::StreamEndCapture(stream.handle, &graph) == Success);
    CHECK(rt::GraphDestroy(graph) == Success);
}

TEST_CASE("rt: the legacy stream is not captured, and asking it leaves a capture whole") {
    if (no_device()) return;
    for (const rt::Stream_t legacy : {NullStream, rt::StreamLegacy()}) {
        CHECK(rt::StreamBeginCapture(legacy, rt::StreamCaptureMode::Relaxed) == Error_t::StreamCaptureUnsupported);
    }
    const TestStream blocking(rt::StreamDefault);
    REQUIRE(rt::StreamBeginCapture(blocking.handle, rt::StreamCaptureMode::Relaxed) == Success);
    rt::StreamCaptureStatus status{};
    CHECK(rt::StreamIsCapturing(rt::StreamLegacy(), &status) == Error_t::StreamCaptureImplicit);
    CHECK(capture_status(blocking.handle) == rt::StreamCaptureStatus::Active);
    rt::Graph_t graph{};
    CHECK(rt::StreamEndCapture(blocking.handle, &graph) == Success);
    CHECK(rt::GraphDestroy(graph) == Success);
}

TEST_CASE("rt: questions and a change of device leave a capture whole") {
    if (no_device()) return;
    const TestStream stream;
    const DeviceMemory memory(4096);
    const PinnedMemory pinned(4096);
    REQUIRE(rt::StreamBeginCapture(stream.handle, rt::StreamCaptureMode::Global) == Success);
    rt::PointerAttributes attributes;
    int value = 0;
    unsigned flags = 0;
    CHECK(rt::PointerGetAttributes(&attributes, memory.ptr) == Success);
    CHECK(rt::PointerGetAttributes(&attributes, pinned.ptr) == Success);
    CHECK(rt::PointerGetAttributes(&attributes, &value) == Success);
    CHECK(rt::HostGetFlags(&flags, pinned.ptr) == Success);
    CHECK(rt::DeviceGetAttribute(&value, rt::DeviceAttr::WarpSize, 0) == Success);
    CHECK(rt::DeviceGetAttribute(&value, rt::DeviceAttr::ManagedMemoryMigrates, 0) == Success);
    const Error_t ipc = rt::PointerGetAttribute(&value, rt::PointerAttr::IsLegacyIpcCapable, memory.ptr);
    CHECK((ipc == Success || ipc == Error_t::NotSupported));
    std::size_t bytes = 0;
    const Error_t unit =
        rt::MemGetAllocationGranularity(&bytes, {LocationType::Device, 0}, rt::MemAllocationGranularity::Minimum);
    CHECK((unit == Success || unit == Error_t::NotSupported));
    CHECK(rt::StreamGetDevice(stream.handle, &value) == Success);
    CHECK(rt::StreamGetPriority(stream.handle, &value) == Success);
    for (int device = 0; device < device_count(); ++device) {
        rt::DeviceState_t saved{};
        CHECK(rt::PushDevice(device, &saved) == Success);
        CHECK(rt::PopDevice(saved) == Success);
    }
    CHECK(capture_status(stream.handle) == rt::StreamCaptureStatus::Active);
    rt::Graph_t graph{};
    CHECK(rt::StreamEndCapture(stream.handle, &graph) == Success);
    CHECK(rt::GraphDestroy(graph) == Success);
}
