// SPDX-License-Identifier: MIT
// tests/cpp/pm_threads.cpp: many threads at once, and what they must not be able to break.
#include "pm_support.hpp"

namespace {

/// Runs a function on several threads that start together, and hands exceptions on as failures.
template <class Body>
void on_threads(int count, Body&& body) {
    std::atomic<int> waiting{count};
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (int index = 0; index < count; ++index) {
        threads.emplace_back([&, index] {
            --waiting;
            while (waiting > 0) std::this_thread::yield();
            try {
                body(index);
            } catch (...) {
                ++failed;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(failed == 0);
}

// A check on a thread: what it throws is counted above. doctest's own REQUIRE may not throw there.
void must(bool condition) {
    if (!condition) throw std::runtime_error("a check on a thread failed");
}

}  // namespace

TEST_CASE("pm threads: allocate, copy, verify and free from one resource") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        on_threads(4, [&](int index) {
            const auto stream = pm::Stream::create(0);
            for (unsigned turn = 0; turn < 20; ++turn) {
                const unsigned seed = static_cast<unsigned>(index) * 100 + turn;
                const std::size_t nbytes = 1 + 997 * turn;
                pm::Buffer buffer(resource, nbytes, stream);
                auto bytes = std::make_shared<Bytes>(pattern(nbytes, seed));
                pm::copy(pm::Span::of(buffer), pm::Span::host(bytes->data(), nbytes, bytes), stream);
                Bytes back(nbytes);
                pm::copy(pm::Span::host(back.data(), nbytes), pm::Span::of(buffer), stream)->synchronize();
                must(back == *bytes);
                if (turn % 2 == 0) buffer.close();
            }
        });
        CHECK(eventually([&] { return resource->live_buffers() == 0; }));
        CHECK(resource->live_bytes() == 0);
        resource->close();
    }
}

TEST_CASE("pm threads: an export and a close of the same memory: one of them is refused") {
    if (no_device()) return;
    const auto resource = device_resource();
    for (int turn = 0; turn < 100; ++turn) {
        const auto allocation = pm::Allocation::make(resource, 256, pm::Stream::default_stream(0));
        std::atomic<int> closed{0};
        on_threads(4, [&](int index) {
            if (index == 0) {
                try {
                    allocation->close(nullptr);
                    ++closed;
                } catch (const pm::ExportError&) {
                }
                return;
            }
            try {
                const pm::Export pin(allocation);
                must(closed == 0);
                must(!allocation->is_closed());
            } catch (const std::invalid_argument&) {
                must(allocation->is_closed());
            }
        });
        CHECK(allocation->exports() == 0);
        CHECK(allocation->is_closed() == (closed == 1));
        allocation->close(nullptr);
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm threads: many close the same memory, and it goes back once") {
    if (no_device()) return;
    const auto resource = device_resource();
    for (int turn = 0; turn < 50; ++turn) {
        const auto allocation = pm::Allocation::make(resource, 256, pm::Stream::default_stream(0));
        on_threads(4, [&](int) { allocation->close(nullptr); });
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm threads: many close the same registration, and it is undone once") {
    if (no_device()) return;
    constexpr std::size_t kPage = 4096;
    const std::unique_ptr<void, void (*)(void*)> page(std::aligned_alloc(kPage, kPage), &std::free);
    for (int turn = 0; turn < 200; ++turn) {
        pm::HostRegistration registration(page.get(), kPage, 0, rt::HostRegisterDefault, nullptr);
        on_threads(4, [&](int) { registration.close(); });
        CHECK(registration.is_closed());
        CHECK(pm::pointer_info(page.get()).type == rt::MemoryType::Unregistered);
    }
}

TEST_CASE("pm threads: a resource that closes while others allocate gives memory or a refusal") {
    if (no_device()) return;
    for (int turn = 0; turn < 50; ++turn) {
        const auto resource = device_resource();
        std::atomic<bool> closed{false};
        on_threads(3, [&](int index) {
            for (int i = 0; i < 20; ++i) {
                try {
                    if (index == 0) {
                        resource->close();
                        closed = true;
                    } else {
                        const pm::Buffer buffer(resource, 64);
                        must(!closed);
                    }
                } catch (const pm::ExportError&) {
                    must(index == 0);
                } catch (const std::invalid_argument&) {
                    must(index != 0 && resource->is_closed());
                }
            }
        });
        CHECK(resource->live_buffers() == 0);
        resource->close();
    }
}

TEST_CASE("pm threads: one buffer is used on many streams") {
    if (no_device()) return;
    const auto resource = device_resource();
    pm::Buffer source(resource, 10'000);
    put(source, 4);
    on_threads(4, [&](int) {
        const auto stream = pm::Stream::create(0);
        for (int turn = 0; turn < 20; ++turn) {
            Bytes back(10'000);
            const auto part = source.sub(0, 10'000);
            pm::copy(pm::Span::host(back.data(), back.size()), pm::Span::of(part), stream)->synchronize();
            must(back == pattern(10'000, 4));
        }
    });
    CHECK(source.exports() == 0);
    source.close();
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm threads: many close the same stream, and it is closed once") {
    if (no_device()) return;
    for (int turn = 0; turn < 50; ++turn) {
        const auto stream = pm::Stream::create(0);
        on_threads(4, [&](int) {
            stream->close();
            must(stream->is_closed());
        });
    }
}

TEST_CASE("pm threads: scopes and the default resource") {
    if (no_device()) return;
    const auto resource = device_resource();
    on_threads(4, [&](int index) {
        for (int turn = 0; turn < 50; ++turn) {
            if (index % 2 == 0) {
                must(pm::current_resource(0) != resource);
                continue;
            }
            const pm::ResourceScope scope(resource);
            must(pm::current_resource(0) == resource);
        }
    });
    CHECK(resource.use_count() == 1);
}
