// SPDX-License-Identifier: MIT
// tests/cpp/host_copies.cpp: copies and fills of the CPU runtime: the bytes, and when the host waits.
#include <algorithm>

#include "host_support.hpp"

using namespace host_tests;

namespace {

constexpr std::size_t size = 100 * KiB + 7;

}  // namespace

TEST_CASE("host copies: every kind of memory to every other") {
    DeviceMemory device(size), other_device(size);
    PinnedMemory pinned(size);
    ManagedMemory managed(size);
    Bytes pageable(size), registered(size);
    HOST_OK(pmhHostRegister(registered.data(), size, pmhHostRegisterDefault));
    void* pooled = nullptr;
    HOST_OK(pmhMallocAsync(&pooled, size, nullptr));
    void* const places[] = {device.ptr,      other_device.ptr,  pinned.ptr, managed.ptr,
                            pageable.data(), registered.data(), pooled};
    unsigned seed = 0;
    for (void* from : places) {
        for (void* to : places) {
            if (from == to) continue;
            const Bytes bytes = pattern(size, ++seed);
            put(from, bytes);
            HOST_OK(pmhMemcpy(to, from, size, pmhMemcpyDefault));
            CHECK(get(to, size) == bytes);
        }
    }
    HOST_OK(pmhFreeAsync(pooled, nullptr));
    HOST_OK(pmhHostUnregister(registered.data()));
}

TEST_CASE("host copies: parts of allocations") {
    DeviceMemory device(size);
    const Bytes bytes = pattern(size, 3);
    put(device, bytes);
    Bytes part(1000);
    HOST_OK(pmhMemcpy(part.data(), device.at(501), 1000, pmhMemcpyDeviceToHost));
    CHECK(std::equal(part.begin(), part.end(), bytes.begin() + 501));
    HOST_OK(pmhMemcpy(device.at(size - 1000), device, 1000, pmhMemcpyDeviceToDevice));
    CHECK(std::equal(bytes.begin(), bytes.begin() + 1000, get(device.at(size - 1000), 1000).begin()));
}

TEST_CASE("host copies: two dimensions") {
    constexpr std::size_t width = 100, height = 33, host_pitch = 128;
    void* device = nullptr;
    std::size_t pitch = 0;
    HOST_OK(pmhMallocPitch(&device, &pitch, width, height));
    CHECK(pitch == 512);
    const Bytes source = pattern(host_pitch * height, 5);
    Bytes target(host_pitch * height, 0xee);
    HOST_OK(pmhMemset2D(device, pitch, 0x11, width, height));
    HOST_OK(pmhMemcpy2D(device, pitch, source.data(), host_pitch, width, height, pmhMemcpyHostToDevice));
    HOST_OK(pmhMemcpy2D(target.data(), host_pitch, device, pitch, width, height, pmhMemcpyDeviceToHost));
    for (std::size_t i = 0; i < target.size(); ++i) {
        const bool inside = i % host_pitch < width;
        CHECK_MESSAGE(target[i] == (inside ? source[i] : 0xee), "at byte ", i);
    }
    HOST_OK(pmhMemset2DAsync(device, pitch, 0x22, 10, 2, nullptr));
    CHECK(get(device, 11) == Bytes{0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, source[10]});
    CHECK(pmhMemcpy2D(device, width - 1, source.data(), host_pitch, width, height, pmhMemcpyDefault) ==
          pmhErrorInvalidValue);
    CHECK(pmhMemset2D(device, width - 1, 0, width, height) == pmhErrorInvalidValue);
    CHECK(pmhMemcpy2D(device, pitch, source.data(), host_pitch, width, height + 1, pmhMemcpyDefault) ==
          pmhErrorInvalidValue);
    CHECK(pmhMemcpy2D(nullptr, 0, nullptr, 0, 0, height, pmhMemcpyDefault) == pmhSuccess);
    HOST_OK(pmhFree(device));
}

