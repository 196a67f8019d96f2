// SPDX-License-Identifier: MIT
// tests/cpp/pm_scope.cpp: the current resource of a device, and resources of other modules behind the C ABI.
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "pm_support.hpp"
#include "portamem/abi/scope_api.h"

namespace {

/// A resource as another module would write it: no portamem type in it but the table.
struct Theirs {
    std::atomic<int> references{1};
    std::atomic<int> out{0};
    std::atomic<int> refuse{0};  // a code that the next allocation answers with

    static Theirs& of(void* self) { return *static_cast<Theirs*>(self); }

    static const portamem_resource_ops* ops() {
        static const portamem_resource_ops table = {
            sizeof(portamem_resource_ops),
            [](void* self, std::size_t nbytes, void*, void** ptr) {
                if (const int code = of(self).refuse.exchange(0)) return code;
                const auto answer = rt::Malloc(ptr, nbytes);
                if (answer == Success) ++of(self).out;
                return static_cast<int>(answer);
            },
            [](void* self, void* ptr, std::size_t, void* stream) {
                (void)rt::StreamSynchronize(static_cast<rt::Stream_t>(stream));
                const auto answer = rt::Free(ptr);
                if (answer == Success) --of(self).out;
                return static_cast<int>(answer);
            },
            [](void*) { return 0; },
            [](void*) { return 1; },
            [](void*) { return 0; },
            [](void* self) { ++of(self).references; },
            [](void* self) { --of(self).references; },
            nullptr,
            nullptr,
        };
        return &table;
    }
    portamem_resource handle() { return {ops(), this}; }
};

}  // namespace

TEST_CASE("pm scope: without a scope it is the device's own") {
    if (no_device()) return;
    const auto resource = pm::current_resource(0);
    CHECK(resource == pm::current_resource(0));
    CHECK(resource->kind() == pm::ResourceKind::Device);
    CHECK(resource->is_stream_ordered());
    CHECK_FALSE(resource->is_host_accessible());
    const auto pool = std::dynamic_pointer_cast<pm::PoolMemoryResource>(resource);
    REQUIRE(pool != nullptr);
    CHECK_THROWS_AS(pool->close(), pm::ExportError);
    CHECK_THROWS_AS(pool->upstream()->close(), pm::ExportError);
    const pm::Buffer buffer(resource, 4096);
    put(buffer, 1);
    CHECK(get(buffer) == pattern(4096, 1));
}

TEST_CASE("pm scope: what the default has cached is not held, and is another resource's where that has none" *
          fills_the_device()) {
    if (no_device()) return;
    const auto pool = std::dynamic_pointer_cast<pm::PoolMemoryResource>(pm::current_resource(0));
    REQUIRE(pool != nullptr);
    pool->trim();
    const auto before = portamem_held(rt::BackendId, 0);
    const pm::Buffer live(pool, 4096);
    put(live, 2);
    pm::Buffer(pool, 1024 * MiB).close();
    REQUIRE(rt::DeviceSynchronize() == Error_t::Success);
    CHECK(portamem_held(rt::BackendId, 0) == before + 4096);
    portamem_resource seen{};
    REQUIRE(portamem_default_resource(rt::BackendId, 0, &seen) == 0);
    CHECK(seen.ops->cached(seen.self) == pool->cached());
    CHECK(seen.ops->cached(seen.self) >= 1024 * MiB);

    const auto plain = device_resource();
    const std::string words = refusal<pm::OutOfMemory>([&] { pm::Buffer(plain, std::size_t{1} << 50); });
    CHECK(contains(words, "default resource"));
    CHECK(contains(words, "default_resource(0).trim()"));
    CHECK(seen.ops->cached(seen.self) >= 1024 * MiB);  // not enough by far, so it stays
    {
        std::size_t free = 0;
        std::size_t total = 0;
        REQUIRE(rt::MemGetInfo(&free, &total) == Error_t::Success);
        const pm::Buffer rest(plain, free - 256 * MiB);
        const pm::Buffer more(plain, 768 * MiB);
        CHECK(keeps_bytes(more.ptr(), 4096, 5));
        CHECK(get(live) == pattern(4096, 2));
    }
    pm::Buffer(pool, 1024 * MiB).close();
    REQUIRE(rt::DeviceSynchronize() == Error_t::Success);
    CHECK(seen.ops->trim(seen.self, 0) == 0);
    CHECK(seen.ops->cached(seen.self) < 1024 * MiB);
    seen.ops->release(seen.self);
}

