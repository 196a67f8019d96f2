// SPDX-License-Identifier: MIT
// tests/cpp/pm_fallback.cpp: memory of a second resource where the first one has none.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "pm_support.hpp"

namespace {

std::shared_ptr<pm::FallbackAdaptor> over_limits(std::size_t first, std::size_t second) {
    return pm::FallbackAdaptor::create(pm::LimitingAdaptor::create(device_resource(), first),
                                       pm::LimitingAdaptor::create(pinned_resource(), second));
}

/// Gives no memory, and has the traits that a test says.
class Described : public pm::CountedMemoryResource {
  public:
    explicit Described(const pm::MemoryTraits& traits) : pm::CountedMemoryResource(traits) {}

  protected:
    void* take(std::size_t, const StreamPtr&, pm::AllocateOptions) override { return nullptr; }
    void give_back(void*, std::size_t, const StreamPtr&) override {}
};

/// Tells which memory other streams use, and takes nothing back while it refuses.
class Watched : public pm::ResourceAdaptor {
  public:
    explicit Watched(Resource upstream) : pm::ResourceAdaptor(std::move(upstream)) {}
    std::vector<std::pair<void*, std::size_t>> used;
    std::atomic<bool> refuses{false};
    std::atomic<int> refused{0};

  protected:
    void give_back(void* ptr, std::size_t nbytes, const StreamPtr& stream) override {
        if (refuses) {
            ++refused;
            throw std::domain_error("not now");
        }
        pm::ResourceAdaptor::give_back(ptr, nbytes, stream);
    }
    void do_note_use(void* ptr, std::size_t nbytes, const pm::Stream& stream) override {
        used.emplace_back(ptr, nbytes);
        pm::ResourceAdaptor::do_note_use(ptr, nbytes, stream);
    }
};

}  // namespace

TEST_CASE("pm fallback: each buffer goes back to the resource that gave it") {
    if (no_device()) return;
    const auto resource = over_limits(1000, 2000);
    std::vector<pm::Buffer> buffers;
    for (int i = 0; i < 4; ++i) buffers.emplace_back(resource, 600);
    CHECK(resource->upstream()->live_bytes() == 600);
    CHECK(resource->alternate()->live_bytes() == 1800);
    CHECK(resource->alternate_live_buffers() == 3);
    CHECK(resource->alternate_live_bytes() == 1800);
    CHECK(resource->live_bytes() == 2400);
    for (std::size_t i = 0; i < buffers.size(); ++i) put(buffers[i], static_cast<unsigned>(i));
    for (std::size_t i = 0; i < buffers.size(); ++i) CHECK(get(buffers[i]) == pattern(600, static_cast<unsigned>(i)));
    buffers.erase(buffers.begin());
    buffers.emplace_back(resource, 1000);  // the upstream has room again
    CHECK(resource->upstream()->live_bytes() == 1000);
    buffers.clear();
    CHECK(resource->upstream()->live_buffers() == 0);
    CHECK(resource->alternate()->live_buffers() == 0);
    CHECK(resource->alternate_live_bytes() == 0);
    resource->close();
}

TEST_CASE("pm fallback: both refusals are told") {
    if (no_device()) return;
    const auto resource = over_limits(1000, 900);
    std::string told;
    try {
        (void)pm::Buffer(resource, 3000);
    } catch (const pm::OutOfMemory& refused) {
        told = refused.what();
        CHECK(refused.figures().asked == 3000);
        CHECK(refused.figures().free == 1000);
    }
    CHECK(contains(told, "the limit is 1000 B"));
    CHECK(contains(told, "the limit is 900 B"));
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm fallback: only a lack of memory goes to the alternate") {
    if (no_device()) return;
    const auto alternate = pm::LimitingAdaptor::create(pinned_resource(), 2000);
    const auto failing =
        pm::FailureCallbackAdaptor::create(pm::LimitingAdaptor::create(device_resource(), 100),
                                           [](std::size_t) -> bool { throw std::domain_error("the program's own"); });
    const auto resource = pm::FallbackAdaptor::create(failing, alternate);
    CHECK_THROWS_AS(pm::Buffer(resource, 200), std::domain_error);
    CHECK_THROWS_AS(pm::Buffer(resource, 50, nullptr, 512), std::invalid_argument);
    CHECK(alternate->live_buffers() == 0);
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm fallback: a request that the alternate cannot serve is a lack of memory") {
    if (no_device()) return;
    const auto first = pm::LimitingAdaptor::create(pm::PoolMemoryResource::create(device_resource()), 1000);
    const auto second = pm::FixedSizeMemoryResource::create(device_resource(), 2048);
    if (first->is_stream_ordered() != second->is_stream_ordered()) return;
    const auto resource = pm::FallbackAdaptor::create(first, second);
    const auto stream = pm::Stream::create(0);
    const std::string told = refusal<pm::OutOfMemory>([&] { pm::Buffer(resource, 4000, stream); });
    CHECK(contains(told, "the limit is 1000 B"));
    CHECK(contains(told, "the alternate refused too: blocks of this resource hold 2048 bytes"));
}

