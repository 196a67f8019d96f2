// SPDX-License-Identifier: MIT
// A pool gives the memory that it keeps idle to another that finds none.
#include <future>
#include <stdexcept>
#include <string>
#include <utility>

#include "pm_pool_upstream.hpp"

namespace {

constexpr std::size_t kMost = 16 * MiB;
constexpr std::size_t kLarge = 10 * MiB;  // two of them are too much

Pool keeping_to_itself(Resource upstream) {
    pm::PoolOptions options;
    options.shares_idle = false;
    return pm::PoolMemoryResource::create(std::move(upstream), options);
}

// Leaves so many bytes idle in the pool, after the work that used them has run.
void leave_idle(pm::MemoryResource& pool, const StreamPtr& stream, std::size_t nbytes = kLarge) {
    pool.deallocate(pool.allocate(nbytes, stream), nbytes, stream);
    stream->synchronize();
}

void expect_served(pm::MemoryResource& pool, const StreamPtr& stream, std::size_t nbytes = kLarge) {
    void* ptr = nullptr;
    CHECK_NOTHROW(ptr = pool.allocate(nbytes, stream));
    if (ptr != nullptr) pool.deallocate(ptr, nbytes, stream);
}

// Two pools over one upstream, one of which keeps most of it idle.
struct TwoPools {
    TwoPools() { leave_idle(*idle, stream); }

    Upstream upstream;
    const Resource below = upstream.resource(kMost);
    const StreamPtr stream = pm::Stream::create(0);
    Pool idle = pool_over(below);
    const Pool pool = pool_over(below);
};

}  // namespace

TEST_CASE("pm pool idle of others: a pool whose upstream has no more gets what another pool keeps idle") {
    if (no_device()) return;
    for (const auto kind : {pm::ResourceKind::Pinned, pm::ResourceKind::System, pm::ResourceKind::Device}) {
        CAPTURE(static_cast<int>(kind));
        Upstream upstream;
        const Resource below = upstream.resource(kMost, kind);
        const StreamPtr stream = pm::Stream::create(0);
        const Pool idle = pool_over(below);
        const Pool pool = pool_over(below);
        leave_idle(*idle, stream);
        REQUIRE(idle->reserved() >= kLarge);
        expect_served(*pool, stream);
        CHECK(idle->reserved() == 0);
        CHECK(idle->stats().releases > 0);
        expect_served(*idle, stream);  // and the other way round
        pool->close();
        idle->close();
        CHECK(upstream.out == 0);
    }
}

TEST_CASE("pm pool idle of others: no more is taken than is needed, and nothing that is out") {
    if (no_device()) return;
    Upstream upstream;
    const Resource below = upstream.resource(3 * kLarge);
    const StreamPtr stream = pm::Stream::create(0);
    const Pool first = pool_over(below);
    const Pool second = pool_over(below);
    const Pool using_it = pool_over(below);
    const Pool pool = pool_over(below);
    void* const out = using_it->allocate(kLarge - 2 * MiB, stream);
    leave_idle(*first, stream, kLarge - 2 * MiB);
    leave_idle(*second, stream, kLarge - 2 * MiB);
    expect_served(*pool, stream, kLarge - 2 * MiB);
    CHECK((first->reserved() == 0) != (second->reserved() == 0));
    CHECK(using_it->live_bytes() == kLarge - 2 * MiB);
    CHECK_THROWS_AS((void)pool->allocate(3 * kLarge - 2 * MiB, stream), pm::OutOfMemory);
    CHECK(using_it->reserved() >= kLarge - 2 * MiB);
    using_it->deallocate(out, kLarge - 2 * MiB, stream);
}

TEST_CASE("pm pool idle of others: a pool that does not share keeps what it has, and has what others keep") {
    if (no_device()) return;
    Upstream upstream;
    const Resource below = upstream.resource(kMost);
    const StreamPtr stream = pm::Stream::create(0);
    const Pool kept = keeping_to_itself(below);
    const Pool pool = pool_over(below);
    leave_idle(*kept, stream);
    const std::size_t reserved = kept->reserved();
    CHECK_THROWS_AS((void)pool->allocate(kLarge, stream), pm::OutOfMemory);
    CHECK(kept->reserved() == reserved);
    kept->trim();
    leave_idle(*pool, stream);
    expect_served(*kept, stream);
    CHECK(pool->reserved() == 0);
}

