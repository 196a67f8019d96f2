// SPDX-License-Identifier: MIT
// tests/cpp/host_refusals.cpp: wrong pointers, sizes and directions: the codes that a GPU's runtime gives, and the
// sentence beside them.
#include "host_support.hpp"

using namespace host_tests;

TEST_CASE("host refusals: frees") {
    DeviceMemory device(KiB);
    PinnedMemory pinned(KiB);
    ManagedMemory managed(KiB);
    Bytes pageable(KiB);
    void* pooled = nullptr;
    HOST_OK(pmhMallocAsync(&pooled, KiB, nullptr));

    CHECK(pmhFree(pageable.data()) == pmhErrorInvalidValue);
    CHECK(pmhFreeAsync(pageable.data(), nullptr) == pmhErrorInvalidValue);
    CHECK(pmhHostFree(pageable.data()) == pmhErrorInvalidValue);
    CHECK(pmhFree(device.at(16)) == pmhErrorInvalidValue);
    CHECK(detail().find("16 bytes inside device memory") != std::string::npos);
    CHECK(pmhFreeAsync(static_cast<char*>(pooled) + 1, nullptr) == pmhErrorInvalidValue);
    CHECK(pmhHostFree(pinned.bytes() + 1) == pmhErrorInvalidValue);
    CHECK(pmhFree(pinned) == pmhErrorInvalidValue);
    CHECK(detail().find("is pinned host memory, not memory of Malloc") != std::string::npos);
    CHECK(pmhHostFree(device) == pmhErrorInvalidValue);
    CHECK(pmhHostFree(managed) == pmhErrorInvalidValue);
    CHECK(pmhFreeAsync(pinned, nullptr) == pmhErrorInvalidValue);
    CHECK(pmhFreeAsync(managed, nullptr) == pmhErrorNotSupported);

    HOST_OK(pmhFreeAsync(pooled, nullptr));
    CHECK(pmhFreeAsync(pooled, nullptr) == pmhErrorInvalidValue);
    CHECK(detail().find("freed already") != std::string::npos);
    CHECK(pmhFree(pooled) == pmhErrorInvalidValue);
    CHECK(pmhFree(nullptr) == pmhSuccess);
    CHECK(pmhHostFree(nullptr) == pmhSuccess);
    CHECK(pmhFreeAsync(nullptr, nullptr) == pmhSuccess);
}

TEST_CASE("host refusals: either free takes the other's device memory") {
    void *plain = nullptr, *pooled = nullptr;
    HOST_OK(pmhMalloc(&plain, KiB));
    HOST_OK(pmhMallocAsync(&pooled, KiB, nullptr));
    HOST_OK(pmhFreeAsync(plain, nullptr));
    HOST_OK(pmhFree(pooled));
    CHECK(pmhFree(plain) == pmhErrorInvalidValue);
    CHECK(pmhFreeAsync(pooled, nullptr) == pmhErrorInvalidValue);
}

TEST_CASE("host refusals: copies that do not fit") {
    DeviceMemory device(16);
    Bytes pageable(64);
    CHECK(pmhMemcpy(device.at(8), pageable.data(), 20, pmhMemcpyHostToDevice) == pmhErrorInvalidValue);
    CHECK(detail() == "Memcpy of 20 bytes at offset 8 leaves the allocation of 16 bytes");
    CHECK(pmhMemcpy(pageable.data(), device, 17, pmhMemcpyDefault) == pmhErrorInvalidValue);
    CHECK(pmhMemcpy(pageable.data(), device, SIZE_MAX, pmhMemcpyDefault) == pmhErrorInvalidValue);
    CHECK(pmhMemset(device, 0, 17) == pmhErrorInvalidValue);
    CHECK(pmhMemsetAsync(device.at(15), 0, 2, nullptr) == pmhErrorInvalidValue);
    CHECK(pmhMemcpy(pageable.data(), device.at(16), 1, pmhMemcpyDefault) == pmhErrorInvalidValue);
    CHECK(pmhMemcpy(pageable.data(), device, 16, pmhMemcpyDeviceToHost) == pmhSuccess);  // nothing was sticky
    CHECK(pmhGetLastError() == pmhErrorInvalidValue);
    CHECK(pmhGetLastError() == pmhSuccess);
}

TEST_CASE("host refusals: memory of a pool that nobody holds") {
    Pool pool;
    void* first = pool.allocate(KiB, nullptr);
    void* second = pool.allocate(KiB, nullptr);
    Bytes bytes(16);
    HOST_OK(pmhFreeAsync(first, nullptr));
    CHECK(pmhMemcpy(bytes.data(), first, 16, pmhMemcpyDefault) == pmhErrorInvalidValue);
    CHECK(detail().find("in no allocation") != std::string::npos);
    HOST_OK(pmhFreeAsync(second, nullptr));
}

