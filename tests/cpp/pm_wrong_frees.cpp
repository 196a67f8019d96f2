// SPDX-License-Identifier: MIT
// tests/cpp/pm_wrong_frees.cpp: what no resource takes back, and that nothing has changed then.
#include <thread>
#include <vector>

#include "pm_support.hpp"

namespace {

constexpr std::size_t kBytes = 100000;

struct Maker {
    const char* name;
    Resource (*make)();
};

/// Memory of the C library by functions of the program.
Resource callback_resource() {
    return std::make_shared<pm::CallbackMemoryResource>(
        [](std::size_t nbytes, const StreamPtr&) { return std::aligned_alloc(256, (nbytes + 255) / 256 * 256); },
        [](void* ptr, std::size_t, const StreamPtr&) { std::free(ptr); },
        pm::CallbackMemoryResource::memory_of(pm::ResourceKind::System, 0));
}

Resource managed_resource() { return std::make_shared<pm::ManagedMemoryResource>(0); }
Resource system_resource() { return std::make_shared<pm::SystemMemoryResource>(0); }

/// Makers of every resource and adaptor that the first device has.
std::vector<Maker> every_maker() {
    std::vector<Maker> all{
        {"device", device_resource},
        {"pinned", pinned_resource},
        {"system", system_resource},
        {"prefaulted", [] { return Resource(std::make_shared<pm::PrefaultedPinnedMemoryResource>(0)); }},
        {"pool", [] { return Resource(pm::PoolMemoryResource::create(device_resource())); }},
        {"fixed size",
         [] { return Resource(std::make_shared<pm::FixedSizeMemoryResource>(device_resource(), 2 * kBytes)); }},
        {"monotonic", [] { return Resource(std::make_shared<pm::MonotonicMemoryResource>(device_resource())); }},
        {"callback", callback_resource},
        {"limiting", [] { return Resource(std::make_shared<pm::LimitingAdaptor>(device_resource(), kBytes << 10)); }},
        {"statistics", [] { return Resource(std::make_shared<pm::StatisticsAdaptor>(device_resource())); }},
        {"tracking", [] { return Resource(std::make_shared<pm::TrackingAdaptor>(device_resource())); }},
        {"fallback",
         [] { return Resource(std::make_shared<pm::FallbackAdaptor>(device_resource(), device_resource())); }},
        {"fallback's alternate",
         [] {
             const auto none = std::make_shared<pm::LimitingAdaptor>(device_resource(), 0);
             return Resource(std::make_shared<pm::FallbackAdaptor>(none, device_resource()));
         }},
        {"failure", [] {
             return Resource(
                 std::make_shared<pm::FailureCallbackAdaptor>(device_resource(), [](std::size_t) { return false; }));
         }}};
    if (has_managed()) {
        all.push_back({"managed", managed_resource});
        all.push_back({"prefetch", [] { return Resource(std::make_shared<pm::PrefetchAdaptor>(managed_resource())); }});
    }
    if (has_pools()) all.push_back({"async", [] { return Resource(pm::AsyncMemoryResource::create(0)); }});
    if (has_virtual()) all.push_back({"virtual", [] { return Resource(pm::VirtualMemoryResource::create(0)); }});
    return all;
}

void* at(void* ptr, std::size_t offset) { return static_cast<char*>(ptr) + offset; }

}  // namespace

TEST_CASE("pm wrong frees: an address that is not out is refused by every resource, and nothing has changed") {
    if (no_device()) return;
    const auto stream = pm::Stream::default_stream(0);
    alignas(256) static char theirs[4096];
    for (const Maker& maker : every_maker()) {
        CAPTURE(std::string(maker.name));
        const Resource resource = maker.make();
        pm::Buffer keeper(resource, kBytes, stream);
        put(keeper, 5);
        void* const freed = resource->allocate(kBytes, stream);
        resource->deallocate(freed, kBytes, stream);
        CHECK_THROWS_AS(resource->deallocate(freed, kBytes, stream), std::exception);  // twice
        CHECK_THROWS_AS(resource->deallocate(at(keeper.ptr(), 512), 16, stream), std::exception);
        CHECK_THROWS_AS(resource->deallocate(at(keeper.ptr(), 1), 16, stream), std::exception);
        CHECK_THROWS_AS(resource->deallocate(theirs, sizeof theirs, stream), std::exception);
        CHECK(resource->live_buffers() == 1);
        CHECK(resource->live_bytes() == kBytes);
        CHECK(get(keeper) == pattern(kBytes, 5));
        CHECK_THROWS_AS(resource->close(), pm::ExportError);
        keeper.close();
        CHECK_THROWS_AS(resource->deallocate(freed, kBytes, stream), std::invalid_argument);  // nothing is out
        resource->close();
    }
    settle();
}

