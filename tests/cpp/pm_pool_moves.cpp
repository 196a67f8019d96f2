// SPDX-License-Identifier: MIT
// Pools while memory is on its way: chunks that another thread asks for or gives back, a trim beside work that goes on.
#include "pm_pool_upstream.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

/// A thread that is always some steps ahead of its stream, until the test ends.
class WorkerAhead {
  public:
    explicit WorkerAhead(const Pool& pool) : stream_(pm::Stream::create(0)) {
        thread_ = std::thread([this, pool] {
            std::deque<std::shared_ptr<pm::Event>> ahead;
            while (!is_over_) {
                void* const ptr = pool->allocate(20 * MiB, stream_);  // of a size that no cache keeps
                stream_->launch_host_func([](void*) { std::this_thread::sleep_for(5ms); }, nullptr);
                pool->deallocate(ptr, 20 * MiB, stream_);
                ahead.push_back(stream_->tail());
                if (ahead.size() > 4) {
                    ahead.front()->synchronize();
                    ahead.pop_front();
                }
                ++steps_;
            }
            stream_->synchronize();
        });
        while (steps_ < 8) std::this_thread::yield();
    }
    ~WorkerAhead() {
        is_over_ = true;
        thread_.join();
    }
    WorkerAhead(const WorkerAhead&) = delete;
    WorkerAhead& operator=(const WorkerAhead&) = delete;

  private:
    StreamPtr stream_;
    std::atomic<bool> is_over_{false};
    std::atomic<int> steps_{0};
    std::thread thread_;
};

}  // namespace

TEST_CASE(
    "pm pool moves: a trim ends, and so does a call that finds no memory, while a thread frees ahead of its device") {
    if (no_device()) return;
    const Pool pool = pool_over(pinned_resource(), 256 * MiB);
    std::future<void> trim;
    std::future<bool> refused;
    {
        const WorkerAhead worker(pool);
        trim = std::async(std::launch::async, [&] { pool->trim(); });
        CHECK(trim.wait_for(20s) == std::future_status::ready);
        refused = std::async(std::launch::async, [&] {
            try {
                (void)pool->allocate(300 * MiB, pm::Stream::create(0));
            } catch (const pm::OutOfMemory&) {
                return true;
            }
            return false;
        });
        CHECK(refused.wait_for(20s) == std::future_status::ready);
    }
    trim.get();
    CHECK(refused.get());
    pool->close();
}

TEST_CASE("pm pool moves: nobody is refused for a chunk that another thread is just getting") {
    if (no_device()) return;
    Upstream upstream;
    std::promise<void> is_asked;
    upstream.while_allocating = [&](std::size_t) {
        is_asked.set_value();
        std::this_thread::sleep_for(30ms);
    };
    const Pool pool = pool_over(upstream.resource(2 * MiB), 2 * MiB);
    auto first = std::async(std::launch::async, [&] {
        const StreamPtr stream = pm::Stream::create(0);
        void* const ptr = pool->allocate(256, stream);
        pool->deallocate(ptr, 256, stream);
    });
    is_asked.get_future().wait();
    const StreamPtr stream = pm::Stream::create(0);
    void* const ptr = pool->allocate(256, stream);  // of the one chunk that the limit lets be
    CHECK(keeps_bytes(ptr, 256, 1));
    pool->deallocate(ptr, 256, stream);
    first.get();
    CHECK(upstream.most == 2 * MiB);
    pool->close();
    CHECK(upstream.out == 0);
}

TEST_CASE("pm pool moves: nobody is refused for what other threads freed while the call waited for work") {
    if (no_device()) return;
    for (const bool also_frees : {false, true}) {
        CAPTURE(also_frees);
        const Pool pool = pool_over(device_resource(), 64 * MiB);
        const StreamPtr held = pm::Stream::create(0);
        const StreamPtr other = pm::Stream::create(0);
        void* const large = pool->allocate(58 * MiB, held);
        void* const beside = also_frees ? pool->allocate(3 * MiB, other) : nullptr;
        const Gate gate(held);
        pool->deallocate(large, 58 * MiB, held);
        auto waits = std::async(std::launch::async, [&] {
            const StreamPtr stream = pm::Stream::create(0);
            void* const ptr = pool->allocate(61 * MiB, stream);
            const bool keeps = keeps_bytes(ptr, 1000, 1);
            pool->deallocate(ptr, 61 * MiB, stream);
            return keeps;
        });
        std::this_thread::sleep_for(100ms);  // until it waits for the stream that is held
        if (beside != nullptr) pool->deallocate(beside, 3 * MiB, other);
        pool->deallocate(pool->allocate(1000, other), 1000, other);
        gate.open();
        CHECK(waits.get());
        pool->close();
    }
}

