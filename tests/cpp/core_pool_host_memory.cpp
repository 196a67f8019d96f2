// SPDX-License-Identifier: MIT
// The host memory of pools' own records: how much it is, and that nothing is lost where there is none.
#include <malloc.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core_pool_addresses.hpp"
#include "host_memory_taken.hpp"

using namespace fakes;

namespace {

// The thread's next allocations fail, by a count that the thread sets itself.
thread_local std::uint64_t left_until_failure = 0;
thread_local std::uint64_t failure_interval = 0;
thread_local std::uint64_t failures = 0;
thread_local std::uint64_t taken = 0;  // bytes
thread_local std::int64_t held = 0;

void count_allocation() {
    if (left_until_failure == 0 || spared != 0 || --left_until_failure != 0) return;
    left_until_failure = failure_interval;
    ++failures;
    throw std::bad_alloc();
}

void* allocated(std::size_t nbytes, std::size_t alignment) {
    count_allocation();
    const std::size_t least = nbytes < 1 ? 1 : nbytes;
    if (spared == 0) taken += least;
    void* const ptr = alignment == 0 ? std::malloc(least)
                                     : std::aligned_alloc(alignment, (least + alignment - 1) / alignment * alignment);
    if (ptr == nullptr) throw std::bad_alloc();
    held += static_cast<std::int64_t>(malloc_usable_size(ptr));
    return ptr;
}

void freed(void* ptr) noexcept {
    held -= static_cast<std::int64_t>(malloc_usable_size(ptr));
    std::free(ptr);
}

}  // namespace

std::uint64_t host_memory_taken() noexcept { return taken; }
std::int64_t host_memory_held() noexcept { return held; }

void fail_host_memory(std::uint64_t nth) noexcept {
    failure_interval = 0;
    left_until_failure = nth;
}

