// SPDX-License-Identifier: MIT
// tests/cpp/host_pool_settings.cpp: pools under PORTAMEM_POOL and PORTAMEM_POOL_LIMIT, each in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>

#include "../../csrc/core/pool_settings/device_sharers.hpp"
#include "pm_support.hpp"

namespace {

using Pool = pm::PoolMemoryResource;

bool passes(const std::string& name, const std::map<std::string, std::string>& environment) {
    const std::string filter = "--test-case=host child: " + name;
    const pid_t child = fork();
    REQUIRE(child != -1);
    if (child == 0) {
        (void)unsetenv("PORTAMEM_POOL");
        (void)unsetenv("PORTAMEM_POOL_LIMIT");
        for (const auto& [key, value] : environment) (void)setenv(key.c_str(), value.c_str(), 1);
        (void)execl("/proc/self/exe", "child", filter.c_str(), "--no-skip", "--minimal", static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("host child: pools keep nothing" * doctest::skip()) {
    const auto upstream = device_resource();
    const auto pool = Pool::create(upstream);
    const auto stream = pm::Stream::create(0);
    std::vector<void*> out;
    for (std::size_t i = 1; i <= 5; ++i) {
        out.push_back(pool->allocate(100 * i, stream));
        CHECK(keeps_bytes(out.back(), 100 * i, 7));
        CHECK(upstream->live_buffers() == i);
        CHECK(pool->live_buffers() == i);
    }
    CHECK(pool->live_bytes() == 1500);
    CHECK(pool->stats().used == 1500);
    CHECK(pool->stats().misses == 5);
    CHECK(pool->stats().hits == 0);
    CHECK(pool->cached() == 0);
    CHECK(pool->snapshot().size() == 5);
    CHECK(contains(refusal<pm::ExportError>([&] { pool->close(); }), "5 live buffer(s) of 1500 bytes"));
    CHECK(
        contains(refusal<std::invalid_argument>([&] { pool->deallocate(out[1], 100, stream); }), "200 bytes, not 100"));
    CHECK_THROWS_AS(pool->deallocate(static_cast<char*>(out[4]) + 256, 100, stream), std::invalid_argument);
    for (std::size_t i = 1; i <= 5; ++i) {
        CHECK(pm::resource_of(out[i - 1]) == pool);
        CHECK(pm::size_of(out[i - 1]) == 100 * i);
        CHECK(pm::block_of(static_cast<char*>(out[i - 1]) + 50)->base == out[i - 1]);
        i % 2 == 0 ? pm::deallocate(out[i - 1], stream) : pool->deallocate(out[i - 1], 100 * i, stream);
        CHECK(pm::resource_of(out[i - 1]) == nullptr);
    }
    CHECK_THROWS_AS(pool->deallocate(out[0], 100, stream), std::invalid_argument);
    CHECK(upstream->live_buffers() == 0);
    CHECK(pool->stats().used == 0);
    CHECK(pool->stats().releases == 5);
    CHECK(pool->stats().peak == 1500);
    pool->reset_peak();
    CHECK(pool->stats().peak == 0);
    pool->trim();

    void* aligned = pool->allocate(1000, stream, 1 << 16);
    CHECK(reinterpret_cast<std::uintptr_t>(aligned) % (1 << 16) == 0);
    CHECK(keeps_bytes(aligned, 1000, 9));
    pool->deallocate(aligned, 1000, stream);
    CHECK_THROWS_AS(pool->allocate(16, stream, 3), std::invalid_argument);
    CHECK(pool->allocate(0, stream) == nullptr);
    CHECK(pool->live_buffers() == 1);
    pool->deallocate(nullptr, 0, stream);
    CHECK_THROWS_AS(pool->allocate(~std::size_t{0} - 100, stream), pm::Error);
    CHECK_THROWS_AS(pool->allocate(~std::size_t{0} - 100, stream, 1 << 16), pm::Error);
    CHECK(upstream->live_buffers() == 0);
    CHECK(pool->stats().reserved == 0);

    stream->begin_capture(rt::StreamCaptureMode::Relaxed);
    CHECK_THROWS_AS(pool->allocate(100, stream), std::invalid_argument);
    CHECK(stream->capture_status() == rt::StreamCaptureStatus::Active);
    stream->end_capture();
    if (pm::device_count() > 1) CHECK_THROWS_AS(pool->allocate(100, pm::Stream::create(1)), std::invalid_argument);
    pool->close();
    CHECK_THROWS_AS(pool->allocate(100, stream), std::invalid_argument);

    pm::PoolOptions options;
    options.limit = 4096;
    const auto limited = Pool::create(upstream, options);
    void* most = limited->allocate(4000, stream);
    CHECK(contains(refusal<pm::OutOfMemory>([&] { (void)limited->allocate(97, stream); }), "limit of 4096 bytes"));
    void* rest = limited->allocate(96, stream);
    limited->deallocate(most, 4000, stream);
    limited->deallocate(rest, 96, stream);
}

TEST_CASE("host child: pools keep nothing, and many threads use one" * doctest::skip()) {
    const auto upstream = device_resource();
    const auto pool = Pool::create(upstream);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const auto stream = pm::Stream::create(0);
            for (std::size_t i = 0; i < 100; ++i) {
                void* ptr = pool->allocate(256 + t * i, stream, i % 2 == 0 ? 256 : 4096);
                pool->deallocate(ptr, 256 + t * i, stream);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(pool->stats().misses == 400);
    CHECK(pool->stats().releases == 400);
    CHECK(pool->stats().reserved == 0);
    CHECK(upstream->live_buffers() == 0);
    pool->close();
}

TEST_CASE("host child: pools of device memory have a limit" * doctest::skip()) {
    const auto stream = pm::Stream::create(0);
    const auto pool = Pool::create(device_resource());
    CHECK(pool->limit() == 8 * MiB);
    void* ptr = pool->allocate(5 * MiB, stream);
    const std::string text = refusal<pm::OutOfMemory>([&] { (void)pool->allocate(4 * MiB, stream); });
    CHECK(contains(text, "limit of 8388608 bytes"));
    CHECK(pool->stats().reserved <= 8 * MiB);
    void* more = pool->allocate(2 * MiB, stream);
    pool->deallocate(ptr, 5 * MiB, stream);
    ptr = pool->allocate(5 * MiB, stream);
    pool->deallocate(ptr, 5 * MiB, stream);
    pool->deallocate(more, 2 * MiB, stream);

    pm::PoolOptions options;
    options.limit = 32 * MiB;
    const auto own = Pool::create(device_resource(), options);
    CHECK(own->limit() == 32 * MiB);
    own->deallocate(own->allocate(20 * MiB, stream), 20 * MiB, stream);
    const auto pinned = Pool::create(pinned_resource());
    CHECK(pinned->limit() == 0);
    pinned->deallocate(pinned->allocate(20 * MiB, stream), 20 * MiB, stream);
    const auto limited = Pool::create(std::make_shared<pm::StatisticsAdaptor>(device_resource()));
    CHECK(limited->limit() == 8 * MiB);
}

TEST_CASE("host child: pools of one device have a limit together" * doctest::skip()) {
    const auto stream = pm::Stream::create(0);
    const auto one = Pool::create(device_resource());
    const auto over = Pool::create(one);  // its memory is the other's, which counts it
    CHECK(over->limit() == 0);
    void* ptr = over->allocate(5 * MiB, stream);
    {
        const auto other = Pool::create(device_resource());
        const std::string text = refusal<pm::OutOfMemory>([&] { (void)other->allocate(4 * MiB, stream); });
        CHECK(contains(text, "limit of 8388608 bytes"));
        CHECK(contains(text, "PORTAMEM_POOL_LIMIT"));
        void* small = other->allocate(MiB, stream);  // the other pool may have the rest
        CHECK(one->stats().reserved + other->stats().reserved <= 8 * MiB);
        other->deallocate(small, MiB, stream);
        over->deallocate(ptr, 5 * MiB, stream);
        over->trim();
        one->trim();
        CHECK(one->stats().reserved == 0);
        void* large = other->allocate(5 * MiB, stream);
        CHECK_THROWS_AS(one->allocate(4 * MiB, stream), pm::OutOfMemory);
        other->deallocate(large, 5 * MiB, stream);
    }
    one->deallocate(one->allocate(7 * MiB, stream), 7 * MiB, stream);  // a pool that is gone has nothing

    std::vector<std::shared_ptr<Pool>> pools;
    std::vector<std::thread> threads;
    one->trim();
    for (int t = 0; t < 4; ++t) {
        const auto pool = pools.emplace_back(Pool::create(device_resource()));
        threads.emplace_back([pool] {
            const auto own = pm::Stream::create(0);
            for (int turn = 0; turn < 50; ++turn) {
                try {
                    pool->deallocate(pool->allocate(3 * MiB, own), 3 * MiB, own);
                } catch (const pm::OutOfMemory&) {
                    pool->trim();
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::size_t reserved = 0;
    for (const auto& pool : pools) reserved += pool->stats().reserved;
    CHECK(reserved <= 8 * MiB);
    const auto own = pm::PoolOptions{32 * MiB, nullptr};
    const auto apart = Pool::create(device_resource(), own);
    apart->deallocate(apart->allocate(20 * MiB, stream), 20 * MiB, stream);
}

TEST_CASE("host child: a limit is shared" * doctest::skip()) {
    constexpr std::size_t half = 512 * MiB;
    const auto pool = Pool::create(device_resource());
    const auto stream = pm::Stream::create(0);
    const std::size_t alone = pool->limit();
    CHECK(alone <= half);
    CHECK(alone == half / (half / alone));  // other tests of this machine may be running
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    const std::string uuid = pm::Device(0).uuid();
    const pid_t other = fork();
    REQUIRE(other != -1);
    if (other == 0) {
        (void)alarm(60);
        portamem::pool_settings::DeviceSharers sharers(portamem::pool_settings::DeviceSharers::default_directory());
        const char answer = sharers.count(uuid) > 1 ? 'y' : 'n';
        (void)!write(ready[1], &answer, 1);
        for (;;) (void)pause();
    }
    char answer = 'n';
    REQUIRE(read(ready[0], &answer, 1) == 1);
    CHECK(answer == 'y');
    const std::size_t shared = pool->limit();
    CHECK(shared <= half / 2);
    CHECK_THROWS_AS(pool->allocate(half / 2 + MiB, stream), pm::OutOfMemory);
    (void)kill(other, SIGKILL);
    REQUIRE(waitpid(other, nullptr, 0) == other);
    CHECK(pool->stats().used == 0);
}

TEST_CASE("host child: a setting that cannot be read is told by the first pool" * doctest::skip()) {
    const std::string text = refusal<std::invalid_argument>([] { (void)Pool::create(device_resource()); });
    CHECK(contains(text, std::getenv("EXPECTED")));
    const auto stream = pm::Stream::create(0);
    const auto plain = device_resource();  // everything else works
    plain->deallocate(plain->allocate(100, stream), 100, stream);
}

TEST_CASE("host pool settings: off, each allocation is the upstream's") {
    CHECK(passes("pools keep nothing", {{"PORTAMEM_POOL", "off"}}));
    CHECK(passes("pools keep nothing, and many threads use one", {{"PORTAMEM_POOL", "off"}}));
}

TEST_CASE("host pool settings: a limit is that of pools of device memory") {
    CHECK(passes("pools of device memory have a limit", {{"PORTAMEM_POOL_LIMIT", "8MiB"}}));
    CHECK(passes("pools of one device have a limit together", {{"PORTAMEM_POOL_LIMIT", "8MiB"}}));
    CHECK(passes("a limit is shared", {{"PORTAMEM_POOL_LIMIT", "50%"}, {"PORTAMEM_HOST_CAPACITY", "1GiB"}}));
}

TEST_CASE("host pool settings: what cannot be read is told") {
    const std::string name = "a setting that cannot be read is told by the first pool";
    CHECK(passes(name, {{"PORTAMEM_POOL", "none"}, {"EXPECTED", "PORTAMEM_POOL=none is neither on nor off"}}));
    CHECK(passes(name, {{"PORTAMEM_POOL_LIMIT", "8 GB!"}, {"EXPECTED", "PORTAMEM_POOL_LIMIT=8 GB! is neither"}}));
}
