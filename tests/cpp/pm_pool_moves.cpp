// SPDX-License-Identifier: MIT
// Pools while memory is on its way: chunks that another thread asks for or gives back, a trim beside work that goes on.
#include "pm_pool_support.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <future>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

/// Host memory of so many bytes, by functions that a test holds up.
struct Upstream {
    std::atomic<std::size_t> out{0};
    std::atomic<std::size_t> most{0};
    std::function<void()> while_allocating = [] {};
    std::function<void()> while_deallocating = [] {};

    Resource resource(std::size_t capacity) {
        return std::make_shared<pm::CallbackMemoryResource>(
            [this, capacity](std::size_t nbytes, const StreamPtr&) -> void* {
                while_allocating();
                const std::size_t now = out += nbytes;
                if (now > capacity) {
                    out -= nbytes;
                    return nullptr;
                }
                for (std::size_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
                }
                return std::aligned_alloc(4096, nbytes);
            },
            [this](void* ptr, std::size_t nbytes, const StreamPtr&) {
                while_deallocating();
                std::free(ptr);
                out -= nbytes;
            },
            pm::CallbackMemoryResource::memory_of(pm::ResourceKind::Pinned, 0));
    }
};

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
    upstream.while_allocating = [&] {
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
    upstream.while_allocating = [&] {
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
