// SPDX-License-Identifier: MIT
// tests/cpp/rt_pool.cpp: stream-ordered memory and its pools.
#include "rt_support.hpp"

namespace {

using rt::MemPoolAttr;

bool no_pools() { return no_device() || !has(rt::DeviceAttr::MemoryPoolsSupported); }

struct TestPool {
    rt::MemPool_t handle{};
    explicit TestPool(std::size_t max_size = 0) {
        REQUIRE(rt::MemPoolCreate(&handle, {{LocationType::Device, 0}, max_size}) == Success);
    }
    ~TestPool() { CHECK(rt::MemPoolDestroy(handle) == Success); }
    TestPool(const TestPool&) = delete;
    TestPool& operator=(const TestPool&) = delete;

    std::uint64_t get(MemPoolAttr attr) const {
        std::uint64_t value = 12345;
        REQUIRE(rt::MemPoolGetAttribute(handle, attr, &value) == Success);
        return value;
    }
    Error_t set(MemPoolAttr attr, std::uint64_t value) const { return rt::MemPoolSetAttribute(handle, attr, value); }
};

}  // namespace

TEST_CASE("rt: stream-ordered memory keeps what its stream writes") {
    if (no_pools()) return;
    const std::size_t nbytes = 3 * MiB + 5;
    const TestStream stream;
    const PinnedMemory from(nbytes);
    const PinnedMemory to(nbytes);
    const Bytes bytes = pattern(nbytes, 51);
    std::copy(bytes.begin(), bytes.end(), from.bytes());
    for (int round = 0; round < 3; ++round) {
        void* ptr = nullptr;
        REQUIRE(rt::MallocAsync(&ptr, nbytes, stream.handle) == Success);
        CHECK(rt::MemcpyAsync(ptr, from.ptr, nbytes, MemcpyKind::HostToDevice, stream.handle) == Success);
        CHECK(rt::MemcpyAsync(to.ptr, ptr, nbytes, MemcpyKind::DeviceToHost, stream.handle) == Success);
        CHECK(rt::FreeAsync(ptr, stream.handle) == Success);
        CHECK(rt::StreamSynchronize(stream.handle) == Success);
        CHECK(Bytes(to.bytes(), to.bytes() + nbytes) == bytes);
    }
}

