// SPDX-License-Identifier: MIT
// tests/cpp/host_access.cpp: copies between two devices of the CPU runtime, whose memory is open to the other or not.
#include "host_virtual_support.hpp"

using namespace host_tests;

namespace {

constexpr std::size_t size = 3 * KiB + 5;

// Copies by every call that does not name the devices. Returns the one answer that all of them gave, or -1.
int answer_of_copies(void* dst, const void* src, pmhStream_t stream) {
    constexpr std::size_t width = 64, height = 8, depth = 2;
    pmhMemcpy3DParms box{};
    box.dstPtr = {dst, width, width, height};
    box.srcPtr = {const_cast<void*>(src), width, width, height};
    box.extent = {width, height, depth};
    box.kind = pmhMemcpyDefault;
    // Each has run before the next begins: nothing else orders a call without a stream with one on a stream.
    const auto done = [stream](pmhError_t answer) {
        HOST_OK(pmhStreamSynchronize(stream));
        HOST_OK(pmhDeviceSynchronize());
        return answer;
    };
    const pmhError_t answers[] = {
        done(pmhMemcpy(dst, src, size, pmhMemcpyDefault)),
        done(pmhMemcpyAsync(dst, src, size, pmhMemcpyDeviceToDevice, stream)),
        done(pmhMemcpy2D(dst, width, src, width, width, height, pmhMemcpyDefault)),
        done(pmhMemcpy2DAsync(dst, width, src, width, width, height, pmhMemcpyDefault, stream)),
        done(pmhMemcpy3D(&box)),
        done(pmhMemcpy3DAsync(&box, stream)),
    };
    (void)pmhGetLastError();
    for (const pmhError_t each : answers)
        if (each != answers[0]) return -1;
    return answers[0];
}

// Checks all copies between memory of device 0, which `open` opens to device 1 or not, and plain memory of device 1.
template <class Open>
void needs_access(void* memory, const Open& open) {
    HOST_OK(pmhSetDevice(1));
    const DeviceMemory far(size);
    const Stream there;
    HOST_OK(pmhSetDevice(0));
    const DeviceMemory near(size);
    const Stream here;
    put(memory, pattern(size, 1));
    put(far, pattern(size, 2));
    for (const pmhStream_t stream : {here.handle, there.handle}) {
        CHECK(answer_of_copies(far, memory, stream) == pmhErrorInvalidValue);
        CHECK(answer_of_copies(memory, far, stream) == pmhErrorInvalidValue);
        CHECK(get(memory, size) == pattern(size, 1));
        CHECK(get(far, size) == pattern(size, 2));
        // Its own device's memory, the host's, and fills need nothing.
        CHECK(answer_of_copies(near, memory, stream) == pmhSuccess);
        CHECK(get(near, size) == pattern(size, 1));
        CHECK(pmhMemsetAsync(near, 3, size, stream) == pmhSuccess);
        CHECK(pmhMemcpyAsync(memory, near, size, pmhMemcpyDefault, stream) == pmhSuccess);
        HOST_OK(pmhStreamSynchronize(stream));
        CHECK(get(memory, size) == Bytes(size, 3));
        put(memory, pattern(size, 1));
    }
    // The calls that name both devices need nothing either.
    HOST_OK(pmhMemcpyPeer(far, 1, memory, 0, size));
    CHECK(get(far, size) == pattern(size, 1));
    HOST_OK(pmhMemcpyPeerAsync(memory, 0, far, 1, size, there));
    HOST_OK(pmhStreamSynchronize(there));
    (void)pmhMemcpy(far, memory, size, pmhMemcpyDefault);
    CHECK(std::string(pmhGetLastErrorDetail()).find("device 1 has no access") != std::string::npos);
    (void)pmhGetLastError();

    open(pmhMemAccessFlagsProtReadWrite);
    for (const pmhStream_t stream : {here.handle, there.handle}) {
        CHECK(answer_of_copies(far, memory, stream) == pmhSuccess);
        CHECK(get(far, size) == pattern(size, 1));
        put(far, pattern(size, 4));
        CHECK(answer_of_copies(memory, far, stream) == pmhSuccess);
        CHECK(get(memory, size) == pattern(size, 4));
        put(memory, pattern(size, 1));
    }
    open(pmhMemAccessFlagsProtNone);
    CHECK(answer_of_copies(far, memory, here) == pmhErrorInvalidValue);
}

}  // namespace