// All of the test program's, and its libraries'.
void* operator new(std::size_t nbytes) { return allocated(nbytes, 0); }
void* operator new[](std::size_t nbytes) { return allocated(nbytes, 0); }
void* operator new(std::size_t nbytes, std::align_val_t alignment) {
    return allocated(nbytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t nbytes, std::align_val_t alignment) {
    return allocated(nbytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t nbytes, const std::nothrow_t&) noexcept {
    try {
        return allocated(nbytes, 0);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void operator delete(void* ptr) noexcept { freed(ptr); }
void operator delete[](void* ptr) noexcept { freed(ptr); }
void operator delete(void* ptr, std::size_t) noexcept { freed(ptr); }
void operator delete[](void* ptr, std::size_t) noexcept { freed(ptr); }
void operator delete(void* ptr, std::align_val_t) noexcept { freed(ptr); }
void operator delete[](void* ptr, std::align_val_t) noexcept { freed(ptr); }
void operator delete(void* ptr, std::size_t, std::align_val_t) noexcept { freed(ptr); }
void operator delete[](void* ptr, std::size_t, std::align_val_t) noexcept { freed(ptr); }

namespace {

struct Out {
    void* ptr;
    std::size_t nbytes;
};

// Blocks of many classes, freed on several streams, of which some lie in caches, some in arenas, some behind events.
// Then everything that moves them, with host memory that runs out. Answers how many allocations failed.
std::uint64_t move_all(bool host_accessible, bool tells_runs, std::uint64_t first, std::uint64_t interval) {
    FakeStream one;
    FakeStream other;
    FakeStream raw;
    FakeStream ends;
    raw.ends_unseen = true;
    FakePool fake(host_accessible, 0, false, tells_runs);
    fake.owner.left = 48 * 1024 * KiB;
    std::vector<Out> out;
    const auto take = [&](std::size_t nbytes, FakeStream& stream) {
        void* const ptr = fake.take(nbytes, stream);
        const Spared mine;
        if (ptr != nullptr) out.push_back({ptr, nbytes});
        return ptr != nullptr;
    };
    const auto give_all = [&](FakeStream& stream) {
        while (!out.empty()) {
            const Out last = out.back();
            out.pop_back();
            if (fake.give(last.ptr, last.nbytes, stream) == PORTAMEM_POOL_OK) continue;
            const Spared mine;  // it is still out
            REQUIRE(portamem_pool_error(nullptr) == PORTAMEM_POOL_HOST_MEMORY);
            REQUIRE(fake.give(last.ptr, last.nbytes, stream) == PORTAMEM_POOL_OK);
        }
    };
    const auto spread = [&](FakeStream& stream) {
        for (int i = 0; i < 140; ++i) {  // more than a cache holds
            (void)take(256, stream);
            if (i < 70) (void)take(20 * KiB, stream);
            if (i < 40) (void)take(40 * KiB, stream);
        }
        give_all(stream);
        if (!tells_runs) return;
        stream.run = stream.submitted;  // waiting memory goes into the cache, and what has no room there into the heap
        for (int i = 0; i < 100; ++i) {
            if (take(40 * KiB, stream)) stream.run = stream.submitted;
        }
        give_all(stream);
    };

    const std::uint64_t before = failures;
    failure_interval = interval;
    left_until_failure = first;
    spread(one);
    spread(ends);
    spread(raw);
    spread(other);
    (void)take(300 * KiB, other);  // takes over, or grows
    one.run = one.submitted;
    for (int i = 0; i < 40; ++i) (void)take(1024 * KiB, other);  // up to what there is, and all put together
    give_all(one);
    {
        const Spared mine;
        ++fake.owner.events;
    }
    portamem_pool_stream_ended(fake.pool, ends.identity, [&ends] {
        const Spared mine;
        return new FakeEvent{&ends, ends.submitted};
    }());
    (void)portamem_pool_trim(fake.pool, 4096 * KiB);
    spread(other);
    (void)portamem_pool_trim(fake.pool, 0);
    spread(one);
    left_until_failure = 0;
    const std::uint64_t failed = failures - before;

    // Now there is host memory again, and everything comes back.
    CHECK(fake.figures().live == 0);
    CHECK(fake.figures().used == 0);
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
    CHECK(fake.figures().reserved == 0);
    CHECK(fake.owner.chunks.empty());
    CHECK(fake.owner.left == 48 * 1024 * KiB);

    spread(one);  // and a pool that ends without gives all to the upstream
    left_until_failure = 1 + first % 16;
    failure_interval = 0;
    portamem_pool_destroy(std::exchange(fake.pool, nullptr));
    left_until_failure = 0;
    CHECK(fake.owner.chunks.empty());
    CHECK(fake.owner.events == 0);
    return failed;
}

}  // namespace

TEST_CASE("core pool: no host memory at the n-th time, or at every n-th: nothing is lost") {
    for (const auto& kind : {std::pair{false, false}, {true, false}, {true, true}}) {
        const bool host_accessible = kind.first;
        const bool tells_runs = kind.second;
        CAPTURE(host_accessible);
        CAPTURE(tells_runs);
        std::uint64_t seen = 0;
        bool is_over = false;
        for (std::uint64_t n = 1; !is_over; n += 1 + n / 32) {  // until the n-th never comes
            CAPTURE(n);
            is_over = move_all(host_accessible, tells_runs, n, 0) == 0;
            seen += is_over ? 0 : 1;
        }
        CHECK(seen > 50);
        for (std::uint64_t interval = 2; interval < 60; interval += 1 + interval / 8) {
            CAPTURE(interval);
            CHECK(move_all(host_accessible, tells_runs, interval, interval) > 10);
        }
    }
}

TEST_CASE("core pool: a chunk that its upstream does not take back is the pool's still, also without host memory") {
    FakeStream stream;
    FakePool fake;
    void* ptr = fake.take(1024 * KiB, stream);
    CHECK(fake.give(ptr, 1024 * KiB, stream) == PORTAMEM_POOL_OK);
    fake.owner.refuses_chunks = true;
    left_until_failure = failure_interval = 1;
    int status = portamem_pool_trim(fake.pool, 0);
    left_until_failure = 0;
    CHECK(status != PORTAMEM_POOL_OK);
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_THROWN);
    CHECK(fake.figures().reserved > 0);
    fake.owner.left = 0;
    CHECK(fake.take(1024 * KiB, stream) != nullptr);
    CHECK(fake.give(ptr, 1024 * KiB, stream) == PORTAMEM_POOL_OK);
    fake.owner.refuses_chunks = false;
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.chunks.empty());
}

// Two threads that live on have freed memory on their own streams.
TEST_CASE("core pool: what only its threads can mark is not lost where there is no host memory to put it together") {
    for (std::uint64_t n = 1; n < 200; ++n) {
        CAPTURE(n);
        std::array<FakeStream, 2> own;
        FakePool fake;
        std::array<std::promise<void>, 2> is_over;  // one after the other: the fake owner is for one thread at a time
        std::array<std::promise<void>, 2> is_freed;
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < own.size(); ++i) {
            threads.emplace_back([&, i] {
                FakeStream& stream = own[i];
                stream.is_per_thread = true;
                stream.thread = std::this_thread::get_id();
                std::vector<void*> all;
                for (int i = 0; i < 5; ++i) all.push_back(fake.take(2048 * KiB, stream));
                for (void* const ptr : all) CHECK(fake.give(ptr, 2048 * KiB, stream) == PORTAMEM_POOL_OK);
                is_freed[i].set_value();
                is_over[i].get_future().wait();
            });
            is_freed[i].get_future().wait();
        }
        failures = 0;
        left_until_failure = n;
        failure_interval = 0;
        (void)portamem_pool_trim(fake.pool, 0);
        left_until_failure = 0;
        const bool has_failed = failures != 0;
        for (std::size_t i = 0; i < threads.size(); ++i) {
            is_over[i].set_value();
            threads[i].join();
        }
        CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
        CHECK(fake.figures().reserved == 0);
        if (!has_failed) return;
    }
    FAIL("it fails for ever");
}

// All that was ever taken, also what was given back for more. Not counted are the tables of addresses: 8 bytes for each
// 2 MiB.
TEST_CASE("core pool: what it takes of host memory follows the number of blocks, whatever their size") {
    constexpr std::size_t kBlocks = 20000;
    constexpr std::size_t kMixed = 0;
    for (const std::size_t size :
         {std::size_t{256}, 16 * KiB, 33 * KiB, 64 * KiB, 120 * KiB, 1024 * KiB, 17 * 64 * KiB, 8 * MiB, kMixed}) {
        CAPTURE(size);
        FakeStream stream;
        AddressPool fake;
        CHECK(fake.give(fake.take(MiB, stream), MiB, stream) == PORTAMEM_POOL_OK);
        std::uint64_t one_in_many = 1;
        std::vector<std::uintptr_t> blocks(kBlocks);
        std::vector<std::size_t> sizes(kBlocks);
        const std::uint64_t before = host_memory_taken();
        for (std::size_t i = 0; i < kBlocks; ++i) {
            one_in_many = one_in_many * 6364136223846793005U + 1442695040888963407U;
            const std::size_t some = std::size_t{256} << (one_in_many >> 33) % 15;  // up to 4 MiB
            sizes[i] = size == kMixed ? some + (one_in_many >> 40) % some : size;
            blocks[i] = fake.take(sizes[i], stream);
        }
        CHECK((host_memory_taken() - before) / kBlocks <= 96);
        int refused = 0;
        for (std::size_t i = 0; i < kBlocks; ++i)
            refused += fake.give(blocks[i], sizes[i], stream) == PORTAMEM_POOL_OK ? 0 : 1;
        CHECK(refused == 0);
    }
}

namespace {

// A pool of 64 KiB blocks, as many out at once, and gone.
void use_a_pool() {
    constexpr std::size_t kBlocks = 4000;
    FakeStream stream;
    FakePool fake;
    fake.owner.left = SIZE_MAX / 2;
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < kBlocks; ++i) blocks.push_back(fake.take(64 * KiB, stream));
    for (void* ptr : blocks) REQUIRE(fake.give(ptr, 64 * KiB, stream) == PORTAMEM_POOL_OK);
    stream.run = stream.submitted;
}

}  // namespace

