// SPDX-License-Identifier: MIT
// tests/cpp/host_pools.cpp: pools of the CPU runtime: counters, threshold, trim, handles.
#include <set>

#include "host_support.hpp"

using namespace host_tests;

namespace {

constexpr std::uint64_t everything = UINT64_MAX;

}  // namespace

TEST_CASE("host pools: a fresh pool") {
    Pool pool;
    CHECK(pool.get(pmhMemPoolReuseFollowEventDependencies) == 1);
    CHECK(pool.get(pmhMemPoolReuseAllowOpportunistic) == 1);
    CHECK(pool.get(pmhMemPoolReuseAllowInternalDependencies) == 1);
    CHECK(pool.get(pmhMemPoolAttrReleaseThreshold) == 0);
    CHECK(pool.reserved() == 0);
    CHECK(pool.used() == 0);
}

TEST_CASE("host pools: counters and high-water marks") {
    Pool pool;
    pool.set(pmhMemPoolAttrReleaseThreshold, everything);
    void* first = pool.allocate(1000, nullptr);
    void* second = pool.allocate(3 * MiB, nullptr);
    CHECK(pool.used() == 1000 + 3 * MiB);
    CHECK(pool.reserved() == 6 * MiB);
    HOST_OK(pmhFreeAsync(second, nullptr));
    CHECK(pool.used() == 1000);
    CHECK(pool.get(pmhMemPoolAttrUsedMemHigh) == 1000 + 3 * MiB);
    CHECK(pool.get(pmhMemPoolAttrReservedMemHigh) == 6 * MiB);
    HOST_OK(pmhMemPoolTrimTo(pool, 0));
    CHECK(pool.reserved() == 2 * MiB);
    pool.set(pmhMemPoolAttrUsedMemHigh, 0);
    pool.set(pmhMemPoolAttrReservedMemHigh, 0);
    CHECK(pool.get(pmhMemPoolAttrUsedMemHigh) == 1000);
    CHECK(pool.get(pmhMemPoolAttrReservedMemHigh) == 2 * MiB);
    HOST_OK(pmhFreeAsync(first, nullptr));
}

TEST_CASE("host pools: small blocks share a chunk, and are split and merged") {
    Pool pool;
    Stream stream;
    pool.set(pmhMemPoolAttrReleaseThreshold, everything);
    std::vector<void*> blocks;
    std::set<void*> distinct;
    for (std::size_t i = 0; i < 4096; ++i) {
        blocks.push_back(pool.allocate(500, stream));
        distinct.insert(blocks.back());
    }
    CHECK(distinct.size() == blocks.size());
    CHECK(pool.reserved() == 2 * MiB);
    for (std::size_t i = 0; i < blocks.size(); i += 2) HOST_OK(pmhFreeAsync(blocks[i], stream));
    for (std::size_t i = 1; i < blocks.size(); i += 2) HOST_OK(pmhFreeAsync(blocks[i], stream));
    void* whole = pool.allocate(2 * MiB, stream);
    CHECK(pool.reserved() == 2 * MiB);
    HOST_OK(pmhFreeAsync(whole, stream));
}

TEST_CASE("host pools: the best fit is taken") {
    Pool pool;
    pool.set(pmhMemPoolAttrReleaseThreshold, everything);
    void* large = pool.allocate(64 * KiB, nullptr);
    void* keep = pool.allocate(512, nullptr);
    void* small = pool.allocate(8 * KiB, nullptr);
    void* keep2 = pool.allocate(512, nullptr);
    HOST_OK(pmhFreeAsync(large, nullptr));
    HOST_OK(pmhFreeAsync(small, nullptr));
    void* fit = pool.allocate(8 * KiB, nullptr);
    CHECK(fit == small);
    for (void* ptr : {fit, keep, keep2}) HOST_OK(pmhFreeAsync(ptr, nullptr));
}