TEST_CASE("pm wrong frees: another size is refused by every resource, and nothing has changed") {
    if (no_device()) return;
    const auto stream = pm::Stream::default_stream(0);
    for (const Maker& maker : every_maker()) {
        CAPTURE(std::string(maker.name));
        const Resource resource = maker.make();
        pm::Buffer keeper(resource, kBytes, stream);
        put(keeper, 6);
        void* const other = resource->allocate(kBytes / 2, stream);
        for (const std::size_t wrong : {std::size_t{16}, kBytes / 2, kBytes + kBytes / 4}) {
            const auto text =
                refusal<std::invalid_argument>([&] { resource->deallocate(keeper.ptr(), wrong, stream); });
            CHECK(contains(text, "give the size that was allocated"));
        }
        CHECK(resource->live_buffers() == 2);
        CHECK(resource->live_bytes() == kBytes + kBytes / 2);
        CHECK(get(keeper) == pattern(kBytes, 6));
        resource->deallocate(other, kBytes / 2, stream);
        keeper.close();
        CHECK(resource->live_bytes() == 0);
        resource->close();
    }
    settle();
}

TEST_CASE("pm wrong frees: memory of another resource of the kind is refused, and stays that one's") {
    if (no_device()) return;
    const auto stream = pm::Stream::default_stream(0);
    for (const Maker& maker : every_maker()) {
        CAPTURE(std::string(maker.name));
        const Resource resource = maker.make();
        const Resource other = maker.make();
        const pm::Buffer keeper(resource, kBytes, stream);
        pm::Buffer theirs(other, kBytes, stream);
        put(theirs, 7);
        CHECK_THROWS_AS(resource->deallocate(theirs.ptr(), kBytes, stream), std::invalid_argument);
        CHECK(resource->live_buffers() == 1);
        CHECK(other->live_buffers() == 1);
        CHECK(get(theirs) == pattern(kBytes, 7));
        theirs.close();
        other->close();
    }
    settle();
}

TEST_CASE("pm wrong frees: of two threads that free the same memory, one is refused") {
    if (no_device()) return;
    const auto stream = pm::Stream::default_stream(0);
    for (const Resource& resource : {system_resource(), callback_resource(),
                                     Resource(std::make_shared<pm::MonotonicMemoryResource>(pinned_resource()))}) {
        const pm::Buffer keeper(resource, 64, stream);
        for (int round = 0; round < 200; ++round) {
            void* const ptr = resource->allocate(1000, stream);
            std::atomic<int> ready{0};
            std::atomic<int> refused{0};
            const auto give_back = [&] {
                ++ready;
                while (ready != 2) std::this_thread::yield();
                try {
                    resource->deallocate(ptr, 1000, stream);
                } catch (const std::invalid_argument&) {
                    ++refused;
                }
            };
            std::thread other(give_back);
            give_back();
            other.join();
            REQUIRE(refused == 1);
            REQUIRE(resource->live_buffers() == 1);
        }
    }
}

TEST_CASE("pm wrong frees: a free that fails leaves the memory known") {
    if (no_device()) return;
    const auto stream = pm::Stream::default_stream(0);
    bool fails = true;
    const auto resource = std::make_shared<pm::CallbackMemoryResource>(
        [](std::size_t, const StreamPtr&) { return std::aligned_alloc(256, 4096); },
        [&](void* ptr, std::size_t, const StreamPtr&) {
            if (fails) throw std::runtime_error("not now");
            std::free(ptr);
        },
        pm::CallbackMemoryResource::memory_of(pm::ResourceKind::System, 0));
    void* const ptr = resource->allocate(4096, stream);
    CHECK_THROWS_AS(resource->deallocate(ptr, 4096, stream), std::runtime_error);
    CHECK(contains(refusal<std::invalid_argument>([&] { resource->deallocate(ptr, 16, stream); }), "4096 bytes"));
    fails = false;
    resource->deallocate(ptr, 4096, stream);
    CHECK(resource->live_bytes() == 0);
}

TEST_CASE("pm wrong frees: release of a monotonic resource refuses while buffers live, after wrong frees too") {
    if (no_device()) return;
    const auto stream = pm::Stream::default_stream(0);
    const auto arena = std::make_shared<pm::MonotonicMemoryResource>(pinned_resource(), 4096);
    pm::Buffer keeper(arena, 1000, stream);
    void* const ptr = arena->allocate(1000, stream);
    arena->deallocate(ptr, 1000, stream);
    CHECK(contains(refusal<std::invalid_argument>([&] { arena->deallocate(ptr, 1000, stream); }), "given back before"));
    CHECK(contains(refusal<std::invalid_argument>([&] { arena->deallocate(at(ptr, 256), 744, stream); }), "begins"));
    CHECK(contains(refusal<std::invalid_argument>([&] { arena->deallocate(at(ptr, 2000), 16, stream); }), "not given"));
    CHECK(contains(refusal<pm::ExportError>([&] { arena->release(); }), "1 allocation(s)"));
    keeper.close();
    arena->release();
    CHECK(arena->reserved() == 0);
}
