// SPDX-License-Identifier: MIT
// tests/cpp/pm_failure_callback.cpp: a chance for the program to make room when there is no memory.
#include <vector>

#include "pm_support.hpp"

using FailureCallback = pm::FailureCallbackAdaptor;

TEST_CASE("pm failure callback: it is asked until there is memory") {
    if (no_device()) return;
    const auto limited = std::make_shared<pm::LimitingAdaptor>(device_resource(), 1000);
    std::vector<pm::Buffer> cache;
    std::vector<std::size_t> asked;
    const auto resource = std::make_shared<FailureCallback>(limited, [&](std::size_t nbytes) {
        asked.push_back(nbytes);
        if (cache.empty()) return false;
        cache.pop_back();
        return true;
    });
    for (int i = 0; i < 3; ++i) cache.emplace_back(resource, 300);
    CHECK(asked.empty());
    pm::Buffer large(resource, 700);
    CHECK(asked == std::vector<std::size_t>{700, 700});
    CHECK(cache.size() == 1);
    put(large, 6);
    CHECK(get(large) == pattern(700, 6));
    CHECK(contains(refusal<pm::OutOfMemory>([&] { pm::Buffer(resource, 1001); }), "asked for 1001 B, the limit"));
    CHECK(asked.size() == 4);
    CHECK(resource->live_buffers() == 1);
}

TEST_CASE("pm failure callback: what it throws reaches the caller, and other refusals do not reach it") {
    if (no_device()) return;
    const auto limited = std::make_shared<pm::LimitingAdaptor>(device_resource(), 1000);
    int calls = 0;
    const auto resource = std::make_shared<FailureCallback>(limited, [&](std::size_t) -> bool {
        ++calls;
        throw std::domain_error("no room");
    });
    CHECK(refusal<std::domain_error>([&] { pm::Buffer(resource, 2000); }) == "no room");
    CHECK(calls == 1);
    CHECK_THROWS_AS(pm::Buffer(resource, 100, nullptr, 512), std::invalid_argument);
    CHECK(calls == 1);
    CHECK(resource->live_buffers() == 0);
    CHECK(limited->allocated() == 0);
    CHECK_THROWS_AS(FailureCallback(limited, nullptr), std::invalid_argument);
    CHECK_THROWS_AS(FailureCallback(nullptr, [](std::size_t) { return true; }), std::invalid_argument);
}

TEST_CASE("pm failure callback: it may use the resource that it serves") {
    if (no_device()) return;
    const auto limited = std::make_shared<pm::LimitingAdaptor>(pinned_resource(), 1000);
    const auto blocks = std::make_shared<pm::FixedSizeMemoryResource>(limited, 500, 1);
    std::shared_ptr<FailureCallback> resource;
    std::vector<pm::Buffer> cache;
    bool within = false;
    resource = std::make_shared<FailureCallback>(blocks, [&](std::size_t) {
        if (within) return false;
        within = true;
        CHECK_THROWS_AS(pm::Buffer(resource, 500), pm::OutOfMemory);
        within = false;
        if (cache.empty()) return false;
        cache.clear();
        blocks->trim();
        return true;
    });
    cache.emplace_back(resource, 500);
    const pm::Buffer buffer(resource, 400);
    CHECK(cache.empty());
    CHECK(blocks->live_buffers() == 1);
}