TEST_CASE("pm scope: the shorter table of an older module is read as far as it goes") {
    if (no_device()) return;
    constexpr int kNowhere = 97;
    static Theirs theirs;  // stays with the process
    constexpr std::size_t kOldSize = offsetof(portamem_resource_ops, cached);
    auto* old = static_cast<portamem_resource_ops*>(std::malloc(kOldSize));  // the rest is no memory of ours
    std::memcpy(old, Theirs::ops(), kOldSize);
    old->size = kOldSize;
    CHECK(portamem_offer_default_resource(rt::BackendId, kNowhere, {old, &theirs}) == 1);
    portamem_account(rt::BackendId, kNowhere, 1000);
    CHECK(portamem_held(rt::BackendId, kNowhere) == 1000);
    CHECK(pm::detail::DefaultCache(kNowhere).nbytes() == 0);
    CHECK_FALSE(pm::detail::DefaultCache(kNowhere).trim());
    portamem_account(rt::BackendId, kNowhere, -1000);
}

TEST_CASE("pm scope: scopes nest, and live buffers do not look") {
    if (no_device()) return;
    const auto outside = pm::current_resource(0);
    const auto outer = device_resource();
    const auto inner = pinned_resource();
    {
        const pm::ResourceScope first(outer);
        CHECK(pm::current_resource(0) == outer);
        pm::Buffer buffer(pm::current_resource(0), 16);
        try {
            const pm::ResourceScope second(inner);
            CHECK(pm::current_resource(0) == inner);
            buffer.close();
            throw 1;
        } catch (int) {
            CHECK(pm::current_resource(0) == outer);
        }
        CHECK(outer->live_buffers() == 0);
    }
    CHECK(pm::current_resource(0) == outside);
    CHECK(outer.use_count() == 1);
    CHECK_THROWS_AS(pm::pop_resource(0), std::logic_error);
}

TEST_CASE("pm scope: a scope that ends too early is its own") {
    if (no_device()) return;
    const auto outside = pm::current_resource(0);
    const auto outer = device_resource();
    const auto inner = pinned_resource();
    const auto first = pm::push_resource(outer);
    const auto second = pm::push_resource(inner);
    CHECK(contains(refusal<std::logic_error>([&] { pm::pop_resource(0, first); }), "began within it"));
    CHECK(outer.use_count() == 1);
    CHECK(pm::current_resource(0) == inner);
    CHECK(contains(refusal<std::logic_error>([&] { pm::pop_resource(0, first); }), "not open on this thread"));
    CHECK(pm::current_resource(0) == inner);
    pm::pop_resource(0, second);
    CHECK(pm::current_resource(0) == outside);
    auto early = std::make_unique<pm::ResourceScope>(outer);
    {
        const pm::ResourceScope late(inner);
        early.reset();
        CHECK(pm::current_resource(0) == inner);
    }
    CHECK(pm::current_resource(0) == outside);
    CHECK(inner.use_count() == 1);
}

TEST_CASE("pm scope: a scope is of its thread") {
    if (no_device()) return;
    const auto mine = device_resource();
    const auto outside = pm::current_resource(0);
    const pm::ResourceScope scope(mine);
    std::thread([&] {
        CHECK(pm::current_resource(0) == outside);
        const pm::ResourceScope theirs(pinned_resource());
        CHECK(pm::current_resource(0)->kind() == pm::ResourceKind::Pinned);
    }).join();
    CHECK(pm::current_resource(0) == mine);
}

TEST_CASE("pm scope: a scope is of its device") {
    if (no_device() || pm::device_count() < 2) return;
    const auto second = std::make_shared<pm::DeviceMemoryResource>(1);
    const pm::ResourceScope scope(second);
    CHECK(pm::current_resource(1) == second);
    CHECK(pm::current_resource(0) != second);
}

TEST_CASE("pm scope: a closed resource cannot become current") {
    if (no_device()) return;
    const auto resource = device_resource();
    resource->close();
    CHECK_THROWS_AS(pm::ResourceScope{resource}, std::invalid_argument);
    CHECK(pm::current_resource(0) != resource);
}

