// SPDX-License-Identifier: MIT
// Threads free memory on their own default streams, which only the thread itself can mark.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core_pool_fakes.hpp"

using namespace fakes;

TEST_CASE("core pool: what ended threads have freed on their own streams is everybody's, behind their last work") {
    for (const bool host_accessible : {false, true}) {
        for (const bool is_captured : {false, true}) {
            CAPTURE(host_accessible);
            CAPTURE(is_captured);
            std::vector<std::unique_ptr<FakeStream>> streams;
            FakeStream after;
            FakePool fake(host_accessible);
            for (int i = 0; i < 1000; ++i) {
                std::thread([&] {
                    FakeStream& own = *streams.emplace_back(new FakeStream);
                    own.is_per_thread = true;
                    for (const std::size_t nbytes : {1 * KiB, 100 * KiB, 1000 * KiB}) {
                        void* const ptr = fake.take(nbytes, own);
                        CHECK(fake.give(ptr, nbytes, own) == PORTAMEM_POOL_OK);
                    }
                    own.captured = is_captured;
                    if (!host_accessible) return;
                    own.run = own.submitted;
                }).join();
                streams.back()->captured = false;
            }
            CHECK(fake.figures().arenas <= 1);
            if (is_captured) {  // such a stream cannot be marked: all work of the device is waited for, when it must be
                CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
                CHECK(fake.owner.synchronized > 0);
                CHECK(fake.figures().reserved == 0);
                continue;
            }
            CHECK(fake.figures().reserved <= 64 * 1024 * KiB);
            void* const ptr = fake.take(1000 * KiB, after);
            CHECK((host_accessible || !after.waits.empty()));
            CHECK(fake.give(ptr, 1000 * KiB, after) == PORTAMEM_POOL_OK);
        }
    }
}

TEST_CASE(
    "core pool: what a thread has freed on its own stream, and cannot mark just now, is had behind all of the device") {
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        FakeStream after;
        FakeStream own;
        FakePool fake(host_accessible, 8192 * KiB);
        own.is_per_thread = true;
        std::mutex mutex;
        std::condition_variable changed;
        int step = 0;
        const auto reach = [&](int next) {
            const std::lock_guard<std::mutex> lock(mutex);
            step = next;
            changed.notify_all();
        };
        const auto await = [&](int next) {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [&] { return step >= next; });
        };
        std::thread thread([&] {
            own.thread = std::this_thread::get_id();
            std::vector<void*> all;
            while (void* ptr = fake.take(500 * KiB, own)) all.push_back(ptr);
            CHECK(all.size() > 12);
            for (void* const ptr : all) CHECK(fake.give(ptr, 500 * KiB, own) == PORTAMEM_POOL_OK);
            reach(1);
            await(2);
            void* const ptr = fake.take(500 * KiB, own);  // its cache is its own again
            CHECK(ptr != nullptr);
            CHECK(fake.give(ptr, 500 * KiB, own) == PORTAMEM_POOL_OK);
        });
        await(1);
        const int waited = fake.owner.device_synchronized;
        CHECK(portamem_pool_trim(fake.pool, fake.figures().reserved) == PORTAMEM_POOL_OK);
        CHECK(fake.owner.device_synchronized == waited);  // there was nothing to give back
        void* const ptr = fake.take(3000 * KiB, after);
        CHECK(ptr != nullptr);
        CHECK(fake.owner.device_synchronized == waited + 1);
        void* const another = fake.take(3000 * KiB, after);  // is there since then
        CHECK(another != nullptr);
        CHECK(fake.owner.device_synchronized == waited + 1);
        if (ptr != nullptr) CHECK(fake.give(ptr, 3000 * KiB, after) == PORTAMEM_POOL_OK);
        if (another != nullptr) CHECK(fake.give(another, 3000 * KiB, after) == PORTAMEM_POOL_OK);
        after.run = after.submitted;
        reach(2);
        thread.join();
        own.run = own.submitted;
    }
}

TEST_CASE("core pool: what a thread takes at its very end, after its own streams, is no loss when it is freed") {
    FakeStream own;
    own.is_per_thread = true;
    FakePool fake(false);
    for (int i = 0; i < 20; ++i) {
        std::thread([&] {
            struct Last {
                FakePool* fake = nullptr;
                FakeStream* own = nullptr;
                ~Last() {
                    for (const std::size_t nbytes : {4 * KiB, 100 * KiB, 1000 * KiB}) {
                        void* const ptr = fake->take(nbytes, *own);
                        CHECK(ptr != nullptr);
                        CHECK(fake->give(ptr, nbytes, *own) == PORTAMEM_POOL_OK);
                    }
                }
            };
            static thread_local Last last;  // made before what the pool keeps for the thread, so it ends after that
            last.fake = &fake;
            last.own = &own;
            void* const ptr = fake.take(1 * KiB, own);
            CHECK(fake.give(ptr, 1 * KiB, own) == PORTAMEM_POOL_OK);
        }).join();
    }
    CHECK(fake.figures().used == 0);
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
    CHECK(fake.figures().reserved == 0);
}
