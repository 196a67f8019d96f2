// SPDX-License-Identifier: MIT
// tests/cpp/host_pool_reuse.cpp: which stream may reuse memory of a pool before, and after, its free has run.
#include "host_support.hpp"

using namespace host_tests;

namespace {

// A pool that can grow by nothing: what it gives next is what was freed, or a refusal.
struct FullPool : Pool {
    FullPool() : Pool(2 * MiB) { set(pmhMemPoolAttrReleaseThreshold, UINT64_MAX); }

    void policies(bool follow, bool opportunistic, bool internal) const {
        set(pmhMemPoolReuseFollowEventDependencies, follow);
        set(pmhMemPoolReuseAllowOpportunistic, opportunistic);
        set(pmhMemPoolReuseAllowInternalDependencies, internal);
    }
    pmhError_t try_allocate(void** ptr, pmhStream_t stream) const {
        return pmhMallocFromPoolAsync(ptr, 2 * MiB, handle, stream);
    }
};

}  // namespace

TEST_CASE("host pool reuse: the same stream reuses at once") {
    FullPool pool;
    pool.policies(false, false, false);
    Stream stream;
    void* first = pool.allocate(2 * MiB, stream);
    Latch latch;
    latch.hold(stream);
    HOST_OK(pmhFreeAsync(first, stream));
    void* second = nullptr;
    HOST_OK(pool.try_allocate(&second, stream));
    CHECK(second == first);
    HOST_OK(pmhFreeAsync(second, stream));
}

TEST_CASE("host pool reuse: another stream gets other memory while the free is held up") {
    Pool pool;
    Stream freeing, wanting;
    void* first = pool.allocate(MiB, freeing);
    Latch latch;
    latch.hold(freeing);
    HOST_OK(pmhMemsetAsync(first, 1, MiB, freeing));
    HOST_OK(pmhFreeAsync(first, freeing));
    void* second = pool.allocate(MiB, wanting);
    CHECK(second != first);
    HOST_OK(pmhMemsetAsync(second, 2, MiB, wanting));
    HOST_OK(pmhStreamSynchronize(wanting));
    latch.open();
    HOST_OK(pmhStreamSynchronize(freeing));
    CHECK(get(second, MiB) == Bytes(MiB, 2));
    HOST_OK(pmhFreeAsync(second, wanting));
}

TEST_CASE("host pool reuse: by chance, once the free has run") {
    Pool pool;
    pool.set(pmhMemPoolAttrReleaseThreshold, UINT64_MAX);
    pool.set(pmhMemPoolReuseAllowOpportunistic, 0);
    Stream freeing, wanting;
    void* first = pool.allocate(2 * MiB, freeing);
    {
        Latch latch;
        latch.hold(freeing);
        HOST_OK(pmhFreeAsync(first, freeing));
    }
    while (pmhStreamQuery(freeing) == pmhErrorNotReady) std::this_thread::yield();
    void* second = pool.allocate(2 * MiB, wanting);
    CHECK(second != first);
    SUBCASE("allowed") { pool.set(pmhMemPoolReuseAllowOpportunistic, 1); }
    SUBCASE("not allowed, but the host has synchronised") { HOST_OK(pmhStreamSynchronize(freeing)); }
    void* third = pool.allocate(2 * MiB, wanting);
    CHECK(third == first);
    HOST_OK(pmhFreeAsync(second, wanting));
    HOST_OK(pmhFreeAsync(third, wanting));
}