TEST_CASE("host pools: the threshold is kept at synchronisation") {
    Pool pool;
    Stream stream;
    Event event;
    void* first = pool.allocate(2 * MiB, stream);
    void* second = pool.allocate(2 * MiB, stream);
    SUBCASE("0 gives all back, however the host synchronises") {
        HOST_OK(pmhFreeAsync(first, stream));
        HOST_OK(pmhFreeAsync(second, stream));
        HOST_OK(pmhEventRecord(event, stream));
        CHECK(pmhStreamQuery(stream) == pmhSuccess);
        CHECK(pool.reserved() == 4 * MiB);
        SUBCASE("stream") { HOST_OK(pmhStreamSynchronize(stream)); }
        SUBCASE("event") { HOST_OK(pmhEventSynchronize(event)); }
        SUBCASE("device") { HOST_OK(pmhDeviceSynchronize()); }
        CHECK(pool.reserved() == 0);
    }
    SUBCASE("a part") {
        pool.set(pmhMemPoolAttrReleaseThreshold, 2 * MiB);
        HOST_OK(pmhFreeAsync(first, stream));
        HOST_OK(pmhFreeAsync(second, stream));
        HOST_OK(pmhStreamSynchronize(stream));
        CHECK(pool.reserved() == 2 * MiB);
    }
    SUBCASE("everything") {
        pool.set(pmhMemPoolAttrReleaseThreshold, everything);
        HOST_OK(pmhFreeAsync(first, stream));
        HOST_OK(pmhFreeAsync(second, stream));
        HOST_OK(pmhStreamSynchronize(stream));
        CHECK(pool.reserved() == 4 * MiB);
        HOST_OK(pmhMemPoolTrimTo(pool, 3 * MiB));
        CHECK(pool.reserved() == 2 * MiB);
        HOST_OK(pmhMemPoolTrimTo(pool, 0));
        CHECK(pool.reserved() == 0);
    }
}

TEST_CASE("host pools: a free that has not run counts as used for trimming") {
    Pool pool;
    Stream stream;
    void* ptr = pool.allocate(MiB, stream);
    Latch latch;
    latch.hold(stream);
    HOST_OK(pmhFreeAsync(ptr, stream));
    CHECK(pool.used() == 0);
    HOST_OK(pmhMemPoolTrimTo(pool, 0));
    CHECK(pool.reserved() == 2 * MiB);
    latch.open();
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(pool.reserved() == 0);
}

TEST_CASE("host pools: destroyed with live memory") {
    Stream stream;
    std::size_t free_before = 0, free_after = 0, total = 0;
    HOST_OK(pmhDeviceSynchronize());
    HOST_OK(pmhMemGetInfo(&free_before, &total));
    auto pool = std::make_unique<Pool>();
    void* ptr = pool->allocate(KiB, stream);
    void* other = pool->allocate(KiB, stream);
    HOST_OK(pmhFreeAsync(other, stream));
    const pmhMemPool_t handle = *pool;
    HOST_OK(pmhMemPoolDestroy(handle));
    CHECK(pmhMemPoolDestroy(handle) == pmhErrorInvalidValue);
    CHECK(pmhMemPoolTrimTo(handle, 0) == pmhErrorInvalidValue);
    CHECK(pmhMallocFromPoolAsync(&other, KiB, handle, stream) == pmhErrorInvalidValue);
    const Bytes bytes = pattern(KiB, 8);
    put(ptr, bytes);
    CHECK(get(ptr, KiB) == bytes);
    SUBCASE("freed when the stream is idle") { HOST_OK(pmhFreeAsync(ptr, stream)); }
    SUBCASE("freed by Free") { HOST_OK(pmhFree(ptr)); }
    SUBCASE("freed while the stream is held") {
        Latch latch;
        latch.hold(stream);
        HOST_OK(pmhFreeAsync(ptr, stream));
        HOST_OK(pmhMemGetInfo(&free_after, &total));
        CHECK(free_after == free_before - 2 * MiB);
        latch.open();
        HOST_OK(pmhStreamSynchronize(stream));
    }
    HOST_OK(pmhMemGetInfo(&free_after, &total));
    CHECK(free_after == free_before);
}

TEST_CASE("host pools: the size of a pool can be bounded") {
    Pool pool(3 * MiB);  // rounded up to whole chunks
    Stream stream;
    pool.set(pmhMemPoolAttrReleaseThreshold, everything);
    void *first = pool.allocate(2 * MiB, stream), *second = pool.allocate(2 * MiB, stream), *third = nullptr;
    CHECK(pmhMallocFromPoolAsync(&third, 1, pool, stream) == pmhErrorOutOfMemory);
    HOST_OK(pmhFreeAsync(first, stream));
    HOST_OK(pmhFreeAsync(second, stream));
    third = pool.allocate(4 * MiB, stream);
    CHECK(pmhMallocFromPoolAsync(&first, 5 * MiB, pool, stream) == pmhErrorOutOfMemory);
    HOST_OK(pmhFreeAsync(third, stream));
}

