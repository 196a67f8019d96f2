// SPDX-License-Identifier: MIT
// tests/cpp/pm_default_resource.cpp: the default resource of a device, set by C++ and by the C table.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "pm_support.hpp"
#include "portamem/abi/scope_api.h"

namespace {

/// Sets a default for a test, and the one that portamem makes afterwards.
class Default {
  public:
    explicit Default(const std::shared_ptr<pm::MemoryResource>& resource) { pm::set_default_resource(0, resource); }
    ~Default() { pm::set_default_resource(0, nullptr); }
    Default(const Default&) = delete;
    Default& operator=(const Default&) = delete;
};

}  // namespace

TEST_CASE("pm default: one is set, and set back") {
    if (no_device()) return;
    const auto made = pm::default_resource(0);
    const auto mine = device_resource();
    {
        const Default set(mine);
        CHECK(pm::default_resource(0) == mine);
        CHECK(pm::current_resource(0) == mine);
        const auto inner = pinned_resource();
        const pm::ResourceScope scope(inner);
        CHECK(pm::current_resource(0) == inner);
        CHECK(pm::default_resource(0) == mine);
    }
    CHECK(pm::default_resource(0) == made);
    CHECK(mine.use_count() == 1);
}

TEST_CASE("pm default: the process holds it, and lets go of the one before") {
    if (no_device()) return;
    auto mine = device_resource();
    const std::weak_ptr<pm::MemoryResource> seen = mine;
    const Default set(mine);
    mine.reset();
    REQUIRE(seen.lock() != nullptr);
    CHECK(pm::default_resource(0) == seen.lock());
    const pm::Buffer buffer(pm::default_resource(0), 4096);
    put(buffer, 4);
    pm::set_default_resource(0, device_resource());
    CHECK(seen.lock() != nullptr);  // the buffer holds it
    CHECK(get(buffer) == pattern(4096, 4));
    const std::weak_ptr<pm::MemoryResource> second = pm::default_resource(0);
    pm::set_default_resource(0, nullptr);
    CHECK(second.expired());
}

TEST_CASE("pm default: what cannot be one is refused, and the one before stays") {
    if (no_device()) return;
    const auto mine = device_resource();
    const Default set(mine);
    const auto closed = device_resource();
    closed->close();
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::set_default_resource(0, closed); }), "closed"));
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::set_default_resource(1, mine); }), "of device 0"));
    CHECK(pm::default_resource(0) == mine);
}

TEST_CASE("pm default: the C table sets it for C++, and C finds that of C++") {
    if (no_device()) return;
    const portamem_api& table = *portamem_get_api();
    REQUIRE(table.size >= sizeof(portamem_api));
    const auto mine = device_resource();
    const auto changes = table.default_changes();
    table.set_default_resource(rt::BackendId, 0, pm::detail::TableReference(mine).handle());
    CHECK(table.default_changes() == changes + 1);
    CHECK(pm::default_resource(0) == mine);
    portamem_resource seen{};
    REQUIRE(table.current_resource(rt::BackendId, 0, &seen) == 0);
    void* ptr = nullptr;
    CHECK(seen.ops->allocate(seen.self, 512, nullptr, &ptr) == 0);
    CHECK(mine->live_bytes() == 512);
    CHECK(seen.ops->deallocate(seen.self, ptr, 512, nullptr) == 0);
    seen.ops->release(seen.self);
    {
        const auto inner = device_resource();
        const pm::ResourceScope scope(inner);
        REQUIRE(table.current_resource(rt::BackendId, 0, &seen) == 0);
        CHECK(pm::detail::from_registry(seen, 0) == inner);
    }
    table.set_default_resource(rt::BackendId, 0, {});
    CHECK(mine.use_count() == 1);
    CHECK(table.current_resource(rt::BackendId, 0, &seen) == 0);
    CHECK(pm::detail::from_registry(seen, 0) == pm::default_resource(0));
}

TEST_CASE("pm default: C has one made, and is told where that is refused") {
    if (no_device()) return;
    pm::detail::serve_default();
    portamem_resource seen{};
    const int refused = portamem_current_resource(rt::BackendId, 98, &seen);
    CHECK(refused > 0);
    const auto other = rt::BackendId == PORTAMEM_BACKEND_HOST ? PORTAMEM_BACKEND_HIP : PORTAMEM_BACKEND_HOST;
    CHECK(portamem_current_resource(other, 0, &seen) == -1);
}

TEST_CASE("pm default: threads that set and take get one or the other") {
    if (no_device()) return;
    const std::vector<std::shared_ptr<pm::MemoryResource>> resources = {device_resource(), device_resource()};
    const auto made = pm::default_resource(0);
    std::atomic<bool> wrong{false};
    std::vector<std::thread> threads;
    for (std::size_t number = 0; number < 4; ++number) {
        threads.emplace_back([&, number] {
            for (int turn = 0; turn < 200; ++turn) {
                if (number < 2) {
                    pm::set_default_resource(0, resources[number]);
                    pm::set_default_resource(0, turn % 8 == 0 ? nullptr : resources[number]);
                } else {
                    const auto found = pm::default_resource(0);
                    if (found != made && found != resources[0] && found != resources[1]) wrong = true;
                    pm::Buffer(found, 256).close();
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    pm::set_default_resource(0, nullptr);
    CHECK_FALSE(wrong);
    CHECK(pm::default_resource(0) == made);
    for (const auto& resource : resources) {
        CHECK(resource.use_count() == 1);
        CHECK(resource->live_buffers() == 0);
    }
}
