// SPDX-License-Identifier: MIT
// tests/cpp/host_knobs.cpp: calls that are told to fail, and copies that are told to take longer.
#include "host_support.hpp"

using namespace host_tests;

TEST_CASE("host knobs: the nth call fails, once") {
    const Knobs knobs;
    void* ptr = nullptr;
    HOST_OK(pmhKnobFailCall("Malloc", 3, pmhErrorOutOfMemory));
    DeviceMemory first(KiB), second(KiB);
    CHECK(pmhMalloc(&ptr, KiB) == pmhErrorOutOfMemory);
    CHECK(detail() == "Malloc was told to fail by a knob");
    HOST_OK(pmhMalloc(&ptr, KiB));
    HOST_OK(pmhFree(ptr));
}

TEST_CASE("host knobs: any call, any code") {
    const Knobs knobs;
    HOST_OK(pmhKnobFailCall(nullptr, 1, 46));
    CHECK(pmhStreamQuery(nullptr) == static_cast<pmhError_t>(46));
    CHECK(pmhStreamQuery(nullptr) == pmhSuccess);
    HOST_OK(pmhKnobFailCall(nullptr, 1, 46));
    HOST_OK(pmhKnobFailCall(nullptr, 0, 0));
    CHECK(pmhStreamQuery(nullptr) == pmhSuccess);
    CHECK(pmhKnobFailCall("Malloc", 1, 0) == pmhErrorInvalidValue);
    CHECK(pmhKnobFailCall("Malloc", 1, 1000) == pmhErrorInvalidValue);
}

TEST_CASE("host knobs: a call that fails leaves nothing behind") {
    const Knobs knobs;
    Pool pool;
    Stream stream;
    std::size_t before = 0, after = 0, total = 0;
    HOST_OK(pmhMemGetInfo(&before, &total));
    void* ptr = nullptr;
    HOST_OK(pmhKnobFailCall("MallocFromPoolAsync", 1, pmhErrorOutOfMemory));
    CHECK(pmhMallocFromPoolAsync(&ptr, KiB, pool, stream) == pmhErrorOutOfMemory);
    CHECK(pool.reserved() == 0);
    CHECK(pool.used() == 0);
    HOST_OK(pmhMemGetInfo(&after, &total));
    CHECK(after == before);
    ptr = pool.allocate(KiB, stream);
    HOST_OK(pmhKnobFailCall("FreeAsync", 1, pmhErrorUnknown));
    CHECK(pmhFreeAsync(ptr, stream) == pmhErrorUnknown);
    CHECK(pool.used() == KiB);
    HOST_OK(pmhFreeAsync(ptr, stream));
}

TEST_CASE("host knobs: a copy can be made to take its time") {
    const Knobs knobs;
    Stream stream;
    DeviceMemory device(KiB);
    PinnedMemory pinned(KiB);
    HOST_OK(pmhKnobSetCopyDelay(40'000));
    const auto start = std::chrono::steady_clock::now();
    HOST_OK(pmhMemcpyAsync(device, pinned, KiB, pmhMemcpyHostToDevice, stream));
    CHECK(pmhStreamQuery(stream) == pmhErrorNotReady);
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(40));
}