TEST_CASE("host refusals: a pageable range that runs into an allocation") {
    Bytes bytes(256);
    HOST_OK(pmhHostRegister(bytes.data() + 128, 64, 0));
    CHECK(pmhMemcpy(bytes.data(), bytes.data() + 150, 200, pmhMemcpyHostToHost) == pmhErrorInvalidValue);
    DeviceMemory device(256);
    CHECK(pmhMemcpy(device, bytes.data(), 256, pmhMemcpyHostToDevice) == pmhErrorInvalidValue);
    CHECK(detail().find("runs from pageable memory into an allocation") != std::string::npos);
    HOST_OK(pmhHostUnregister(bytes.data() + 128));
    HOST_OK(pmhMemcpy(device, bytes.data(), 256, pmhMemcpyHostToDevice));
}

TEST_CASE("host refusals: directions") {
    DeviceMemory device(KiB), other(KiB);
    PinnedMemory pinned(KiB), pinned2(KiB);
    ManagedMemory managed(KiB);
    Bytes pageable(KiB), pageable2(KiB);
    const auto copy = [](void* dst, const void* src, int kind) { return pmhMemcpy(dst, src, KiB, kind); };

    CHECK(copy(device, pageable.data(), pmhMemcpyDeviceToHost) == pmhErrorInvalidValue);
    CHECK(copy(pageable.data(), device, pmhMemcpyHostToDevice) == pmhErrorInvalidValue);
    CHECK(copy(pageable.data(), pageable2.data(), pmhMemcpyDeviceToDevice) == pmhErrorInvalidValue);
    CHECK(copy(pageable.data(), pageable2.data(), pmhMemcpyHostToDevice) == pmhErrorInvalidValue);
    CHECK(copy(device, other, pmhMemcpyHostToHost) == pmhErrorInvalidValue);
    CHECK(copy(device, other, pmhMemcpyHostToDevice) == pmhErrorInvalidValue);
    CHECK(copy(device, pageable.data(), pmhMemcpyHostToHost) == pmhErrorInvalidValue);
    CHECK(detail().find("the destination is device memory, but the direction says host") != std::string::npos);

    for (const int kind : {0, 1, 2, 3, 4}) {
        CHECK(copy(pinned, pinned2, kind) == pmhSuccess);
        CHECK(copy(managed, pinned, kind) == pmhSuccess);
    }
    CHECK(copy(device, managed, pmhMemcpyHostToDevice) == pmhSuccess);
    CHECK(copy(device, managed, pmhMemcpyDeviceToDevice) == pmhSuccess);
    CHECK(copy(pageable.data(), managed, pmhMemcpyDeviceToHost) == pmhSuccess);
    CHECK(copy(pageable.data(), managed, pmhMemcpyHostToHost) == pmhSuccess);

    for (const int kind : {-1, 5, 7, 1024}) {
        CHECK(copy(device, pageable.data(), kind) == pmhErrorInvalidMemcpyDirection);
        CHECK(pmhMemcpyAsync(device, pageable.data(), KiB, kind, nullptr) == pmhErrorInvalidMemcpyDirection);
    }
}

TEST_CASE("host refusals: null and nothing") {
    DeviceMemory device(KiB);
    CHECK(pmhMemcpy(nullptr, nullptr, 0, pmhMemcpyDefault) == pmhSuccess);
    CHECK(pmhMemset(nullptr, 0, 0) == pmhSuccess);
    CHECK(pmhMemcpy(device, nullptr, 16, pmhMemcpyHostToDevice) == pmhErrorInvalidValue);
    CHECK(pmhMemcpy(nullptr, device, 16, pmhMemcpyDefault) == pmhErrorInvalidValue);
    CHECK(pmhMemset(nullptr, 0, 16) == pmhErrorInvalidValue);
    CHECK(pmhMalloc(nullptr, 16) == pmhErrorInvalidValue);
    void* ptr = &ptr;
    HOST_OK(pmhMalloc(&ptr, 0));
    CHECK(ptr == nullptr);
    HOST_OK(pmhMallocAsync(&ptr, 0, nullptr));
    HOST_OK(pmhHostMalloc(&ptr, 0, 0));
    HOST_OK(pmhMallocManaged(&ptr, 0, pmhMemAttachGlobal));
    std::size_t pitch = 5;
    HOST_OK(pmhMallocPitch(&ptr, &pitch, 0, 10));
    CHECK(ptr == nullptr);
    CHECK(pitch == 0);
}

TEST_CASE("host refusals: errors are the thread's own") {
    (void)pmhGetLastError();
    int not_ours = 0;
    CHECK(pmhFree(&not_ours) == pmhErrorInvalidValue);
    std::thread([] {
        CHECK(pmhPeekAtLastError() == pmhSuccess);
        CHECK(detail().empty());
    }).join();
    CHECK(pmhStreamQuery(nullptr) == pmhSuccess);
    CHECK(pmhPeekAtLastError() == pmhErrorInvalidValue);
    CHECK(pmhGetLastError() == pmhErrorInvalidValue);
    CHECK(pmhPeekAtLastError() == pmhSuccess);
    CHECK_FALSE(detail().empty());
}

TEST_CASE("host refusals: an answer that the work is not done is no failure") {
    Stream stream;
    Latch latch;
    (void)pmhGetLastError();
    latch.hold(stream);
    CHECK(pmhStreamQuery(stream) == pmhErrorNotReady);
    CHECK(pmhPeekAtLastError() == pmhSuccess);
}
