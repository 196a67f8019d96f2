// SPDX-License-Identifier: MIT
// tests/cpp/pm_limiting.cpp: no more than so many bytes of another resource.
#include <thread>
#include <vector>

#include "pm_support.hpp"

using Limiting = pm::LimitingAdaptor;

TEST_CASE("pm limiting: what is out never exceeds the limit") {
    if (no_device()) return;
    for (const Resource& upstream : every_resource()) {
        const auto limited = std::make_shared<Limiting>(upstream, 1000);
        CHECK(limited->kind() == upstream->kind());
        CHECK(limited->available() == 1000);
        pm::Buffer first(limited, 600);
        CHECK(limited->allocated() == 600);
        const std::string text = refusal<pm::OutOfMemory>([&] { pm::Buffer(limited, 401); });
        CHECK(contains(text, "asked for 401 B"));
        CHECK(contains(text, "the limit is 1000 B"));
        CHECK(contains(text, "400 B are left"));
        CHECK(upstream->live_buffers() == 1);
        const pm::Buffer second(limited, 400);
        const pm::Buffer none(limited, 0);
        CHECK(limited->available() == 0);
        first.close();
        CHECK(limited->available() == 600);
        put(second, 3);
        CHECK(get(second) == pattern(400, 3));
        CHECK_THROWS_AS(pm::Buffer(limited, ~std::size_t{0}), pm::OutOfMemory);
        CHECK(limited->allocated() == 400);
    }
}

TEST_CASE("pm limiting: a refusal gives exact bytes where rounded ones would hide its reason") {
    const std::size_t gib = std::size_t{1} << 30;
    CHECK(pm::detail::bytes_text(4 * gib + 1, 4 * gib) == "4294967297 bytes");
    CHECK(pm::detail::bytes_text(4 * gib, 4 * gib + 1) == "4294967296 bytes");
    CHECK(pm::detail::bytes_text(4 * gib, 4 * gib) == "4 GiB");
    CHECK(pm::detail::bytes_text(4 * gib, 3 * gib) == "4 GiB");
    CHECK(pm::detail::bytes_text(1001, 1000) == "1001 B");
    if (no_device()) return;
    const std::size_t limit = std::size_t{1} << 20;
    const auto limited = std::make_shared<Limiting>(pinned_resource(), limit);
    const std::string text = refusal<pm::OutOfMemory>([&] { pm::Buffer(limited, limit + 1); });
    CHECK(contains(text, "asked for 1048577 bytes, the limit is 1 MiB"));
    CHECK(contains(text, "1048576 bytes are left"));
}

TEST_CASE("pm limiting: adaptors that record nothing know what is theirs, also over one upstream") {
    if (no_device() || !has_managed()) return;
    const Resource upstream = std::make_shared<pm::ManagedMemoryResource>(0);
    std::vector<Resource> all{
        std::make_shared<Limiting>(upstream, 1000), std::make_shared<Limiting>(upstream, 1000),
        std::make_shared<pm::FallbackAdaptor>(upstream, upstream),
        std::make_shared<pm::FallbackAdaptor>(std::make_shared<Limiting>(upstream, 0), upstream),
        std::make_shared<pm::FailureCallbackAdaptor>(upstream, [](std::size_t) { return false; })};
    if (pm::query_capabilities(0).concurrent_managed_access)
        all.push_back(std::make_shared<pm::PrefetchAdaptor>(upstream));
    const StreamPtr stream = pm::Stream::create(0);
    void* const below = upstream->allocate(100, stream);
    for (const Resource& one : all) {
        void* const own = one->allocate(100, stream);
        for (const Resource& other : all) {
            if (other == one) continue;
            void* const theirs = other->allocate(100, stream);
            CHECK_THROWS_AS(one->deallocate(theirs, 100, stream), std::invalid_argument);
            other->deallocate(theirs, 100, stream);
        }
        CHECK_THROWS_AS(one->deallocate(below, 100, stream), std::invalid_argument);
        CHECK_THROWS_AS(one->deallocate(own, 99, stream), std::invalid_argument);
        CHECK_THROWS_AS(one->deallocate(static_cast<char*>(own) + 16, 84, stream), std::invalid_argument);
        CHECK(one->live_buffers() == 1);
        CHECK(one->live_bytes() == 100);
        stream->synchronize();  // a prefetch may be on its way
        CHECK(keeps_bytes(own, 100, 3));
        one->deallocate(own, 100, stream);
        CHECK_THROWS_AS(one->deallocate(own, 100, stream), std::invalid_argument);
    }
    for (const Resource& one : all) one->close();
    upstream->deallocate(below, 100, stream);
    upstream->close();
}

TEST_CASE("pm limiting: an upstream that fails takes nothing off the limit") {
    if (no_device()) return;
    const auto inner = std::make_shared<Limiting>(pinned_resource(), 100);
    const auto outer = std::make_shared<Limiting>(inner, 1000);
    CHECK(contains(refusal<pm::OutOfMemory>([&] { pm::Buffer(outer, 101); }), "the limit is 100 B"));
    CHECK(outer->allocated() == 0);
    pm::OutOfMemory const* thrown = nullptr;
    try {
        pm::Buffer(outer, 1001);
    } catch (const pm::OutOfMemory& e) {
        thrown = &e;
        CHECK(e.figures().asked == 1001);
        CHECK(e.figures().free == 1000);
        CHECK(e.figures().used == 0);
    }
    CHECK(thrown != nullptr);
}

TEST_CASE("pm limiting: threads that allocate at once stay below the limit") {
    if (no_device()) return;
    constexpr std::size_t kLimit = 1000;
    const auto limited =
        std::make_shared<Limiting>(std::make_shared<pm::FixedSizeMemoryResource>(pinned_resource(), 300), kLimit);
    std::atomic<std::size_t> out{0};
    std::atomic<std::size_t> most{0};
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 300; ++i) {
                try {
                    pm::Buffer buffer(limited, 300);
                    const std::size_t now = out.fetch_add(300) + 300;
                    for (auto seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
                    }
                    std::this_thread::yield();
                    out.fetch_sub(300);
                } catch (const pm::OutOfMemory&) {
                    ++refused;
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(most <= kLimit);
    CHECK(most >= 300);
    CHECK(limited->allocated() == 0);
    CHECK(limited->live_buffers() == 0);
}