TEST_CASE("pm fallback: under capture, memory at hand of both is given") {
    if (no_device()) return;
    pm::PoolOptions options;
    options.limit = std::size_t{4} << 20;
    options.host_access = false;
    const auto first = pm::PoolMemoryResource::create(device_resource(), options);
    options.limit = 0;
    const auto second = pm::PoolMemoryResource::create(pinned_resource(), options);
    const auto resource = pm::FallbackAdaptor::create(first, second);
    const auto stream = pm::Stream::create(0);
    const std::size_t nbytes = std::size_t{3} << 20;
    const pm::Buffer kept(resource, nbytes, stream);
    pm::Buffer(resource, nbytes, stream).close();  // the alternate keeps it
    CHECK(second->live_buffers() == 0);
    stream->synchronize();
    stream->begin_capture(rt::StreamCaptureMode::ThreadLocal);
    {
        void* const ptr = resource->allocate(nbytes, stream);
        CHECK(second->live_buffers() == 1);
        CHECK(
            contains(refusal<std::invalid_argument>([&] { (void)resource->allocate(8 * nbytes, stream); }), "capture"));
        resource->deallocate(ptr, nbytes, stream);
    }
    stream->end_capture();
    CHECK(resource->alternate_live_buffers() == 0);
}

TEST_CASE("pm fallback: memory that may be the host's is known to be") {
    if (no_device()) return;
    pm::PoolOptions closed;
    closed.host_access = false;
    CHECK(pm::PoolMemoryResource::create(pinned_resource(), closed)->traits().may_be_of_host);
    const auto resource = over_limits(1000, 1000);
    CHECK(resource->traits().may_be_of_host);
    CHECK(pm::StatisticsAdaptor::create(resource)->traits().may_be_of_host);
    CHECK_FALSE(pm::PoolMemoryResource::create(device_resource(), closed)->traits().may_be_of_host);
}

TEST_CASE("pm fallback: its memory is described as what either resource may give") {
    if (no_device()) return;
    bool pm::MemoryTraits::*const flags[] = {&pm::MemoryTraits::pageable, &pm::MemoryTraits::may_be_of_host,
                                             &pm::MemoryTraits::free_may_wait, &pm::MemoryTraits::is_known_elsewhere};
    pm::MemoryTraits plain;
    plain.free_may_wait = false;
    for (bool pm::MemoryTraits::*const flag : flags) {
        for (int which = 0; which < 4; ++which) {
            CAPTURE(which);
            pm::MemoryTraits first = plain;
            pm::MemoryTraits second = plain;
            first.*flag = (which & 1) != 0;
            second.*flag = (which & 2) != 0;
            const pm::MemoryTraits both =
                pm::FallbackAdaptor(std::make_shared<Described>(first), std::make_shared<Described>(second)).traits();
            for (bool pm::MemoryTraits::*const each : flags) CHECK(both.*each == (each == flag && which != 0));
        }
    }
    pm::MemoryTraits reached = plain;
    reached.kind = pm::ResourceKind::Managed;
    reached.host_accessible = true;
    const auto upstream = std::make_shared<Described>(plain);
    const auto alternate = pm::StatisticsAdaptor::create(std::make_shared<Described>(reached));
    const pm::MemoryTraits both = pm::FallbackAdaptor(upstream, alternate).traits();
    CHECK(both.kind == pm::ResourceKind::Device);
    CHECK_FALSE(both.host_accessible);
    CHECK(both.may_be_of_host);
    CHECK(both.levels == alternate->traits().levels + 1);
    CHECK(pm::FallbackAdaptor(pm::StatisticsAdaptor::create(upstream), upstream).traits().levels == 2);
}

