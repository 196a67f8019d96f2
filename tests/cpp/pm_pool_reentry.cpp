// SPDX-License-Identifier: MIT
// Pools whose upstream, or whose policy, runs code that uses the pool, ends streams or closes things meanwhile.
#include "pm_pool_upstream.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "portamem/detail/sanitizers.hpp"

namespace {

using namespace std::chrono_literals;

constexpr pm::ResourceKind kDevice = pm::ResourceKind::Device;

}  // namespace

TEST_CASE("pm pool reentry: an upstream that lets go of a stream does not hide what the call is refused for") {
    if (no_device()) return;
    Upstream upstream;
    Pool pool;
    StreamPtr other;
    int asked = 0;
    upstream.while_allocating = [&](std::size_t) {
        if (other != nullptr && ++asked == 2) other.reset();
    };
    pool = pool_over(upstream.resource(4 * MiB, kDevice));
    const StreamPtr first = pm::Stream::create(0);
    pool->deallocate(pool->allocate(1000, first), 1000, first);
    other = pm::Stream::create(0);
    pool->deallocate(pool->allocate(1000, other), 1000, other);
    const std::string text = refusal<pm::OutOfMemory>([&] { (void)pool->allocate(40 * MiB, first); });
    CHECK(contains(text, "was asked for 41943040 bytes"));
    CHECK(asked >= 2);
    pool->close();

    other = pm::Stream::create(0);
    upstream.while_deallocating = [&] {
        if (other == nullptr) return;
        other.reset();
        throw std::runtime_error("the reason");
    };
    pool = pool_over(upstream.resource(4 * MiB, kDevice));
    pool->deallocate(pool->allocate(1000, other), 1000, other);
    CHECK_THROWS_WITH_AS(pool->trim(), "the reason", std::runtime_error);
    pool->close();
    CHECK(upstream.out == 0);
}

TEST_CASE("pm pool reentry: calls of other pools leave alone the cache of the call that they are within") {
    if (no_device()) return;
    Upstream upstream;
    const Pool inner = pool_over(device_resource());
    const StreamPtr stream = pm::Stream::create(0);
    bool is_first = true;
    upstream.while_allocating = [&](std::size_t) {
        if (!std::exchange(is_first, false)) return;
        std::thread([&] { stream->close(); }).join();
        for (int i = 0; i < 40; ++i) {  // more than a thread remembers before it looks for those that have ended
            const StreamPtr another = pm::Stream::create(0);
            inner->deallocate(inner->allocate(1000, another), 1000, another);
        }
    };
    const Pool pool = pool_over(upstream.resource(64 * MiB, kDevice));
    void* const ptr = pool->allocate(1000, stream);  // it had begun before the stream was closed
    CHECK(pool->live_buffers() == 1);
    pool->deallocate(ptr, 1000, pm::Stream::create(0));
    CHECK(pool->live_buffers() == 0);
    pool->close();
    inner->close();
    CHECK(upstream.out == 0);
}

TEST_CASE("pm pool reentry: pools over pools forget the streams that come and go") {
    if (no_device()) return;
#if PORTAMEM_ADDRESS_SANITIZER || PORTAMEM_THREAD_SANITIZER
    return;  // which keep what was freed
#else
    const auto resident = [] {
        std::FILE* const file = std::fopen("/proc/self/statm", "r");
        long size = 0;
        long pages = 0;
        REQUIRE(std::fscanf(file, "%ld %ld", &size, &pages) == 2);
        (void)std::fclose(file);
        return static_cast<std::size_t>(pages) * 4096;
    };
    for (int shift = 0; shift < 4; ++shift) {
        CAPTURE(shift);
        const Pool below = pool_over(device_resource());
        const Pool above = pool_over(below);
        const StreamPtr kept = pm::Stream::create(0);
        if (shift % 2 != 0) below->deallocate(below->allocate(1000, kept), 1000, kept);
        if (shift >= 2) above->deallocate(above->allocate(1000, kept), 1000, kept);
        std::size_t before = 0;
        for (int i = 0; i < 1000; ++i) {
            const StreamPtr stream = pm::Stream::create(0);
            above->deallocate(above->allocate(3 * MiB, stream), 3 * MiB, stream);
            stream->close();
            above->trim();
            if (i == 300) before = resident();
        }
        CHECK(resident() < before + 8 * MiB);  // it would be 36 KiB for each
        above->close();
        below->close();
    }
#endif
}

