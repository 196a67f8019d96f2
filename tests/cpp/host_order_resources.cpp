// SPDX-License-Identifier: MIT
// tests/cpp/host_order_resources.cpp: the order checker over resources that hand memory on by themselves. Their own
// work is ordered, however fast it runs, and orders no work of the program.
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
    const pm::detail::UntrackedQueries own;
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

TEST_CASE("order check: also what no block of a pool ends with is ordered, and what another stream was given of it") {
    for (const Resource& upstream :
         {device_resource(), pinned_resource(), Resource(pm::AsyncMemoryResource::create(0))}) {
        CAPTURE(upstream->traits().host_accessible);
        for (const std::size_t nbytes : {std::size_t{700}, std::size_t{4353}, std::size_t{33'000}}) {
            const pm::OrderCheck check;
            const auto pool = pm::PoolMemoryResource::create(upstream);
            const auto first = pm::Stream::create(0);
            const auto second = pm::Stream::create(0);
            const auto use = [&](std::size_t size, const StreamPtr& stream) {
                void* const ptr = pool->allocate(size, stream);
                pm::check(rt::MemsetAsync(ptr, 1, size, stream->handle()), "MemsetAsync");
                pool->deallocate(ptr, size, stream);
                let_run(stream);
            };
            use(2 * MiB, first);
            use(nbytes, first);  // cut from what was all written to
            use(2 * MiB, second);
            use(nbytes, second);
            pool->trim(0);
            use(nbytes, first);
            pool->close();
            CHECK(found(check) == "");
        }
    }
}

TEST_CASE("order check: memory of a stream that is only a handle is anybody's") {
    const pm::OrderCheck check;
    const auto pool = pm::PoolMemoryResource::create(pm::AsyncMemoryResource::create(0));
    const auto owned = pm::Stream::create(0);
    const auto foreign = pm::Stream::from_handle(owned->handle(), 0);
    const auto other = pm::Stream::create(0);
    for (const StreamPtr& stream : {foreign, other, foreign}) {
        void* const ptr = pool->allocate(4096, stream);
        pm::check(rt::MemsetAsync(ptr, 1, 4096, stream->handle()), "MemsetAsync");
        pool->deallocate(ptr, 4096, stream);
        let_run(stream);
    }
    pool->close();
    CHECK(found(check) == "");
}

TEST_CASE("order check: what an owner does when it is let go is the program's own") {
    const pm::OrderCheck check;
    const auto stream = pm::Stream::create(0);
    auto owner = std::make_shared<pm::Buffer>(device_resource(), kSize, stream);
    auto wrapped = pm::Buffer::from_handle(owner->ptr(), kSize, stream, owner->traits(), owner);
    const std::weak_ptr<pm::Buffer> watched = owner;
    owner.reset();
    pm::fill(pm::Span::of(wrapped), 1, stream);
    let_run(stream);
    wrapped.close();
    CHECK(watched.expired());
    CHECK(found(check) == "");
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

TEST_CASE("order check: a pool's chunk that goes back while it is in use, and a use after that, are found") {
    const auto coherent =
        std::make_shared<pm::PinnedMemoryResource>(0, rt::HostMallocPortable, rt::Coherence::Coherent);  // HostMalloc's
    for (const Resource& upstream : {Resource(coherent), pinned_resource()}) {
        for (const bool is_later : {false, true}) {
            CAPTURE(is_later);
            const auto pool = pm::PoolMemoryResource::create(upstream);
            const auto owner = pm::Stream::create(0);
            const auto user = pm::Stream::create(0);
            const pm::OrderCheck check;
            void* ptr = pool->allocate(kSize, owner);
            pm::check(rt::MemsetAsync(ptr, 1, kSize, owner->handle()), "MemsetAsync");
            user->wait(*owner);
            if (!is_later) pm::check(rt::MemsetAsync(ptr, 2, kSize, user->handle()), "MemsetAsync");  // not declared
            let_run(user);  // a free block is poisoned under AddressSanitizer, which is not to be what finds it
            pool->deallocate(ptr, kSize, owner);
            pool->trim(0);
            CHECK(pool->stats().reserved == 0);
            if (is_later) CHECK(rt::MemsetAsync(ptr, 2, kSize, user->handle()) != Success);
            CHECK(found(check).find(is_later ? "use after free" : "free while in use") != std::string::npos);
        }
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
        if (waits) {  // until the gate opens
            const Gate gate(first);
            gate.open_soon();
            pool->trim(0);
        }
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

TEST_CASE(
    "order check: a monotonic resource of many streams that have ended is given back in order, and says no more") {
    const pm::Buffer other(pinned_resource(), kSize);
    const auto last = pm::Stream::create(0);
    const auto second = pm::Stream::create(0);
    const pm::OrderCheck check;
    pm::MonotonicMemoryResource resource(device_resource());
    const auto use = [&](const StreamPtr& stream) {
        void* const ptr = resource.allocate(kSize, stream);
        pm::check(rt::MemsetAsync(ptr, 1, kSize, stream->handle()), "MemsetAsync");
        resource.deallocate(ptr, kSize, stream);
        let_run(stream);
    };
    for (int i = 0; i < 60; ++i) use(pm::Stream::create(0));
    pm::check(rt::MemsetAsync(other.ptr(), 1, kSize, last->handle()), "MemsetAsync");
    use(last);
    resource.release();
    CHECK(found(check) == "");
    pm::check(rt::MemsetAsync(other.ptr(), 2, kSize, second->handle()), "MemsetAsync");
    CHECK(found(check).find("unordered write after write") != std::string::npos);
    pm::Device(0).synchronize();
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

TEST_CASE("pm debug: redzones hide nothing of what the order checker finds") {
    const Resource resources[] = {pm::AsyncMemoryResource::create(0),
                                  pm::PoolMemoryResource::create(device_resource())};
    for (const Resource& resource : resources) {
        const auto declared = pm::Stream::create(0);
        const auto undeclared = pm::Stream::create(0);
        const pm::OrderCheck check;
        const auto use = [&](void* ptr, const StreamPtr& stream) {
            pm::check(rt::MemsetAsync(ptr, 1, kSize, stream->handle()), "MemsetAsync");
            let_run(stream);
        };
        void* ptr = resource->allocate(kSize, declared);
        use(ptr, declared);
        resource->deallocate(ptr, kSize, declared);
        ptr = resource->allocate(kSize, declared);
        CHECK(found(check) == "");
        use(ptr, undeclared);
        // Memory that the host reaches too is handed out by pools when its last use has run: any stream may use it.
        if (!resource->traits().host_accessible) CHECK(found(check) != "");
        undeclared->synchronize();
        resource->deallocate(ptr, kSize, declared);
        declared->synchronize();
    }
}