TEST_CASE("pm fallback: what both keep is cached, where both can say") {
    if (no_device()) return;
    pm::PoolOptions options;
    options.host_access = false;
    options.limit = std::size_t{4} << 20;
    const auto first = pm::PoolMemoryResource::create(device_resource(), options);
    options.limit = 0;
    const auto second = pm::PoolMemoryResource::create(device_resource(), options);
    const auto resource = pm::FallbackAdaptor::create(first, second);
    const auto stream = pm::Stream::create(0);
    CHECK(resource->cached() == std::size_t{0});
    {
        const std::size_t nbytes = std::size_t{3} << 20;
        const pm::Buffer one(resource, nbytes, stream);
        const pm::Buffer two(resource, nbytes, stream);
        CHECK(resource->alternate_live_buffers() == 1);
    }
    REQUIRE(first->cached().value() >= std::size_t{3} << 20);
    REQUIRE(second->cached().value() >= std::size_t{3} << 20);
    CHECK(resource->cached() == *first->cached() + *second->cached());
    CHECK(pm::FallbackAdaptor(first, first).cached() == 2 * *first->cached());
    const auto plain = device_resource();
    REQUIRE_FALSE(plain->cached().has_value());
    if (plain->is_stream_ordered() == first->is_stream_ordered()) {
        CHECK_FALSE(pm::FallbackAdaptor(first, plain).cached().has_value());
        CHECK_FALSE(pm::FallbackAdaptor(plain, first).cached().has_value());
    }
    CHECK_FALSE(pm::FallbackAdaptor(plain, plain).cached().has_value());
}

TEST_CASE("pm fallback: a use of its memory is told to the resource that gave it") {
    if (no_device()) return;
    const auto first = std::make_shared<Watched>(pm::LimitingAdaptor::create(device_resource(), 1000));
    const auto second = std::make_shared<Watched>(device_resource());
    const auto resource = pm::FallbackAdaptor::create(first, second);
    const auto other = pm::Stream::create(0);
    const pm::Buffer mine(resource, 600);
    const pm::Buffer others(resource, 700);
    mine.record_stream(other);
    using Used = decltype(first->used);
    CHECK(first->used == Used{{mine.ptr(), 600}});
    CHECK(second->used.empty());
    others.record_stream(other);
    CHECK(first->used.size() == 1);
    CHECK(second->used == Used{{others.ptr(), 700}});
}