TEST_CASE("host copies: three dimensions") {
    constexpr std::size_t pitch = 32, rows = 8, slices = 5;
    DeviceMemory device(pitch * rows * slices);
    const Bytes source = pattern(pitch * rows * slices, 9);
    HOST_OK(pmhMemset(device, 0, pitch * rows * slices));
    pmhMemcpy3DParms parms{};
    parms.srcPtr = {const_cast<unsigned char*>(source.data()), pitch, pitch, rows};
    parms.srcPos = {3, 2, 1};
    parms.dstPtr = {device, pitch, pitch, rows};
    parms.dstPos = {5, 1, 2};
    parms.extent = {10, 4, 3};
    parms.kind = pmhMemcpyHostToDevice;
    HOST_OK(pmhMemcpy3D(&parms));
    const Bytes target = get(device, source.size());
    Bytes expected(source.size(), 0);
    for (std::size_t z = 0; z < 3; ++z)
        for (std::size_t y = 0; y < 4; ++y)
            for (std::size_t x = 0; x < 10; ++x)
                expected[((z + 2) * rows + y + 1) * pitch + x + 5] = source[((z + 1) * rows + y + 2) * pitch + x + 3];
    CHECK(target == expected);

    SUBCASE("refusals") {
        auto bad = parms;
        bad.extent.width = pitch;
        CHECK(pmhMemcpy3D(&bad) == pmhErrorInvalidValue);
        bad = parms;
        bad.extent.height = rows;
        CHECK(pmhMemcpy3D(&bad) == pmhErrorInvalidValue);
        bad = parms;
        bad.dstPos.z = 3;
        CHECK(pmhMemcpy3D(&bad) == pmhErrorInvalidValue);
        bad = parms;
        bad.dstPos.z = SIZE_MAX / 2;
        CHECK(pmhMemcpy3D(&bad) == pmhErrorInvalidValue);
        bad = parms;
        bad.kind = pmhMemcpyDeviceToHost;
        CHECK(pmhMemcpy3D(&bad) == pmhErrorInvalidValue);
        bad = parms;
        bad.extent.depth = 0;
        CHECK(pmhMemcpy3DAsync(&bad, nullptr) == pmhSuccess);
        CHECK(pmhMemcpy3D(nullptr) == pmhErrorInvalidValue);
    }
    SUBCASE("a single slice needs no height") {
        auto flat = parms;
        flat.srcPtr.ysize = flat.dstPtr.ysize = 0;
        flat.srcPos.z = flat.dstPos.z = 0;
        flat.extent.depth = 1;
        CHECK(pmhMemcpy3D(&flat) == pmhSuccess);
    }
}

TEST_CASE("host copies: between devices") {
    DeviceMemory here(size);
    HOST_OK(pmhSetDevice(1));
    DeviceMemory there(size);
    HOST_OK(pmhSetDevice(0));
    const Bytes bytes = pattern(size, 12);
    put(here, bytes);
    HOST_OK(pmhMemcpyPeer(there, 1, here, 0, size));
    CHECK(get(there, size) == bytes);
    Stream stream;
    HOST_OK(pmhMemset(here, 0, size));
    HOST_OK(pmhDeviceSynchronize());
    HOST_OK(pmhMemcpyPeerAsync(here, 0, there, 1, size, stream));
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(get(here, size) == bytes);
    Bytes pageable(size);
    CHECK(pmhMemcpyPeer(pageable.data(), 0, here, 0, size) == pmhErrorInvalidValue);
    CHECK(pmhMemcpyPeer(there, 0, here, 0, size) == pmhErrorInvalidValue);
    CHECK(pmhMemcpyPeer(there, 9, here, 0, size) == pmhErrorInvalidDevice);
    CHECK(pmhMemcpyPeerAsync(there, 1, here, -1, 0, stream) == pmhErrorInvalidDevice);
}

TEST_CASE("host copies: between devices, ordered with the legacy streams of both and waiting for neither") {
    DeviceMemory here(KiB);
    HOST_OK(pmhSetDevice(1));
    DeviceMemory there(KiB);
    Latch latch;
    latch.hold(nullptr);
    HOST_OK(pmhSetDevice(0));
    HOST_OK(pmhMemcpyPeer(there, 1, here, 0, KiB));
    CHECK(pmhStreamQuery(nullptr) == pmhErrorNotReady);
    latch.open();
    HOST_OK(pmhStreamSynchronize(nullptr));
    HOST_OK(pmhSetDevice(1));
    HOST_OK(pmhStreamSynchronize(nullptr));
    HOST_OK(pmhSetDevice(0));
}