TEST_CASE("host pool reuse: behind an event that the stream waits for") {
    FullPool pool;
    pool.policies(true, false, false);
    Stream freeing, between, wanting;
    Event freed(pmhEventDisableTiming), passed_on(pmhEventDisableTiming);
    void *first = pool.allocate(2 * MiB, freeing), *second = nullptr;
    Latch latch;
    latch.hold(freeing);
    HOST_OK(pmhEventRecord(freed, freeing));
    HOST_OK(pmhStreamWaitEvent(wanting, freed, 0));
    HOST_OK(pmhLaunchHostFunc(
        freeing, [](void*) {}, nullptr));
    HOST_OK(pmhFreeAsync(first, freeing));
    CHECK(pool.try_allocate(&second, wanting) == pmhErrorOutOfMemory);  // it waits for a place before the free
    HOST_OK(pmhEventRecord(freed, freeing));
    SUBCASE("directly") { HOST_OK(pmhStreamWaitEvent(wanting, freed, 0)); }
    SUBCASE("through a third stream") {
        HOST_OK(pmhStreamWaitEvent(between, freed, 0));
        HOST_OK(pmhEventRecord(passed_on, between));
        HOST_OK(pmhStreamWaitEvent(wanting, passed_on, 0));
    }
    pool.policies(false, false, false);
    CHECK(pool.try_allocate(&second, wanting) == pmhErrorOutOfMemory);
    pool.policies(true, false, false);
    HOST_OK(pool.try_allocate(&second, wanting));
    CHECK(second == first);
    HOST_OK(pmhFreeAsync(second, wanting));
}

TEST_CASE("host pool reuse: the legacy stream follows blocking streams without an event") {
    FullPool pool;
    pool.policies(true, false, false);
    Stream blocking(pmhStreamDefault), other;
    void *first = pool.allocate(2 * MiB, blocking), *second = nullptr;
    Latch latch;
    latch.hold(blocking);
    HOST_OK(pmhFreeAsync(first, blocking));
    CHECK(pool.try_allocate(&second, other) == pmhErrorOutOfMemory);
    HOST_OK(pool.try_allocate(&second, nullptr));
    CHECK(second == first);
    HOST_OK(pmhFreeAsync(second, nullptr));
    HOST_OK(pool.try_allocate(&first, blocking));
    HOST_OK(pmhFreeAsync(first, blocking));
}

TEST_CASE("host pool reuse: by an inserted wait where the pool cannot grow") {
    FullPool pool;
    pool.policies(false, false, true);
    Stream freeing, wanting;
    void *first = pool.allocate(2 * MiB, freeing), *second = nullptr;
    {
        Latch latch;
        latch.hold(freeing);
        HOST_OK(pmhMemsetAsync(first, 1, 2 * MiB, freeing));
        HOST_OK(pmhFreeAsync(first, freeing));
        HOST_OK(pool.try_allocate(&second, wanting));
        CHECK(second == first);
        CHECK(pmhStreamQuery(wanting) == pmhErrorNotReady);
        HOST_OK(pmhMemsetAsync(second, 2, 2 * MiB, wanting));
    }
    HOST_OK(pmhStreamSynchronize(wanting));
    CHECK(get(second, 2 * MiB) == Bytes(2 * MiB, 2));
    HOST_OK(pmhFreeAsync(second, wanting));
}

TEST_CASE("host pool reuse: neighbours that were freed on two streams merge once both frees have run") {
    FullPool pool;
    Stream one, two, wanting;
    void* first = pool.allocate(MiB, one);
    void* second = pool.allocate(MiB, two);
    void* whole = nullptr;
    {
        Latch latch;
        latch.hold(one);
        latch.hold(two);
        HOST_OK(pmhFreeAsync(first, one));
        HOST_OK(pmhFreeAsync(second, two));
        CHECK(pool.try_allocate(&whole, wanting) == pmhErrorOutOfMemory);
    }
    HOST_OK(pmhStreamSynchronize(one));
    HOST_OK(pmhStreamSynchronize(two));
    HOST_OK(pool.try_allocate(&whole, wanting));
    HOST_OK(pmhFreeAsync(whole, wanting));
}

TEST_CASE("host pool reuse: a free on a default stream waits for what that stream waits for") {
    FullPool pool;
    pool.policies(false, true, false);
    Stream blocking(pmhStreamDefault), wanting;
    void *first = pool.allocate(2 * MiB, blocking), *second = nullptr;
    {
        Latch latch;
        latch.hold(blocking);
        HOST_OK(pmhFreeAsync(first, nullptr));
        CHECK(pool.try_allocate(&second, wanting) == pmhErrorOutOfMemory);
    }
    HOST_OK(pmhStreamSynchronize(nullptr));
    HOST_OK(pool.try_allocate(&second, wanting));
    HOST_OK(pmhFreeAsync(second, wanting));
}