TEST_CASE("pm pool moves: a chunk that a trim gives back counts until it has arrived, and is waited for") {
    if (no_device()) return;
    for (const std::size_t limit : {std::size_t{0}, 48 * MiB}) {
        CAPTURE(limit);
        Upstream upstream;
        const Pool pool = pool_over(upstream.resource(64 * MiB), limit);
        const StreamPtr stream = pm::Stream::create(0);
        pool->deallocate(pool->allocate(40 * MiB, stream), 40 * MiB, stream);
        std::promise<void> is_leaving;
        upstream.while_deallocating = [&] {
            is_leaving.set_value();
            std::this_thread::sleep_for(30ms);
        };
        auto trim = std::async(std::launch::async, [&] { pool->trim(); });
        is_leaving.get_future().wait();
        const pm::PoolStats meanwhile = pool->stats();
        CHECK(meanwhile.largest_free <= meanwhile.reserved);
        CHECK(meanwhile.free_blocks == 0);
        CHECK(pool->snapshot().empty());
        void* const ptr = pool->allocate(40 * MiB, stream);
        CHECK(keeps_bytes(ptr, 1000, 1));
        trim.get();
        upstream.while_deallocating = [] {};
        CHECK(upstream.most <= (limit != 0 ? limit : 64 * MiB));
        pool->deallocate(ptr, 40 * MiB, stream);
        pool->close();
        CHECK(upstream.out == 0);
    }
}

TEST_CASE(
    "pm pool moves: an upstream that comes back to the pool for more than its limit is refused, and waits for nobody") {
    if (no_device()) return;
    Upstream upstream;
    Pool pool;
    const StreamPtr stream = pm::Stream::create(0);
    std::atomic<int> inner{0};
    upstream.while_allocating = [&](std::size_t) {
        try {
            (void)pool->allocate(256, stream);
        } catch (const pm::OutOfMemory&) {
            ++inner;
        }
    };
    pool = pool_over(upstream.resource(2 * MiB), 2 * MiB);
    const auto begin = std::chrono::steady_clock::now();
    void* const ptr = pool->allocate(256, stream);
    CHECK(std::chrono::steady_clock::now() - begin < 4s);  // it would be 5 s for itself
    CHECK(inner == 1);
    pool->deallocate(ptr, 256, stream);
    pool->close();
}

TEST_CASE("pm pool moves: nobody is refused by a limit whose room another thread turns out not to need") {
    if (no_device()) return;
    Upstream upstream;
    std::promise<void> is_asked;
    std::promise<void> goes_on;
    std::atomic<int> large{0};
    upstream.while_allocating = [&](std::size_t nbytes) {
        if (nbytes < 50 * MiB || large++ != 0) return;
        is_asked.set_value();
        goes_on.get_future().wait();
    };
    const Pool pool = pool_over(upstream.resource(32 * MiB), 64 * MiB);
    auto refused = std::async(std::launch::async, [&] {
        const StreamPtr stream = pm::Stream::create(0);
        CHECK_THROWS_AS((void)pool->allocate(60 * MiB, stream), pm::OutOfMemory);
    });
    is_asked.get_future().wait();
    auto given = std::async(std::launch::async, [&] {
        const StreamPtr stream = pm::Stream::create(0);
        void* const ptr = pool->allocate(16 * MiB, stream);
        CHECK(keeps_bytes(ptr, 1000, 1));
        pool->deallocate(ptr, 16 * MiB, stream);
    });
    std::this_thread::sleep_for(50ms);  // until it waits for the other thread's chunk
    goes_on.set_value();
    refused.get();
    given.get();
    pool->close();
    CHECK(upstream.out == 0);
}

TEST_CASE("pm pool moves: a chunk that the upstream did not take back is there for who waited for it") {
    if (no_device()) return;
    Upstream upstream;
    const Pool pool = pool_over(upstream.resource(64 * MiB), 48 * MiB);
    const StreamPtr stream = pm::Stream::create(0);
    pool->deallocate(pool->allocate(40 * MiB, stream), 40 * MiB, stream);
    std::promise<void> is_leaving;
    std::atomic<int> asked{0};
    upstream.while_deallocating = [&] {
        if (asked++ != 0) return;
        is_leaving.set_value();
        std::this_thread::sleep_for(50ms);
        throw std::runtime_error("not now");
    };
    auto trim =
        std::async(std::launch::async, [&] { CHECK_THROWS_WITH_AS(pool->trim(), "not now", std::runtime_error); });
    is_leaving.get_future().wait();
    void* const ptr = pool->allocate(40 * MiB, stream);
    CHECK(keeps_bytes(ptr, 1000, 1));
    trim.get();
    pool->deallocate(ptr, 40 * MiB, stream);
    pool->close();
    CHECK(upstream.out == 0);
}

