// SPDX-License-Identifier: MIT
// Resources over an upstream that refuses to take memory back, or is slow: the work they waited for, and how they
// close.
#include "pm_support.hpp"

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace {

/// An upstream that runs a function before it hands memory out or takes it back: one that throws has refused.
class Hooked : public pm::ResourceAdaptor {
  public:
    explicit Hooked(Resource upstream) : pm::ResourceAdaptor(std::move(upstream)) {}
    std::function<void()> before_take;
    std::function<void()> before_give_back;

  protected:
    void* take(std::size_t nbytes, const StreamPtr& stream, pm::AllocateOptions options) override {
        if (before_take) before_take();
        return pm::ResourceAdaptor::take(nbytes, stream, options);
    }
    void give_back(void* ptr, std::size_t nbytes, const StreamPtr& stream) override {
        if (before_give_back) before_give_back();
        pm::ResourceAdaptor::give_back(ptr, nbytes, stream);
    }
};

void refuse() { throw std::runtime_error("not taken back"); }

constexpr std::size_t kBytes = 64 << 10;

}  // namespace

TEST_CASE("pm upstream faults: chunks that were refused do not hide later work on their stream") {
    if (no_device()) return;
    const auto upstream = std::make_shared<Hooked>(device_resource());
    pm::FixedSizeMemoryResource resource(upstream, kBytes, 1);
    const TestStream native;
    const StreamPtr raw = pm::Stream::from_handle(native.handle, 0);
    void* const first = resource.allocate(kBytes, raw);
    void* const second = resource.allocate(kBytes, raw);
    resource.deallocate(first, kBytes, raw);
    upstream->before_give_back = refuse;
    CHECK_THROWS_AS(resource.trim(), std::runtime_error);
    upstream->before_give_back = nullptr;
    const Gate gate(raw);
    resource.deallocate(second, kBytes, raw);
    gate.open_soon();
    resource.trim();
    CHECK(gate.is_open());
    CHECK(upstream->live_buffers() == 0);
}

TEST_CASE("pm upstream faults: a pool closes once what its policy gives back is back") {
    if (no_device()) return;
    const auto upstream = std::make_shared<Hooked>(device_resource());
    pm::PoolOptions options;
    options.release = pm::PoolOptions::keep_share_of_peak(0.25);
    const auto pool = pm::PoolMemoryResource::create(upstream, std::move(options));
    const StreamPtr stream = pm::Stream::create(0);
    void* const first = pool->allocate(72 * MiB, stream);
    void* const second = pool->allocate(72 * MiB, stream);
    std::atomic<bool> is_inside{false};
    upstream->before_give_back = [&, mine = std::this_thread::get_id()] {
        if (std::this_thread::get_id() == mine) return;
        is_inside = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
    };
    {
        const Gate gate(stream);
        pool->deallocate(first, 72 * MiB, stream);
        pool->deallocate(second, 72 * MiB, stream);
    }
    REQUIRE(eventually([&] { return is_inside.load(); }));
    CHECK_NOTHROW(pool->close());
    CHECK(pool->is_closed());
    CHECK(upstream->live_buffers() == 0);
}

TEST_CASE("pm upstream faults: a pool that another thread is inside of says so when it is closed") {
    if (no_device()) return;
    const auto upstream = std::make_shared<Hooked>(device_resource());
    const auto pool = pm::PoolMemoryResource::create(upstream);
    const StreamPtr stream = pm::Stream::create(0);
    std::atomic<bool> is_inside{false};
    std::atomic<bool> goes_on{false};
    upstream->before_take = [&] {
        is_inside = true;
        while (!goes_on) std::this_thread::yield();
    };
    std::thread other([&] { pool->deallocate(pool->allocate(MiB, stream), MiB, stream); });
    while (!is_inside) std::this_thread::yield();
    std::string why;
    try {
        pool->close();
    } catch (const pm::ExportError& error) {
        why = error.what();
    }
    goes_on = true;
    other.join();
    CHECK(why.find("another thread") != std::string::npos);
    CHECK(why.find("0 live") == std::string::npos);
    CHECK_FALSE(pool->is_closed());
    pool->close();
    CHECK(upstream->live_buffers() == 0);
}