TEST_CASE("core pool: the records of a pool that is gone go with it, and from other threads when they next use one") {
    use_a_pool();
    const std::int64_t before = host_memory_held();
    for (int i = 0; i < 5; ++i) use_a_pool();
    CHECK(host_memory_held() - before < 100 * 1000);  // one pool has three times that

    std::promise<void> is_used;
    std::promise<void> is_gone;
    std::int64_t of_thread = 0;
    auto fake = std::make_unique<FakePool>();
    std::thread other([&] {
        FakeStream stream;
        FakePool own;
        const std::int64_t without = host_memory_held();
        std::vector<void*> blocks;
        for (int i = 0; i < 4000; ++i) blocks.push_back(fake->take(64 * KiB, stream));
        for (void* ptr : blocks) (void)fake->give(ptr, 64 * KiB, stream);
        blocks = {};
        stream.run = stream.submitted;
        is_used.set_value();
        is_gone.get_future().wait();
        void* const ptr = own.take(64 * KiB, stream);
        (void)own.give(ptr, 64 * KiB, stream);
        stream.run = stream.submitted;
        of_thread = host_memory_held() - without;
    });
    is_used.get_future().wait();
    fake.reset();
    is_gone.set_value();
    other.join();
    CHECK(of_thread < 100 * 1000);
}