TEST_CASE("rt: the pointer query knows stream-ordered memory") {
    if (no_pools()) return;
    const TestStream stream;
    void* ptr = nullptr;
    REQUIRE(rt::MallocAsync(&ptr, 10000, stream.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    rt::PointerAttributes attributes;
    REQUIRE(rt::PointerGetAttributes(&attributes, static_cast<unsigned char*>(ptr) + 8) == Success);
    CHECK(attributes.type == rt::MemoryType::Device);
    CHECK(attributes.base == ptr);
    CHECK(attributes.nbytes >= 10000);
    CHECK(rt::FreeAsync(ptr, stream.handle) == Success);
}

TEST_CASE("rt: a wrong stream-ordered free is refused") {
    if (no_pools()) return;
    const TestStream stream;
    Bytes plain(64);
    void* ptr = nullptr;
    REQUIRE(rt::MallocAsync(&ptr, 4096, stream.handle) == Success);
    CHECK(rt::FreeAsync(plain.data(), stream.handle) == Error_t::InvalidValue);
    CHECK(rt::FreeAsync(static_cast<unsigned char*>(ptr) + 256, stream.handle) == Error_t::InvalidValue);
    CHECK(rt::FreeAsync(ptr, stream.handle) == Success);
    CHECK(rt::FreeAsync(ptr, stream.handle) == Error_t::InvalidValue);
    CHECK(rt::MallocAsync(&ptr, std::size_t{1} << 50, stream.handle) == Error_t::OutOfMemory);
    CHECK(ptr == nullptr);
    CHECK(rt::PeekAtLastError() == Success);
}

TEST_CASE("rt: a new pool has the documented attributes") {
    if (no_pools()) return;
    const TestPool pool;
    for (const auto reuse : {MemPoolAttr::ReuseFollowEventDependencies, MemPoolAttr::ReuseAllowOpportunistic,
                             MemPoolAttr::ReuseAllowInternalDependencies}) {
        CHECK(pool.get(reuse) == 1);
        CHECK(pool.set(reuse, 0) == Success);
        CHECK(pool.get(reuse) == 0);
        CHECK(pool.set(reuse, 5) == Success);
        CHECK(pool.get(reuse) == 1);
    }
    CHECK(pool.get(MemPoolAttr::ReleaseThreshold) == 0);
    CHECK(pool.set(MemPoolAttr::ReleaseThreshold, UINT64_MAX) == Success);
    CHECK(pool.get(MemPoolAttr::ReleaseThreshold) == UINT64_MAX);
    for (const auto current : {MemPoolAttr::ReservedMemCurrent, MemPoolAttr::UsedMemCurrent}) {
        CHECK(pool.get(current) == 0);
        CHECK(pool.set(current, 0) == Error_t::InvalidValue);
    }
    for (const auto high : {MemPoolAttr::ReservedMemHigh, MemPoolAttr::UsedMemHigh}) {
        CHECK(pool.set(high, 5) == Error_t::InvalidValue);
        CHECK(pool.set(high, 0) == Success);
    }
}

TEST_CASE("rt: a pool counts what is used, keeps up to its threshold and is trimmed") {
    if (no_pools()) return;
    const std::size_t nbytes = 32 * MiB;
    const TestPool pool;
    const TestStream stream;
    CHECK(pool.set(MemPoolAttr::ReleaseThreshold, UINT64_MAX) == Success);
    void* ptr = nullptr;
    REQUIRE(rt::MallocFromPoolAsync(&ptr, nbytes, pool.handle, stream.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    CHECK(keeps_bytes(ptr, nbytes, 52));
    CHECK(pool.get(MemPoolAttr::UsedMemCurrent) >= nbytes);
    CHECK(pool.get(MemPoolAttr::ReservedMemCurrent) >= pool.get(MemPoolAttr::UsedMemCurrent));
    CHECK(rt::FreeAsync(ptr, stream.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    CHECK(pool.get(MemPoolAttr::UsedMemCurrent) == 0);
    CHECK(pool.get(MemPoolAttr::UsedMemHigh) >= nbytes);
    CHECK(pool.get(MemPoolAttr::ReservedMemCurrent) >= nbytes);
    CHECK(rt::MemPoolTrimTo(pool.handle, 0) == Success);
    CHECK(pool.get(MemPoolAttr::ReservedMemCurrent) == 0);
    CHECK(pool.get(MemPoolAttr::ReservedMemHigh) >= nbytes);
    CHECK(pool.set(MemPoolAttr::ReservedMemHigh, 0) == Success);
    CHECK(pool.get(MemPoolAttr::ReservedMemHigh) == 0);
}

TEST_CASE("rt: memory outlives its pool") {
    if (no_pools()) return;
    const TestStream stream;
    void* ptr = nullptr;
    {
        const TestPool pool;
        REQUIRE(rt::MallocFromPoolAsync(&ptr, MiB, pool.handle, stream.handle) == Success);
        CHECK(rt::StreamSynchronize(stream.handle) == Success);
    }
    CHECK(keeps_bytes(ptr, MiB, 53));
    CHECK(rt::FreeAsync(ptr, stream.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
}

TEST_CASE("rt: a pool's size may be limited") {
    if (no_pools()) return;
    const TestPool pool(64 * MiB);
    const TestStream stream;
    void* ptr = nullptr;
    // The limit is a hint where the vendor's structure has no field for it.
    const Error_t beyond = rt::MallocFromPoolAsync(&ptr, 512 * MiB, pool.handle, stream.handle);
    CHECK((beyond == Error_t::OutOfMemory || beyond == Success));
    CHECK(rt::FreeAsync(ptr, stream.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
    REQUIRE(rt::MallocFromPoolAsync(&ptr, MiB, pool.handle, stream.handle) == Success);
    CHECK(rt::FreeAsync(ptr, stream.handle) == Success);
    CHECK(rt::StreamSynchronize(stream.handle) == Success);
}

TEST_CASE("rt: a pool that cannot be is refused") {
    if (no_pools()) return;
    rt::MemPool_t pool{};
    CHECK(rt::MemPoolCreate(&pool, {{LocationType::Host, 0}, 0}) == Error_t::InvalidValue);
    const Error_t nowhere = rt::MemPoolCreate(&pool, {{LocationType::Device, device_count()}, 0});
    CHECK((nowhere == Error_t::InvalidValue || nowhere == Error_t::InvalidDevice));
}

TEST_CASE("rt: a pool's own device reaches it; others where they are peers") {
    if (no_pools()) return;
    const TestPool pool;
    const Location own{LocationType::Device, 0};
    rt::MemAccessFlags access = rt::MemAccessFlags::None;
    CHECK(rt::MemPoolGetAccess(&access, pool.handle, own) == Success);
    CHECK(access == rt::MemAccessFlags::ReadWrite);
    CHECK(rt::MemPoolSetAccess(pool.handle, own, rt::MemAccessFlags::ReadWrite) == Success);
    CHECK(rt::MemPoolSetAccess(pool.handle, {LocationType::Device, -1}, rt::MemAccessFlags::ReadWrite) ==
          Error_t::InvalidDevice);
    int can_access = 0;
    if (device_count() < 2) return;
    REQUIRE(rt::DeviceCanAccessPeer(&can_access, 1, 0) == Success);
    if (can_access == 0) return;
    const Location peer{LocationType::Device, 1};
    CHECK(rt::MemPoolGetAccess(&access, pool.handle, peer) == Success);
    CHECK(access == rt::MemAccessFlags::None);
    for (const auto flags : {rt::MemAccessFlags::ReadWrite, rt::MemAccessFlags::None}) {
        CHECK(rt::MemPoolSetAccess(pool.handle, peer, flags) == Success);
        CHECK(rt::MemPoolGetAccess(&access, pool.handle, peer) == Success);
        CHECK(access == flags);
    }
}

TEST_CASE("rt: a device's pool is its default one until another is set") {
    if (no_pools()) return;
    rt::MemPool_t usual{};
    rt::MemPool_t current{};
    REQUIRE(rt::DeviceGetDefaultMemPool(&usual, 0) == Success);
    REQUIRE(rt::DeviceGetMemPool(&current, 0) == Success);
    CHECK(current == usual);
    CHECK(rt::MemPoolDestroy(usual) == Error_t::InvalidValue);
    rt::DeviceState_t saved{};
    REQUIRE(rt::PushDevice(0, &saved) == Success);
    {
        const TestPool pool;
        const TestStream stream;
        CHECK(rt::DeviceSetMemPool(0, pool.handle) == Success);
        CHECK(rt::DeviceGetMemPool(&current, 0) == Success);
        CHECK(current == pool.handle);
        void* ptr = nullptr;
        REQUIRE(rt::MallocAsync(&ptr, MiB, stream.handle) == Success);
        CHECK(rt::StreamSynchronize(stream.handle) == Success);
        CHECK(pool.get(MemPoolAttr::UsedMemCurrent) >= MiB);
        CHECK(rt::FreeAsync(ptr, stream.handle) == Success);
        CHECK(rt::StreamSynchronize(stream.handle) == Success);
        CHECK(rt::DeviceSetMemPool(0, usual) == Success);
    }
    CHECK(rt::DeviceGetMemPool(&current, 0) == Success);
    CHECK(current == usual);
    CHECK(rt::PopDevice(saved) == Success);
    CHECK(rt::DeviceGetDefaultMemPool(&usual, device_count()) == Error_t::InvalidDevice);
}
