// SPDX-License-Identifier: MIT
// tests/cpp/host_order_resources.cpp: the order checker over resources that hand memory on by themselves. What they do is
// ordered, however fast the work runs, and tells the program nothing of anything else.
#include <portamem/order_check.hpp>

#include "pm_support.hpp"

namespace {

constexpr std::size_t kSize = 1'000'000;

std::string found(const pm::OrderCheck& check) {
    std::string text;
    for (const pm::OrderFinding& finding : check.findings()) text += finding.text;
    return text;
}

// The work runs, and the checker does not hear of it.
void let_run(const StreamPtr& stream) {
    const pm::detail::OwnQueries own;
    REQUIRE(eventually([&] { return stream->query(); }));
}

// Freed on one stream behind work that has run, used on another, and given back.
void hand_on(pm::MemoryResource& resource) {
    const auto first = pm::Stream::create(0);
    const auto second = pm::Stream::create(0);
    constexpr int kCount = 100;
    std::vector<void*> taken(kCount);
    const auto take_all = [&](const StreamPtr& stream) {
        for (void*& ptr : taken) {
            ptr = resource.allocate(kSize, stream);
            pm::check(rt::MemsetAsync(ptr, 1, kSize, stream->handle()), "MemsetAsync");
        }
    };
    const auto give_all = [&](const StreamPtr& stream) {
        for (void* ptr : taken) resource.deallocate(ptr, kSize, stream);
    };
    take_all(first);
    const std::vector<void*> before = taken;
    give_all(first);
    let_run(first);
    take_all(second);
    const bool is_reused = std::any_of(taken.begin(), taken.end(), [&](void* ptr) {
        return std::find(before.begin(), before.end(), ptr) != before.end();
    });
    CHECK(is_reused);
    give_all(second);
    let_run(second);
}

}  // namespace

TEST_CASE("order check: a pool's memory is ordered from one user to the next, and to its end") {
    for (const Resource& upstream : {device_resource(), pinned_resource()}) {
        CAPTURE(upstream->traits().host_accessible);
        const pm::OrderCheck check;
        const auto pool = pm::PoolMemoryResource::create(upstream);
        hand_on(*pool);
        pool->trim(0);
        CHECK(pool->stats().reserved == 0);
        hand_on(*pool);
        pool->close();
        CHECK(found(check) == "");
    }
}

TEST_CASE("order check: blocks of one size are ordered from one user to the next, and to their end") {
    for (const Resource& upstream : {device_resource(), pinned_resource()}) {
        CAPTURE(upstream->traits().host_accessible);
        const pm::OrderCheck check;
        pm::FixedSizeMemoryResource resource(upstream, kSize, 4);
        hand_on(resource);
        resource.trim(0);
        hand_on(resource);
        resource.close();
        CHECK(found(check) == "");
    }
}

TEST_CASE("order check: what a pool has learned of a stream is no news to the program") {
    for (const bool waits : {false, true}) {
        const auto pool = pm::PoolMemoryResource::create(pinned_resource());
        const auto first = pm::Stream::create(0);
        const auto second = pm::Stream::create(0);
        const pm::Buffer other(pinned_resource(), kSize);
        std::vector<void*> taken;
        const pm::OrderCheck check;
        pm::check(rt::MemsetAsync(other.ptr(), 1, kSize, first->handle()), "MemsetAsync");
        for (int i = 0; i < 100; ++i) taken.push_back(pool->allocate(kSize, first));
        for (void* ptr : taken) pool->deallocate(ptr, kSize, first);
        if (waits) pool->trim(0);
        let_run(first);
        for (void*& ptr : taken) ptr = pool->allocate(kSize, second);  // for which the pool has asked
        CHECK(found(check) == "");
        pm::check(rt::MemsetAsync(other.ptr(), 2, kSize, second->handle()), "MemsetAsync");
        CHECK(found(check).find("unordered write after write") != std::string::npos);
        for (void* ptr : taken) pool->deallocate(ptr, kSize, second);
        let_run(second);
        pm::Device(0).synchronize();
    }
}

TEST_CASE("order check: undeclared work on a pool's memory is found, also where the pool gives it back") {
    const auto pool = pm::PoolMemoryResource::create(device_resource());
    const auto declared = pm::Stream::create(0);
    const auto undeclared = pm::Stream::create(0);
    const pm::OrderCheck check;
    void* const ptr = pool->allocate(kSize, declared);
    let_run(declared);
    pm::check(rt::MemsetAsync(ptr, 1, kSize, undeclared->handle()), "MemsetAsync");
    let_run(undeclared);
    pool->deallocate(ptr, kSize, declared);
    pool->close();
    CHECK(found(check).find("free while in use") != std::string::npos);
}