TEST_CASE("host access: a copy between a pool's memory and another device's needs the pool's access") {
    const Pool pool;
    const Stream stream;
    void* const memory = pool.allocate(size, stream);
    HOST_OK(pmhStreamSynchronize(stream));
    const auto open = [&](int flags) { return pmhMemPoolSetAccess(pool, on(1), flags); };
    needs_access(memory, [&](int flags) { HOST_OK(open(flags)); });

    // Memory that the other device may only read is no target.
    HOST_OK(pmhSetDevice(1));
    const DeviceMemory far(size);
    HOST_OK(pmhSetDevice(0));
    HOST_OK(open(pmhMemAccessFlagsProtRead));
    CHECK(answer_of_copies(far, memory, stream) == pmhSuccess);
    CHECK(answer_of_copies(memory, far, stream) == pmhErrorInvalidValue);
    HOST_OK(pmhFreeAsync(memory, stream));
    HOST_OK(pmhStreamSynchronize(stream));
}

TEST_CASE("host access: a copy between virtual memory and another device's needs the range's access") {
    const Range range(2 * granule);
    const Physical memory(granule);
    const Mapped mapped(range.ptr, memory);
    needs_access(range.ptr, [&](int flags) { HOST_OK(set_access(range.ptr, granule, flags, 1)); });
}

TEST_CASE("host access: between two pools each device needs access to the other's") {
    const Pool here(0, 0), there(0, 1);
    const Stream stream;
    void* const near = here.allocate(size, stream);
    void* const far = there.allocate(size, stream);
    HOST_OK(pmhStreamSynchronize(stream));
    const auto open = [&](const Pool& pool, int to, int flags) { HOST_OK(pmhMemPoolSetAccess(pool, on(to), flags)); };
    CHECK(answer_of_copies(far, near, stream) == pmhErrorInvalidValue);
    open(here, 1, pmhMemAccessFlagsProtReadWrite);
    CHECK(answer_of_copies(far, near, stream) == pmhErrorInvalidValue);
    open(there, 0, pmhMemAccessFlagsProtReadWrite);
    CHECK(answer_of_copies(far, near, stream) == pmhSuccess);
    open(here, 1, pmhMemAccessFlagsProtNone);
    CHECK(answer_of_copies(near, far, stream) == pmhErrorInvalidValue);
    HOST_OK(pmhFreeAsync(near, stream));
    HOST_OK(pmhFreeAsync(far, stream));
    HOST_OK(pmhStreamSynchronize(stream));
}

TEST_CASE("host access: each piece of a range needs its own") {
    HOST_OK(pmhSetDevice(1));
    const DeviceMemory far(2 * granule);
    HOST_OK(pmhSetDevice(0));
    const Range range(2 * granule);
    const Physical first(granule), second(granule);
    const Mapped low(range.ptr, first), high(range.at(granule), second);
    put(range.ptr, pattern(2 * granule, 7));
    HOST_OK(set_access(range.ptr, granule, pmhMemAccessFlagsProtReadWrite, 1));
    HOST_OK(pmhMemcpy(far, range.ptr, granule, pmhMemcpyDefault));
    CHECK(pmhMemcpy(far, range.ptr, granule + 1, pmhMemcpyDefault) == pmhErrorInvalidValue);
    CHECK(pmhMemcpy(range.ptr, far, granule + 1, pmhMemcpyDefault) == pmhErrorInvalidValue);
    HOST_OK(set_access(range.at(granule), granule, pmhMemAccessFlagsProtReadWrite, 1));
    HOST_OK(pmhMemcpy(far, range.ptr, 2 * granule, pmhMemcpyDefault));
    CHECK(get(far, 2 * granule) == pattern(2 * granule, 7));
    // The two devices' pieces of one range reach each other's memory only as each was told.
    const Range mixed(2 * granule);
    const Physical near_memory(granule), far_memory(granule, 1);
    const Mapped near(mixed.ptr, near_memory);
    HOST_OK(map(mixed.at(granule), granule, far_memory.handle));
    HOST_OK(set_access(mixed.at(granule), granule, pmhMemAccessFlagsProtReadWrite, 1));
    const DeviceMemory target(2 * granule);
    CHECK(pmhMemcpy(target, mixed.ptr, 2 * granule, pmhMemcpyDefault) == pmhErrorInvalidValue);
    HOST_OK(set_access(mixed.at(granule), granule));
    HOST_OK(pmhMemcpy(target, mixed.ptr, 2 * granule, pmhMemcpyDefault));
    HOST_OK(pmhDeviceSynchronize());
    HOST_OK(pmhMemUnmap(mixed.at(granule), granule));
}