TEST_CASE("pm pool reentry: a bin that the upstream's code has filled meanwhile gets no more than it holds") {
    if (no_device()) return;
    constexpr std::size_t kFew = std::size_t{192} << 10;  // the size of a request where there is little left
    Upstream upstream;
    Pool pool;
    const StreamPtr stream = pm::Stream::create(0);
    const auto self = std::this_thread::get_id();
    std::vector<void*> freed;
    bool is_short = false;
    int few = 0;
    upstream.while_allocating = [&](std::size_t nbytes) {
        if (!is_short || std::this_thread::get_id() != self) return;
        if (nbytes == kFew && ++few == 2) {
            std::thread([&] {  // memory arrives for another thread,
                const StreamPtr other = pm::Stream::create(0);
                pool->deallocate(pool->allocate(3 * MiB, other), 3 * MiB, other);
            })
                .join();
            for (void* ptr : freed) pool->deallocate(ptr, 256, stream);  // and this one lets go of a cacheful
            freed.clear();
        }
        const pm::OutOfMemory why(rt::Error_t::OutOfMemory, "OutOfMemory", "allocate", "");
        throw pm::OutOfMemory(why, "there is no more", {});
    };
    pool = pool_over(upstream.resource(256 * MiB, kDevice));
    std::vector<void*> all;
    for (int i = 0; i < 8192; ++i) all.push_back(pool->allocate(256, stream));
    freed.assign(all.end() - 128, all.end());
    all.resize(all.size() - 128);
    is_short = true;
    while (few < 2) all.push_back(pool->allocate(256, stream));
    CHECK(freed.empty());
    is_short = false;
    std::sort(all.begin(), all.end());
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
    for (void* ptr : all) pool->deallocate(ptr, 256, stream);
    pool->close();
    CHECK(upstream.out == 0);
}

TEST_CASE("pm pool reentry: what the upstream did not take back counts for the peak") {
    if (no_device()) return;
    Upstream upstream;
    Pool pool;
    bool is_first = true;
    upstream.while_deallocating = [&] {
        if (!std::exchange(is_first, false)) return;
        pool->reset_peak();
        throw std::runtime_error("not now");
    };
    pool = pool_over(upstream.resource(64 * MiB));
    const StreamPtr stream = pm::Stream::create(0);
    pool->deallocate(pool->allocate(4 * MiB, stream), 4 * MiB, stream);
    CHECK_THROWS_WITH_AS(pool->trim(), "not now", std::runtime_error);
    const pm::PoolStats stats = pool->stats();
    CHECK(stats.reserved >= 4 * MiB);
    CHECK(stats.peak >= stats.reserved);
    pool->close();
}

TEST_CASE("pm pool reentry: what a policy wants gone goes, also where a trim passed by it") {
    if (no_device()) return;
    Upstream upstream;
    std::atomic<std::size_t> keep{SIZE_MAX};
    pm::PoolOptions options;
    options.release = [&](const pm::PoolStats&) -> std::optional<std::size_t> { return keep.load(); };
    const Pool pool = pm::PoolMemoryResource::create(upstream.resource(256 * MiB), options);
    const StreamPtr busy = pm::Stream::create(0);
    const StreamPtr stream = pm::Stream::create(0);
    void* const first = pool->allocate(20 * MiB, busy);
    void* const second = pool->allocate(20 * MiB, stream);
    const Gate gate(busy);
    pool->deallocate(first, 20 * MiB, busy);
    std::thread trimmer([&] { pool->trim(); });
    std::this_thread::sleep_for(100ms);  // until it waits for the stream that is held
    keep = 0;
    pool->deallocate(second, 20 * MiB, stream);
    std::this_thread::sleep_for(100ms);  // the pool's own chore looks, and finds the trim at it
    gate.open();
    trimmer.join();
    CHECK(eventually([&] { return pool->stats().reserved == 0; }));
    pool->close();
}

TEST_CASE("pm pool reentry: a pool that is closed from its own giving back waits for nobody") {
    if (no_device()) return;
    Upstream upstream;
    Pool pool;
    std::atomic<bool> is_done{false};
    std::chrono::steady_clock::duration took{};
    const auto self = std::this_thread::get_id();
    upstream.while_deallocating = [&] {
        if (std::this_thread::get_id() == self || is_done) return;
        const auto begin = std::chrono::steady_clock::now();
        CHECK_THROWS_AS(pool->close(), pm::ExportError);
        took = std::chrono::steady_clock::now() - begin;
        is_done = true;
    };
    pm::PoolOptions options;
    options.release = [](const pm::PoolStats&) -> std::optional<std::size_t> { return 0; };
    pool = pm::PoolMemoryResource::create(upstream.resource(256 * MiB), options);
    const StreamPtr stream = pm::Stream::create(0);
    void* const ptr = pool->allocate(20 * MiB, stream);
    const Gate gate(stream);
    pool->deallocate(ptr, 20 * MiB, stream);
    gate.open();
    CHECK(eventually([&] { return is_done.load(); }));
    CHECK(took < 5s);  // it would be 10 s for itself
    CHECK(eventually([&] { return pool->stats().reserved == 0; }));
    pool->close();
    CHECK(upstream.out == 0);
}

TEST_CASE("pm pool reentry: of two threads that close, neither is refused") {
    if (no_device()) return;
    const auto until = std::chrono::steady_clock::now() + 1s;
    while (std::chrono::steady_clock::now() < until) {
        Upstream upstream;
        const Pool pool = pool_over(upstream.resource(64 * MiB, kDevice));
        const StreamPtr stream = pm::Stream::create(0);
        pool->deallocate(pool->allocate(256, stream), 256, stream);
        std::atomic<int> refused{0};
        const auto close = [&] {
            for (bool is_busy = true; is_busy;) {
                try {
                    pool->close();
                    is_busy = false;
                } catch (const pm::ExportError&) {  // the other one is inside of a call
                } catch (const std::exception&) {
                    is_busy = false;
                    ++refused;
                }
            }
        };
        std::thread one(close);
        std::thread other(close);
        one.join();
        other.join();
        CHECK(refused == 0);
        CHECK(pool->is_closed());
        CHECK(upstream.out == 0);
    }
}