TEST_CASE("pm pool moves: more than a limit is refused at once, whatever others are waiting for") {
    if (no_device()) return;
    Upstream upstream;
    std::promise<void> is_asked;
    std::promise<void> goes_on;
    upstream.while_allocating = [&](std::size_t) {
        is_asked.set_value();
        goes_on.get_future().wait();
    };
    const Pool pool = pool_over(upstream.resource(64 * MiB), 64 * MiB);
    auto other = std::async(std::launch::async, [&] {
        const StreamPtr stream = pm::Stream::create(0);
        pool->deallocate(pool->allocate(256, stream), 256, stream);
    });
    is_asked.get_future().wait();
    const auto begin = std::chrono::steady_clock::now();
    CHECK_THROWS_AS((void)pool->allocate(100 * MiB, pm::Stream::create(0)), pm::OutOfMemory);
    CHECK(std::chrono::steady_clock::now() - begin < 4s);  // it would be 5 s for the other thread
    goes_on.set_value();
    other.get();
    pool->close();
}

TEST_CASE("pm pool moves: what cannot be had is refused soon, however busy other threads are") {
    if (no_device()) return;
    Upstream upstream;
    std::atomic<int> asked{0};
    const auto self = std::this_thread::get_id();
    upstream.while_allocating = [&](std::size_t) {
        if (std::this_thread::get_id() == self) ++asked;
    };
    const Pool pool = pool_over(upstream.resource(64 * MiB, pm::ResourceKind::Device));
    std::atomic<bool> is_over{false};
    std::promise<void> has_begun;
    std::thread busy([&] {
        const StreamPtr stream = pm::Stream::create(0);
        void* const kept = pool->allocate(300, stream);  // its chunk stays
        has_begun.set_value();
        while (!is_over) pool->deallocate(pool->allocate(300, stream), 300, stream);
        pool->deallocate(kept, 300, stream);
    });
    has_begun.get_future().wait();
    const StreamPtr stream = pm::Stream::create(0);
    int fewest = 1000;
    for (int i = 0; i < 10; ++i) {
        asked = 0;
        CHECK_THROWS_AS((void)pool->allocate(std::size_t{1} << 30, stream), pm::OutOfMemory);
        CHECK(asked <= 2 * 16);  // two questions in each of 16 looks
        fewest = std::min<int>(fewest, asked);
    }
    // Calls of the other thread are worth two more looks. Memory that the other thread moves, as it does now and then
    // because each look empties its cache, is worth one more each time.
    CHECK(fewest <= 2 * 3);
    is_over = true;
    busy.join();
    pool->close();
    CHECK(upstream.out == 0);
}

TEST_CASE("pm pool moves: a captured stream finds what it has at hand while another thread trims") {
    if (no_device()) return;
    pm::PoolOptions at_once;
    at_once.host_access = false;
    const Pool pool = pm::PoolMemoryResource::create(device_resource(), at_once);
    const StreamPtr stream = pm::Stream::create(0);
    for (const std::size_t nbytes : {std::size_t{1000}, 3 * MiB, 65 * MiB}) {
        CAPTURE(nbytes);
        std::vector<void*> blocks;
        for (int i = 0; i < 4; ++i) blocks.push_back(pool->allocate(nbytes, stream));
        for (void* ptr : blocks) pool->deallocate(ptr, nbytes, stream);
        stream->begin_capture(rt::StreamCaptureMode::Relaxed);
        std::atomic<int> trims{0};
        std::thread trimmer([&] {
            for (; trims < 300; ++trims) {
                pool->trim();
                std::this_thread::sleep_for(200us);
            }
        });
        int refused = 0;
        while (trims < 300) {
            try {
                pool->deallocate(pool->allocate(nbytes, stream), nbytes, stream);
            } catch (const std::exception&) {
                ++refused;
            }
        }
        trimmer.join();
        CHECK(refused == 0);
        stream->end_capture();
    }
    pool->close();
}

TEST_CASE("pm pool moves: a release policy may use its own pool, and is asked once for that") {
    if (no_device()) return;
    Pool pool;
    const StreamPtr stream = pm::Stream::create(0);
    int asked = 0;
    pm::PoolOptions options;
    options.release = [&](const pm::PoolStats&) -> std::optional<std::size_t> {
        if (++asked > 100) return std::nullopt;  // deep enough to see
        pool->deallocate(pool->allocate(100, stream), 100, stream);
        return std::nullopt;
    };
    pool = pm::PoolMemoryResource::create(pinned_resource(), options);
    void* const ptr = pool->allocate(20 * MiB, stream);
    pool->deallocate(ptr, 20 * MiB, stream);
    CHECK(asked == 1);
    pool->close();
}