TEST_CASE("host pools: the current pool of a device") {
    pmhMemPool_t standard = nullptr, current = nullptr;
    HOST_OK(pmhDeviceGetDefaultMemPool(&standard, 0));
    HOST_OK(pmhDeviceGetMemPool(&current, 0));
    CHECK(current == standard);
    CHECK(pmhMemPoolDestroy(standard) == pmhErrorInvalidValue);
    {
        Pool pool, elsewhere(0, 1);
        HOST_OK(pmhDeviceSetMemPool(0, pool));
        HOST_OK(pmhDeviceGetMemPool(&current, 0));
        CHECK(current == pool.handle);
        void* ptr = nullptr;
        HOST_OK(pmhMallocAsync(&ptr, KiB, nullptr));
        CHECK(pool.used() == KiB);
        HOST_OK(pmhFreeAsync(ptr, nullptr));
        CHECK(pmhDeviceSetMemPool(0, elsewhere) == pmhErrorInvalidValue);
        CHECK(pmhDeviceSetMemPool(9, pool) == pmhErrorInvalidDevice);
    }
    HOST_OK(pmhDeviceGetMemPool(&current, 0));
    CHECK(current == standard);
}

TEST_CASE("host pools: a stream allocates on its own device") {
    HOST_OK(pmhSetDevice(1));
    Stream stream;
    HOST_OK(pmhSetDevice(0));
    void* ptr = nullptr;
    HOST_OK(pmhMallocAsync(&ptr, KiB, stream));
    pmhPointerAttributes attributes{};
    HOST_OK(pmhPointerGetAttributes(&attributes, ptr));
    CHECK(attributes.device == 1);
    HOST_OK(pmhFreeAsync(ptr, stream));
}

TEST_CASE("host pools: access") {
    Pool pool;
    int flags = 9;
    const pmhMemLocation own{pmhMemLocationTypeDevice, 0}, peer{pmhMemLocationTypeDevice, 1};
    HOST_OK(pmhMemPoolGetAccess(&flags, pool, own));
    CHECK(flags == pmhMemAccessFlagsProtReadWrite);
    HOST_OK(pmhMemPoolGetAccess(&flags, pool, peer));
    CHECK(flags == pmhMemAccessFlagsProtNone);
    HOST_OK(pmhMemPoolSetAccess(pool, peer, pmhMemAccessFlagsProtReadWrite));
    HOST_OK(pmhMemPoolGetAccess(&flags, pool, peer));
    CHECK(flags == pmhMemAccessFlagsProtReadWrite);
    CHECK(pmhMemPoolSetAccess(pool, own, pmhMemAccessFlagsProtNone) == pmhErrorInvalidDevice);
    CHECK(pmhMemPoolSetAccess(pool, own, pmhMemAccessFlagsProtReadWrite) == pmhSuccess);
    CHECK(pmhMemPoolSetAccess(pool, {pmhMemLocationTypeDevice, 9}, pmhMemAccessFlagsProtRead) == pmhErrorInvalidDevice);
    CHECK(pmhMemPoolSetAccess(pool, peer, 2) == pmhErrorInvalidValue);
    CHECK(pmhMemPoolGetAccess(&flags, pool, {pmhMemLocationTypeDevice, 9}) == pmhErrorInvalidValue);
}

TEST_CASE("host pools: refusals") {
    Pool pool;
    std::uint64_t value = 0;
    for (const int attribute : {int{pmhMemPoolAttrReservedMemCurrent}, int{pmhMemPoolAttrUsedMemCurrent}, 0, 99})
        CHECK(pmhMemPoolSetAttribute(pool, attribute, 0) == pmhErrorInvalidValue);
    CHECK(pmhMemPoolSetAttribute(pool, pmhMemPoolAttrUsedMemHigh, 5) == pmhErrorInvalidValue);
    CHECK(pmhMemPoolGetAttribute(pool, 99, &value) == pmhErrorInvalidValue);
    CHECK(pmhMemPoolGetAttribute(nullptr, 1, &value) == pmhErrorInvalidValue);
    pmhMemPool_t made = nullptr;
    pmhMemPoolProps props{{pmhMemLocationTypeDevice, 9}, 0};
    CHECK(pmhMemPoolCreate(&made, &props) == pmhErrorInvalidValue);
    props.location = {pmhMemLocationTypeHost, 0};
    CHECK(pmhMemPoolCreate(&made, &props) == pmhErrorInvalidValue);
    CHECK(pmhMemPoolCreate(nullptr, &props) == pmhErrorInvalidValue);
}