TEST_CASE("host copies: what waits behind a held stream") {
    Stream stream(pmhStreamDefault);
    DeviceMemory device(KiB), device2(KiB);
    PinnedMemory pinned(KiB), pinned2(KiB);
    ManagedMemory managed(KiB);
    Bytes pageable(KiB), pageable2(KiB);
    enum Expected { returns, waits };
    const auto check = [&](Expected expected, auto&& call) {
        Latch latch;
        latch.hold(stream);
        Blocked blocked(call);
        CHECK((expected == returns ? blocked.returns() : blocked.still()));
        latch.open();
        CHECK(blocked.join() == pmhSuccess);
        HOST_OK(pmhDeviceSynchronize());
    };
    const auto async = [&](Expected expected, void* dst, const void* src) {
        check(expected, [=, &stream] { return pmhMemcpyAsync(dst, src, KiB, pmhMemcpyDefault, stream); });
    };
    async(returns, device, pinned);
    async(returns, pinned, device);
    async(returns, device, device2);
    async(returns, managed, pinned);
    async(returns, device, managed);
    async(waits, device, pageable.data());
    async(waits, pageable.data(), device);
    async(waits, managed, pageable.data());
    async(waits, pinned, pinned2);
    async(waits, pageable.data(), pageable2.data());

    const auto sync = [&](Expected expected, void* dst, const void* src) {
        check(expected, [=] { return pmhMemcpy(dst, src, KiB, pmhMemcpyDefault); });
    };
    sync(returns, device, device2);
    sync(waits, device, pinned);
    sync(waits, device, managed);
    sync(waits, pageable.data(), pageable2.data());
    check(returns, [&] { return pmhMemset(device, 1, KiB); });
    check(waits, [&] { return pmhMemset(pinned, 1, KiB); });
    check(waits, [&] { return pmhMemset(managed, 1, KiB); });
    check(returns, [&] { return pmhMemsetAsync(pinned, 1, KiB, stream); });
    check(returns, [&] { return pmhMemcpyPeer(device, 0, device2, 0, KiB); });
}

TEST_CASE("host copies: memory freed early stays until the work is done") {
    Stream stream;
    PinnedMemory result(size);
    const Bytes bytes = pattern(size, 4);
    void *device = nullptr, *pinned = nullptr;
    HOST_OK(pmhMalloc(&device, size));
    HOST_OK(pmhHostMalloc(&pinned, size, 0));
    std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(pinned));
    {
        Latch latch;
        latch.hold(stream);
        HOST_OK(pmhMemcpyAsync(device, pinned, size, pmhMemcpyHostToDevice, stream));
        HOST_OK(pmhMemcpyAsync(result, device, size, pmhMemcpyDeviceToHost, stream));
        HOST_OK(pmhFree(device));
        HOST_OK(pmhHostFree(pinned));
        CHECK(pmhFree(device) == pmhErrorInvalidValue);
        CHECK(pmhMemcpyAsync(result, device, size, pmhMemcpyDeviceToHost, stream) == pmhErrorInvalidValue);
    }
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(std::equal(bytes.begin(), bytes.end(), result.bytes()));
}

TEST_CASE("host fills: the low byte, on every kind that a device reaches") {
    DeviceMemory device(size);
    PinnedMemory pinned(size);
    ManagedMemory managed(size);
    for (void* place : {device.ptr, pinned.ptr, managed.ptr}) {
        HOST_OK(pmhMemset(place, 0x1ab, size));
        CHECK(get(place, size) == Bytes(size, 0xab));
        HOST_OK(pmhMemsetAsync(static_cast<char*>(place) + 10, -1, 5, nullptr));
        CHECK(get(static_cast<char*>(place) + 9, 7) == Bytes{0xab, 0xff, 0xff, 0xff, 0xff, 0xff, 0xab});
    }
    Bytes pageable(size);
    const pmhError_t expected = has(pmhDevAttrPageableMemoryAccess) ? pmhSuccess : pmhErrorInvalidValue;
    CHECK(pmhMemset(pageable.data(), 1, size) == expected);
    Stream stream;
    {
        Latch latch;
        latch.hold(stream);
        CHECK(pmhMemsetAsync(pageable.data(), 2, size, stream) == expected);
        CHECK(pageable[0] == (expected == pmhSuccess ? 1 : 0));
    }
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(pageable == Bytes(size, expected == pmhSuccess ? 2 : 0));
}