TEST_CASE("pm fallback: dropped memory of the alternate goes back to it behind the work that uses it") {
    if (no_device()) return;
    const auto resource = over_limits(0, 5000);
    const auto stream = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    {
        const Gate gate(other);
        {
            const pm::Buffer buffer(resource, 1000, stream);
            buffer.record_stream(other);
            (void)buffer.ptr();  // the program may use it there
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK_FALSE(gate.is_open());
        CHECK(resource->alternate_live_buffers() == 1);
        CHECK(resource->alternate()->live_bytes() == 1000);
    }
    CHECK(eventually([&] { return resource->live_buffers() == 0; }));
    CHECK(resource->alternate_live_bytes() == 0);
    CHECK(resource->alternate()->live_buffers() == 0);
}

TEST_CASE("pm fallback: the alternate is asked after the upstream has waited for memory that it has lost to a drop") {
    if (no_device()) return;
    const auto resource = over_limits(1000, 1000);
    const auto stream = pm::Stream::create(0);
    const Gate gate(stream);
    { (void)pm::Buffer(resource->upstream(), 800, stream).ptr(); }
    gate.open_soon();
    const pm::Buffer first(resource, 900);
    CHECK(gate.is_open());
    CHECK(resource->alternate_live_buffers() == 0);
}

TEST_CASE("pm fallback: the alternate gives memory where the upstream has waited in vain") {
    if (no_device()) return;
    const auto resource = over_limits(1000, 1000);
    const auto stream = pm::Stream::create(0);
    const Gate gate(stream);
    { (void)pm::Buffer(resource->upstream(), 800, stream).ptr(); }
    const auto before = std::chrono::steady_clock::now();
    const pm::Buffer second(resource, 900);
    CHECK(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(1900));
    CHECK_FALSE(gate.is_open());
    CHECK(resource->alternate_live_buffers() == 1);
    gate.open();  // before a free that may wait for the device
}

TEST_CASE("pm fallback: an allocation waits for dropped memory of the alternate") {
    if (no_device()) return;
    const auto resource = over_limits(0, 1000);
    const auto stream = pm::Stream::create(0);
    const Gate gate(stream);
    { (void)pm::Buffer(resource, 800, stream).ptr(); }
    CHECK(resource->alternate_live_bytes() == 800);
    gate.open_soon();
    const pm::Buffer next(resource, 900);
    CHECK(gate.is_open());
    CHECK(resource->alternate_live_bytes() == 900);
}

TEST_CASE("pm fallback: dropped memory that the alternate refuses is offered to it again") {
    if (no_device()) return;
    const auto second = std::make_shared<Watched>(device_resource());
    const auto resource = pm::FallbackAdaptor::create(pm::LimitingAdaptor::create(device_resource(), 0), second);
    second->refuses = true;
    { const pm::Buffer buffer(resource, 1000); }
    CHECK(eventually([&] { return second->refused > 2; }));
    CHECK(resource->alternate_live_buffers() == 1);
    CHECK(resource->live_bytes() == 1000);
    second->refuses = false;
    CHECK(eventually([&] { return resource->live_buffers() == 0; }));
    CHECK(resource->alternate_live_buffers() == 0);
    CHECK(second->live_buffers() == 0);
}

TEST_CASE("pm fallback: blocks of both are known by their addresses") {
    if (no_device()) return;
    const auto first = pm::PoolMemoryResource::create(device_resource());
    const auto second = pm::PoolMemoryResource::create(device_resource());
    const auto resource = pm::FallbackAdaptor::create(pm::LimitingAdaptor::create(first, 1000), second);
    const auto stream = pm::Stream::create(0);
    void* const mine = resource->allocate(700, stream);
    void* const others = resource->allocate(800, stream);
    for (const auto& [ptr, nbytes] : {std::pair(mine, 700u), std::pair(others, 800u)}) {
        CHECK(resource->size_of(ptr) == nbytes);
        CHECK(pm::size_of(ptr) == nbytes);
    }
    pm::deallocate(others, stream);
    pm::deallocate(mine, stream);
    CHECK(resource->live_buffers() == 0);
    CHECK(first->live_buffers() == 0);
    CHECK(second->live_buffers() == 0);
}

TEST_CASE("pm fallback: many threads at once") {
    if (no_device()) return;
    const auto resource = over_limits(8 * 4096, 64 * 4096);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < 8; ++number) {
        threads.emplace_back([&, number] {
            for (unsigned turn = 0; turn < 50; ++turn) {
                pm::Buffer one(resource, 4096);
                pm::Buffer two(resource, 4096);
                put(one, number);
                put(two, number + turn);
                if (get(one) != pattern(4096, number) || get(two) != pattern(4096, number + turn)) ++wrong;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(resource->live_bytes() == 0);
    CHECK(resource->alternate_live_bytes() == 0);
    CHECK(resource->upstream()->live_buffers() == 0);
    CHECK(resource->alternate()->live_buffers() == 0);
}

TEST_CASE("pm fallback: blocks of its first allocations are its own, whichever thread frees them by address") {
    if (no_device()) return;
    const auto first = pm::PoolMemoryResource::create(device_resource());
    const auto second = pm::PoolMemoryResource::create(device_resource());
    const auto stream = pm::Stream::create(0);
    for (int turn = 0; turn < 1000; ++turn) {
        const auto resource = pm::FallbackAdaptor::create(first, second);
        std::atomic<int> ready{0};
        std::vector<std::thread> threads;
        for (int number = 0; number < 2; ++number) {
            threads.emplace_back([&] {
                ++ready;
                while (ready != 2) continue;
                pm::deallocate(resource->allocate(500, stream), stream);
            });
        }
        for (auto& thread : threads) thread.join();
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm fallback: resources that cannot stand for another") {
    if (no_device()) return;
    const auto plain = device_resource();
    const auto pool = pm::PoolMemoryResource::create(device_resource());
    if (pool->is_stream_ordered()) {
        CHECK(contains(refusal<std::invalid_argument>([&] { pm::FallbackAdaptor(pool, plain); }),
                       "the upstream is stream-ordered"));
        CHECK(contains(refusal<std::invalid_argument>([&] { pm::FallbackAdaptor(plain, pool); }),
                       "the alternate is stream-ordered"));
    }
    CHECK(refusal<std::invalid_argument>([&] { pm::FallbackAdaptor(plain, nullptr); }) ==
          "there is no alternate resource");
    CHECK_THROWS_AS(pm::FallbackAdaptor(nullptr, plain), std::invalid_argument);
    const auto closed = device_resource();
    closed->close();
    CHECK_THROWS_AS(pm::FallbackAdaptor(plain, closed), std::invalid_argument);
}