TEST_CASE("pm pool idle of others: memory of the host is no help to a pool of a device's memory, nor the other way") {
    if (no_device()) return;
    const StreamPtr stream = pm::Stream::create(0);
    Upstream of_host;
    Upstream of_device;
    const Pool host = pool_over(of_host.resource(kMost, pm::ResourceKind::Pinned));
    const Pool device = pool_over(of_device.resource(kMost, pm::ResourceKind::Device));
    for (const auto& [asking, idle] : {std::pair{host, device}, std::pair{device, host}}) {
        leave_idle(*idle, stream);
        const std::size_t reserved = idle->reserved();
        CHECK_THROWS_AS((void)asking->allocate(2 * kMost, stream), pm::OutOfMemory);
        CHECK(idle->reserved() == reserved);
    }
}

TEST_CASE("pm pool idle of others: of a pool over a pool, each helps the other, and none that is being asked") {
    if (no_device()) return;
    Upstream upstream;
    const StreamPtr stream = pm::Stream::create(0);
    const Pool inner = pool_over(upstream.resource(kMost));
    const Pool outer = pool_over(inner);
    leave_idle(*outer, stream);
    REQUIRE(inner->live_bytes() >= kLarge);
    expect_served(*inner, stream);  // the inner pool gets what the outer one keeps
    CHECK(outer->reserved() == 0);
    leave_idle(*outer, stream);
    expect_served(*outer, stream, kLarge + 2 * MiB);
    CHECK_THROWS_AS((void)outer->allocate(2 * kMost, stream), pm::OutOfMemory);
    outer->close();
    inner->close();
    CHECK(upstream.out == 0);
}

TEST_CASE("pm pool idle of others: a pool closes while another thread takes what it keeps") {
    if (no_device()) return;
    TwoPools two;
    std::atomic<bool> is_lending{false};
    std::atomic<bool> closes{false};
    two.upstream.while_deallocating = [&] {
        if (closes) return;
        is_lending = true;
        while (!closes) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // longer than a close waits for a call
    };
    std::thread closer([&] {
        while (!is_lending) std::this_thread::yield();
        closes = true;
        CHECK_NOTHROW(two.idle->close());
    });
    expect_served(*two.pool, two.stream);
    is_lending = true;
    closer.join();
    CHECK(two.idle->is_closed());
    two.upstream.while_deallocating = [] {};
    expect_served(*two.pool, two.stream);
}

TEST_CASE("pm pool idle of others: a pool that its own thread is closing is no help, and is not waited for") {
    if (no_device()) return;
    TwoPools two;
    std::promise<void> is_closing;
    std::promise<void> goes_on;
    two.upstream.while_deallocating = [&, first = true]() mutable {
        if (!std::exchange(first, false)) return;
        is_closing.set_value();
        goes_on.get_future().wait();
    };
    std::thread closer([&] { two.idle->close(); });
    is_closing.get_future().wait();
    CHECK_THROWS_AS((void)two.pool->allocate(kLarge, two.stream), pm::OutOfMemory);
    goes_on.set_value();
    closer.join();
    expect_served(*two.pool, two.stream);
}

TEST_CASE("pm pool idle of others: the resource of the pool may go while its memory is taken") {
    if (no_device()) return;
    TwoPools two;
    two.upstream.while_deallocating = [&] { two.idle.reset(); };
    expect_served(*two.pool, two.stream);
    CHECK(two.idle == nullptr);
    two.upstream.while_deallocating = [] {};
    two.pool->close();
    CHECK(two.upstream.out == 0);
}

TEST_CASE("pm pool idle of others: where another pool's upstream fails, the refusal is the call's own") {
    if (no_device()) return;
    Upstream upstream;
    Upstream elsewhere;
    const StreamPtr stream = pm::Stream::create(0);
    const Pool idle = pool_over(elsewhere.resource(kMost));
    const Pool pool = pool_over(upstream.resource(kMost));
    leave_idle(*idle, stream);
    elsewhere.while_deallocating = [] { throw std::runtime_error("of the other upstream"); };
    std::string text;
    try {
        (void)pool->allocate(2 * kMost, stream);
    } catch (const pm::OutOfMemory& refused) {
        text = refused.what();
    }
    CHECK(text.find("the pool was asked for") != std::string::npos);
    CHECK(text.find("other threads took") == std::string::npos);
    CHECK(text.find("of the other upstream") == std::string::npos);
    elsewhere.while_deallocating = [] {};
    CHECK(idle->reserved() >= kLarge);
    idle->close();
    CHECK(elsewhere.out == 0);
}