TEST_CASE("pm scope: a resource of another module gives memory like any other") {
    if (no_device()) return;
    Theirs theirs;
    portamem_scope_push(rt::BackendId, 0, theirs.handle());
    {
        const auto resource = pm::current_resource(0);
        CHECK(resource->kind() == pm::ResourceKind::Foreign);
        CHECK(resource->device_id() == 0);
        CHECK_FALSE(resource->is_host_accessible());
        CHECK(resource->is_device_accessible());
        pm::Buffer buffer(resource, 4096);
        CHECK(theirs.out == 1);
        put(buffer, 8);
        CHECK(get(buffer) == pattern(4096, 8));
        CHECK_THROWS_AS(resource->close(), pm::ExportError);
        CHECK(portamem_scope_pop(rt::BackendId, 0) == 0);
        CHECK(theirs.references > 1);
        buffer.close();
        pm::Buffer empty(resource, 0);
        CHECK(empty.ptr() == nullptr);
        empty.close();
        CHECK(resource->live_buffers() == 0);
    }
    CHECK(theirs.out == 0);
    CHECK(theirs.references == 1);
}

TEST_CASE("pm scope: the refusals of another module are errors here") {
    if (no_device()) return;
    Theirs theirs;
    portamem_scope_push(rt::BackendId, 0, theirs.handle());
    const auto resource = pm::current_resource(0);
    CHECK(portamem_scope_pop(rt::BackendId, 0) == 0);
    theirs.refuse = static_cast<int>(Error_t::OutOfMemory);
    CHECK_THROWS_AS(pm::Buffer(resource, 4096), pm::OutOfMemory);
    theirs.refuse = static_cast<int>(Error_t::NotPermitted);
    CHECK(contains(refusal<pm::Error>([&] { pm::Buffer(resource, 4096); }), "NotPermitted"));
    CHECK(resource->live_buffers() == 0);
    CHECK(theirs.out == 0);
}

TEST_CASE("pm scope: a resource of this module works through the table") {
    if (no_device()) return;
    const auto mine = device_resource();
    portamem_resource seen{};
    {
        const pm::ResourceScope scope(mine);
        REQUIRE(portamem_scope_current(rt::BackendId, 0, &seen) == 0);
    }
    CHECK(seen.ops->device_id(seen.self) == 0);
    CHECK(seen.ops->is_device_accessible(seen.self) == 1);
    void* ptr = nullptr;
    CHECK(seen.ops->allocate(seen.self, 4096, nullptr, &ptr) == 0);
    CHECK(mine->live_buffers() == 1);
    CHECK(keeps_bytes(ptr, 4096, 3));
    CHECK(seen.ops->deallocate(seen.self, ptr, 4096, nullptr) == 0);
    CHECK(seen.ops->allocate(seen.self, std::size_t{1} << 50, nullptr, &ptr) == static_cast<int>(Error_t::OutOfMemory));
    mine->close();
    CHECK(seen.ops->allocate(seen.self, 1, nullptr, &ptr) == static_cast<int>(Error_t::InvalidValue));
    CHECK(mine.use_count() == 2);
    seen.ops->release(seen.self);
    CHECK(mine.use_count() == 1);
}

namespace {

portamem_resource task_scope{};
int task_answer = 0;

int scope_of_task(int, portamem_resource* resource) {
    if (task_answer == 1) {
        *resource = task_scope;
        resource->ops->retain(resource->self);
    }
    return task_answer;
}

}  // namespace

TEST_CASE("pm scope: of an embedding language's scopes only its task's count, and C++ scopes within them") {
    if (no_device()) return;
    const auto outside = pm::current_resource(0);
    const auto mine = device_resource();
    const auto others = device_resource();
    const pm::detail::TableReference mine_scope(mine);
    const pm::detail::TableReference others_scope(others);
    portamem_set_scope_source(rt::BackendId, &scope_of_task);
    task_scope = mine_scope.handle();
    task_answer = 1;
    CHECK(pm::current_resource(0) == mine);  // of a context that another thread has made
    portamem_push_embedded_scope(rt::BackendId, 0, mine_scope.handle());
    portamem_push_embedded_scope(rt::BackendId, 0, others_scope.handle());
    CHECK(pm::current_resource(0) == mine);
    {
        const auto inner = pinned_resource();
        const pm::ResourceScope scope(inner);
        CHECK(pm::current_resource(0) == inner);
        CHECK(inner.use_count() == 2);
    }
    task_answer = 0;
    CHECK(pm::current_resource(0) == outside);
    task_answer = -1;  // without the language's lock
    CHECK(pm::current_resource(0) == others);
    CHECK(portamem_scope_end(rt::BackendId, 0, mine_scope.handle().self) == 1);
    CHECK(portamem_scope_end(rt::BackendId, 0, others_scope.handle().self) == 0);
    CHECK(pm::current_resource(0) == outside);
    portamem_set_scope_source(rt::BackendId, nullptr);
    CHECK(mine.use_count() == 2);
}
