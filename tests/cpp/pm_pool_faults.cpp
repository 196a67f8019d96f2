// SPDX-License-Identifier: MIT
// Pools when something is in the way: captures, failing calls, streams that end at the wrong moment.
#include "pm_support.hpp"

namespace {

std::shared_ptr<pm::PoolMemoryResource> pool_of(std::shared_ptr<pm::MemoryResource> upstream,
                                                pm::PoolOptions options = {}) {
    return pm::PoolMemoryResource::create(std::move(upstream), std::move(options));
}

}  // namespace

TEST_CASE("pm pool faults: a captured stream holds up closing, which says so, and the pool stays usable") {
    if (no_device()) return;
    pm::PoolOptions at_once;  // on every machine what a stream has freed is at hand for it
    at_once.host_access = false;
    const auto pool = pool_of(device_resource(), at_once);
    const StreamPtr stream = pm::Stream::create(0);
    const StreamPtr other = pm::Stream::create(0);
    pool->deallocate(pool->allocate(2 * MiB, stream), 2 * MiB, stream);
    stream->begin_capture(rt::StreamCaptureMode::Relaxed);
    const std::string text = refusal<std::invalid_argument>([&] { pool->close(); });
    CHECK(contains(text, "captur"));
    CHECK(contains(text, "end the capture"));
    CHECK_FALSE(pool->is_closed());
    void* ptr = pool->allocate(3 * MiB, other);
    CHECK(keeps_bytes(ptr, 1000, 1));
    pool->deallocate(ptr, 3 * MiB, other);
    void* at_hand = pool->allocate(2 * MiB, stream);
    CHECK(at_hand != nullptr);
    pool->deallocate(at_hand, 2 * MiB, stream);
    stream->end_capture();
    pool->close();
    CHECK(pool->upstream()->live_buffers() == 0);
}

TEST_CASE(
    "pm pool faults: the last reference to a stream's owner, in a callback's hands, is let go with no lock held") {
    if (no_device()) return;
    const auto pool = pool_of(device_resource(), {8 * MiB, nullptr});
    if (pool->is_host_accessible()) return;
    const TestStream native;
    // The owner's end uses the pool, which it could not from inside of its locks.
    std::atomic<int> ended{0};
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&] {
            while (!is_over) pool->trim();
        });
    }
    for (int turn = 0; turn < 2000; ++turn) {
        StreamPtr foreign = pm::Stream::from_handle(native.handle, 0, std::shared_ptr<void>(&ended, [&](void*) {
                                                        pool->trim();
                                                        ++ended;
                                                    }));
        pool->deallocate(pool->allocate(MiB, foreign), MiB, foreign);
        const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(turn % 100 * 200);
        while (std::chrono::steady_clock::now() < until) {  // now and then, while a trim marks the stream
        }
        foreign.reset();
    }
    is_over = true;
    for (std::thread& thread : threads) thread.join();
    pool->trim();
    CHECK(ended == 2000);
    pool->close();
}
