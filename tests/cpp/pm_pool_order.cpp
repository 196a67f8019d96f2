// SPDX-License-Identifier: MIT
// Pools: which memory is handed out when, by what work still uses it.
#include "pm_pool_support.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <thread>
#include <vector>

TEST_CASE("pm pool: the host writes a new block while an old copy is held up") {
    if (no_device()) return;
    for (const std::size_t nbytes : {std::size_t{1000}, 64 * MiB / 1024, 2 * MiB}) {
        CAPTURE(nbytes);
        const Pool pool = pool_over(pinned_resource());
        const StreamPtr stream = pm::Stream::create(0);
        const DeviceMemory target(nbytes);
        const Bytes old = pattern(nbytes, 1);
        void* first = pool->allocate(nbytes, stream);
        std::copy(old.begin(), old.end(), static_cast<unsigned char*>(first));
        const Gate gate(stream);
        REQUIRE(rt::MemcpyAsync(target.ptr, first, nbytes, MemcpyKind::Default, stream->handle()) == Success);
        pool->deallocate(first, nbytes, stream);

        std::vector<void*> later;
        for (int i = 0; i < 5; ++i) {
            later.push_back(pool->allocate(nbytes, stream));
            CHECK(later.back() != first);
            std::fill_n(static_cast<unsigned char*>(later.back()), nbytes, static_cast<unsigned char>(0xEE));
        }
        gate.open();
        stream->synchronize();
        CHECK(contents(target.ptr, nbytes) == old);
        for (void* ptr : later) pool->deallocate(ptr, nbytes, stream);
        pool->close();
        CHECK(pool->upstream()->live_buffers() == 0);
    }
}

TEST_CASE("pm pool: host memory waits for work of the legacy stream, where that orders itself before its stream") {
    if (no_device()) return;
    const StreamPtr legacy = pm::Stream::default_stream(0);
    const StreamPtr blocking = pm::Stream::create(0, rt::StreamDefault);
    for (const std::size_t nbytes : {std::size_t{1000}, 2 * MiB}) {
        CAPTURE(nbytes);
        // Work is on the first stream, and the memory is freed on the second.
        for (const auto& [works, frees] : {std::pair{legacy, blocking}, {blocking, legacy}, {legacy, legacy}}) {
            const Pool pool = pool_over(pinned_resource());
            void* const warm = pool->allocate(nbytes, frees);
            pool->deallocate(warm, nbytes, frees);
            void* const first = pool->allocate(nbytes, frees);
            {
                const Gate gate(works);
                pool->deallocate(first, nbytes, frees);
                std::vector<void*> later;
                for (int i = 0; i < 5; ++i) {
                    later.push_back(pool->allocate(nbytes, frees));
                    CHECK(later.back() != first);
                }
                for (void* ptr : later) pool->deallocate(ptr, nbytes, frees);
                for (int i = 0; i < 70; ++i) {
                    void* const ptr = pool->allocate(nbytes, frees);
                    CHECK(ptr != first);
                    pool->deallocate(ptr, nbytes, frees);
                }
            }
            works->synchronize();
            frees->synchronize();
            pool->close();
        }
    }
}

TEST_CASE("pm pool: host memory is reused once the work has run, on any stream") {
    if (no_device()) return;
    const Pool pool = pool_over(pinned_resource(), 4 * MiB);
    const StreamPtr one = pm::Stream::create(0);
    const StreamPtr other = pm::Stream::create(0);
    for (int turn = 0; turn < 100; ++turn) {
        const StreamPtr& stream = turn % 2 == 0 ? one : other;
        void* ptr = pool->allocate(3 * MiB, stream);
        pool->deallocate(ptr, 3 * MiB, turn % 3 == 0 ? one : other);
    }
    CHECK(pool->stats().reserved <= 4 * MiB);
    CHECK(pool->live_buffers() == 0);
    pool->close();
}

TEST_CASE("pm pool: out of memory waits for what is still used, and for nothing else") {
    if (no_device()) return;
    const Pool pool = pool_over(pinned_resource(), 4 * MiB);
    const StreamPtr stream = pm::Stream::create(0);
    void* ptr = pool->allocate(3 * MiB, stream);
    const Gate gate(stream);
    pool->deallocate(ptr, 3 * MiB, stream);
    gate.open_soon();
    ptr = pool->allocate(3 * MiB, stream);
    CHECK(gate.is_open());
    CHECK(contains(refusal<pm::OutOfMemory>([&] { (void)pool->allocate(3 * MiB, stream); }), "limit"));
    pool->deallocate(ptr, 3 * MiB, stream);
    pool->close();
}

TEST_CASE("pm pool: a captured stream is served from what is at hand") {
    if (no_device()) return;
    for (const bool pinned : {false, true}) {
        CAPTURE(pinned);
        const Pool pool = pool_over(pinned ? pinned_resource() : device_resource());
        const bool defers = reaches_host(pool);
        const StreamPtr stream = pm::Stream::create(0);
        void* kept = pool->allocate(100000, stream);
        pool->deallocate(pool->allocate(100000, stream), 100000, stream);
        const std::size_t reserved = pool->stats().reserved;
        stream->begin_capture(rt::StreamCaptureMode::Global);
        void* hit = pool->allocate(100000, stream);
        CHECK(hit != nullptr);
        CHECK(contains(refusal<std::invalid_argument>([&] { (void)pool->allocate(512 * MiB, stream); }), "captured"));
        CHECK(pool->stats().reserved == reserved);
        if (defers) {
            CHECK_THROWS_AS(pool->deallocate(hit, 100000, stream), std::invalid_argument);
        } else {
            pool->deallocate(hit, 100000, stream);
            CHECK(pool->allocate(100000, stream) == hit);
        }
        CHECK(stream->capture_status() == rt::StreamCaptureStatus::Active);
        stream->end_capture();
        pool->deallocate(hit, 100000, stream);
        pool->deallocate(kept, 100000, stream);
        pool->close();
        CHECK(pool->stats().reserved == 0);
    }
}

TEST_CASE("pm pool: nothing is taken over from a captured stream") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource());
    if (reaches_host(pool)) return;
    const StreamPtr captured = pm::Stream::create(0);
    const StreamPtr other = pm::Stream::create(0);
    void* ptr = pool->allocate(65 * MiB, captured);
    captured->begin_capture(rt::StreamCaptureMode::Relaxed);
    pool->deallocate(ptr, 65 * MiB, captured);
    void* elsewhere = pool->allocate(65 * MiB, other);
    CHECK(elsewhere != ptr);
    CHECK(captured->capture_status() == rt::StreamCaptureStatus::Active);
    captured->end_capture();
    pool->deallocate(elsewhere, 65 * MiB, other);
    pool->close();
    CHECK(pool->upstream()->live_buffers() == 0);
}

TEST_CASE("pm pool: memory of a stream that has ended serves others, behind its last work" * ends_a_held_stream()) {
    if (no_device()) return;
    for (const bool closes : {true, false}) {
        CAPTURE(closes);
        const Pool pool = pool_over(device_resource(), 3 * MiB);
        if (reaches_host(pool)) return;
        StreamPtr ended = pm::Stream::create(0);
        const StreamPtr other = pm::Stream::create(0);
        void* ptr = pool->allocate(2 * MiB, ended);
        void* small = pool->allocate(700, ended);
        const Gate gate(ended);
        pool->deallocate(ptr, 2 * MiB, ended);
        pool->deallocate(small, 700, ended);
        if (closes) {
            ended->close();
            CHECK_THROWS_AS(pool->allocate(700, ended), std::invalid_argument);
        }
        ended.reset();
        void* taken = pool->allocate(2 * MiB, other);
        CHECK(taken == ptr);
        CHECK_FALSE(other->query());
        gate.open();
        other->synchronize();
        pool->deallocate(taken, 2 * MiB, other);
        pool->close();
        CHECK(pool->upstream()->live_buffers() == 0);
    }
}

TEST_CASE("pm pool: memory that an upstream reuses on one stream is another's behind that stream's work") {
    if (no_device()) return;
    const Pool lower = pool_over(device_resource());
    if (reaches_host(lower)) return;
    const Pool upper = pool_over(lower);
    const StreamPtr a = pm::Stream::create(0);
    const StreamPtr b = pm::Stream::create(0);
    void* first = upper->allocate(65 * MiB, a);
    upper->deallocate(first, 65 * MiB, a);
    first = upper->allocate(65 * MiB, b);  // b has waited for a once
    void* below = lower->allocate(130 * MiB, a);
    const Gate gate(a);
    lower->deallocate(below, 130 * MiB, a);
    void* part = upper->allocate(3 * MiB, a);  // of a chunk that `lower` may reuse on a alone
    const std::uint64_t chunks = upper->upstream()->live_buffers();
    void* rest = upper->allocate(3 * MiB, b);
    CHECK(upper->upstream()->live_buffers() == chunks);  // of the same one
    CHECK_FALSE(b->query());
    gate.open();
    b->synchronize();
    upper->deallocate(rest, 3 * MiB, b);
    upper->deallocate(part, 3 * MiB, a);
    upper->deallocate(first, 65 * MiB, b);
    upper->close();
    lower->close();
}

TEST_CASE("pm pool: threads that grow at once keep to the limit") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource(), 8 * MiB);
    std::atomic<int> ready{0};
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 12; ++i) {
        threads.emplace_back([&] {
            const StreamPtr stream = pm::Stream::create(0);
            ++ready;
            while (ready < 12) std::this_thread::yield();
            for (int turn = 0; turn < 20; ++turn) {
                try {
                    void* ptr = pool->allocate(3 * MiB / 2, stream);
                    pool->deallocate(ptr, 3 * MiB / 2, stream);
                } catch (const pm::OutOfMemory&) {
                    ++refused;
                }
                if (turn % 5 == 0) pool->trim();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(pool->stats().peak <= 8 * MiB);
    CHECK(refused < 12 * 20);
    pool->close();
}

TEST_CASE("pm pool: a thread's own default stream is marked by that thread") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource(), 6 * MiB);
    if (reaches_host(pool)) return;
    const StreamPtr other = pm::Stream::create(0);
    StreamPtr own;
    std::thread([&] {
        own = pm::Stream::per_thread(0);
        void* ptr = pool->allocate(2 * MiB, own);
        pool->deallocate(ptr, 2 * MiB, own);
        CHECK(pool->allocate(2 * MiB, own) == ptr);
        pool->deallocate(ptr, 2 * MiB, own);
    }).join();
    CHECK_THROWS_AS(pool->allocate(100, own), std::invalid_argument);
    void* all = pool->allocate(5 * MiB, other);  // needs what that thread has left behind
    pool->deallocate(all, 5 * MiB, other);
    own.reset();
    pool->close();
    CHECK(pool->upstream()->live_buffers() == 0);
}

TEST_CASE("pm pool: what a thread that goes on has freed on its own default stream is had when there is nothing else") {
    if (no_device()) return;
    for (const bool pinned : {false, true}) {
        CAPTURE(pinned);
        const Pool pool = pool_over(pinned ? pinned_resource() : device_resource(), 12 * MiB);
        const StreamPtr other = pm::Stream::create(0);
        std::promise<void> is_freed;
        std::promise<void> is_over;
        std::thread thread([&] {
            const StreamPtr own = pm::Stream::per_thread(0);
            std::vector<void*> all;
            for (int i = 0; i < 5; ++i) all.push_back(pool->allocate(2 * MiB, own));
            for (void* const ptr : all) {
                CHECK(keeps_bytes(ptr, 1000, 5));
                pool->deallocate(ptr, 2 * MiB, own);
            }
            is_freed.set_value();
            is_over.get_future().wait();
            void* const again = pool->allocate(100, own);
            CHECK(keeps_bytes(again, 100, 6));
            pool->deallocate(again, 100, own);
        });
        is_freed.get_future().wait();
        void* const large = pool->allocate(9 * MiB, other);
        CHECK(keeps_bytes(large, 9 * MiB, 7));
        pool->deallocate(large, 9 * MiB, other);
        is_over.set_value();
        thread.join();
        pool->close();
        CHECK(pool->upstream()->live_buffers() == 0);
    }
}

TEST_CASE("pm pool: threads that come and go use the same memory on their own default streams") {
    if (no_device()) return;
    for (const bool pinned : {false, true}) {
        CAPTURE(pinned);
        const Pool pool = pool_over(pinned ? pinned_resource() : device_resource(), 64 * MiB);
        for (int i = 0; i < 200; ++i) {
            std::thread([&] {
                const StreamPtr own = pm::Stream::per_thread(0);
                void* ptr = pool->allocate(2 * MiB, own);
                CHECK(keeps_bytes(ptr, 1000, 5));
                pool->deallocate(ptr, 2 * MiB, own);
                own->synchronize();
            }).join();
        }
        CHECK(pool->stats().reserved <= 16 * MiB);
        pool->close();
        CHECK(pool->upstream()->live_buffers() == 0);
    }
}

TEST_CASE("pm pool: trimming goes on while other threads close the streams that it asks") {
    if (no_device()) return;
    const Pool pool = pool_over(pinned_resource());
    std::atomic<int> left{3};
    std::vector<std::thread> closers;
    for (int i = 0; i < 3; ++i) {
        closers.emplace_back([&] {
            try {
                for (int turn = 0; turn < 3000; ++turn) {
                    const StreamPtr stream = pm::Stream::create(0);
                    void* ptr = pool->allocate(5000, stream);
                    pool->deallocate(ptr, 5000, stream);
                    stream->close();
                }
            } catch (const std::exception& error) {
                FAIL_CHECK(error.what());
            }
            --left;
        });
    }
    while (left > 0) CHECK_NOTHROW(pool->trim(0));
    for (std::thread& each : closers) each.join();
    CHECK(pool->live_buffers() == 0);
    pool->close();
}

// A sanitizer sees a cache that the thread has let go of and still knows by its memo of 16 places.
TEST_CASE("pm pool: a thread looks for ended caches while another thread ends them") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource());
    const auto use = [&](const StreamPtr& stream) { pool->deallocate(pool->allocate(5000, stream), 5000, stream); };
    std::vector<StreamPtr> of_one_place;  // so that the others stay known until the next look
    for (int i = 0; i < 40 * 16; ++i) {
        const StreamPtr stream = pm::Stream::create(0);
        if (i % 16 == 0) of_one_place.push_back(stream);
    }
    for (int turn = 0; turn < 40; ++turn) {
        std::vector<StreamPtr> ending;
        for (int i = 0; i < 16; ++i) ending.push_back(pm::Stream::create(0));
        std::atomic<bool> begins{false};
        std::thread closer([&] {
            while (!begins) std::this_thread::yield();
            for (auto stream = ending.rbegin(); stream != ending.rend(); ++stream) (*stream)->close();
        });
        std::thread user([&] {  // a new thread looks at its 17th cache
            for (const StreamPtr& stream : ending) use(stream);
            begins = true;
            for (const StreamPtr& stream : of_one_place) use(stream);
        });
        user.join();
        closer.join();
    }
    CHECK(pool->live_buffers() == 0);
    pool->close();
}

TEST_CASE("pm pool: alignments above 256 bytes") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource());
    const StreamPtr stream = pm::Stream::create(0);
    for (const std::size_t alignment : {std::size_t{1}, std::size_t{64}, std::size_t{512}, std::size_t{4096},
                                        std::size_t{32768}, std::size_t{65536}, 2 * MiB}) {
        for (const std::size_t nbytes : {std::size_t{1}, std::size_t{1000}, std::size_t{40000}, MiB + 1}) {
            CAPTURE(alignment);
            CAPTURE(nbytes);
            std::vector<void*> all;
            for (int i = 0; i < 5; ++i) {
                all.push_back(pool->allocate(nbytes, stream, alignment));
                CHECK(reinterpret_cast<std::uintptr_t>(all.back()) % alignment == 0);
                CHECK(keeps_bytes(all.back(), nbytes, 9));
            }
            for (void* ptr : all) pool->deallocate(ptr, nbytes, stream);
        }
    }
    CHECK_THROWS_AS(pool->allocate(1, stream, 300), std::invalid_argument);
    CHECK_THROWS_AS(pool->allocate(1, stream, 0), std::invalid_argument);
    CHECK(pool->live_bytes() == 0);
    pool->close();
    CHECK(pool->upstream()->live_buffers() == 0);
}

TEST_CASE("pm pool: when the upstream has no more, what is cached goes back first") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource(), 16 * MiB);
    const StreamPtr one = pm::Stream::create(0);
    const StreamPtr other = pm::Stream::create(0);
    for (int turn = 0; turn < 24; ++turn) {
        std::vector<std::pair<void*, std::size_t>> all;
        const std::size_t nbytes = std::size_t{300} << (turn % 12);
        try {
            for (int i = 0; i < 100000; ++i) all.emplace_back(pool->allocate(nbytes, i % 2 == 0 ? one : other), nbytes);
        } catch (const pm::OutOfMemory& e) {
            CHECK(contains(e.what(), "largest free block"));
        }
        CHECK(all.size() * nbytes > 9 * MiB - nbytes * 2);
        std::size_t i = 0;
        for (const auto& [ptr, size] : all) pool->deallocate(ptr, size, i++ % 3 == 0 ? one : other);
        CHECK(pool->live_bytes() == 0);
    }
    pool->close();
    CHECK(pool->upstream()->live_buffers() == 0);
}

TEST_CASE("pm pool: threads and streams at once") {
    if (no_device()) return;
    for (const std::string& what :
         std::vector<std::string>{"device memory", "pinned memory", "memory of bare handles"}) {
        CAPTURE(what);
        const bool pinned = what == "pinned memory";
        const bool bare = what == "memory of bare handles";
        const Pool pool = pool_over(pinned ? pinned_resource() : device_resource(), 256 * MiB);
        const std::vector<TestStream> natives(4);
        std::vector<StreamPtr> streams;
        for (const TestStream& native : natives) {
            streams.push_back(bare ? pm::Stream::from_handle(native.handle, 0) : pm::Stream::create(0));
        }
        std::mutex mutex;
        std::vector<std::pair<void*, std::size_t>> shared;
        std::atomic<int> failures{0};
        const auto work = [&](unsigned seed) {
            unsigned random = seed;
            const auto next = [&random] { return random = random * 1664525U + 1013904223U, random >> 8; };
            StreamPtr own = pm::Stream::create(0);
            std::vector<std::pair<void*, std::size_t>> mine;
            for (int turn = 0; turn < 3000; ++turn) {
                const StreamPtr& stream = next() % 3 == 0 ? streams[next() % 4] : own;
                try {
                    if (next() % 2 == 0 || mine.empty()) {
                        const std::size_t nbytes = 1 + next() % (std::size_t{1} << (4 + next() % 17));
                        mine.emplace_back(pool->allocate(nbytes, stream), nbytes);
                    } else {
                        const auto [ptr, nbytes] = mine.back();
                        mine.pop_back();
                        if (next() % 4 == 0) {
                            const std::lock_guard<std::mutex> lock(mutex);
                            shared.emplace_back(ptr, nbytes);
                        } else {
                            pool->deallocate(ptr, nbytes, stream);
                        }
                    }
                    if (next() % 8 == 0) {
                        std::pair<void*, std::size_t> other{nullptr, 0};
                        {
                            const std::lock_guard<std::mutex> lock(mutex);
                            if (!shared.empty()) {
                                other = shared.back();
                                shared.pop_back();
                            }
                        }
                        if (other.first != nullptr) pool->deallocate(other.first, other.second, stream);
                    }
                    if (next() % 500 == 0) pool->trim(MiB);
                    if (next() % 200 == 0) (void)pool->stats();
                    if (next() % 500 == 0) (void)pool->snapshot();
                    if (next() % 300 == 0) own = pm::Stream::create(0);
                } catch (const pm::OutOfMemory&) {
                    continue;
                } catch (const std::exception& e) {
                    ++failures;
                    MESSAGE(std::string(e.what()));
                    return;
                }
            }
            for (const auto& [ptr, nbytes] : mine) pool->deallocate(ptr, nbytes, own);
        };
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < 6; ++i) threads.emplace_back(work, i + 1);
        for (auto& thread : threads) thread.join();
        CHECK(failures == 0);
        for (const auto& [ptr, nbytes] : shared) pool->deallocate(ptr, nbytes, streams[0]);
        CHECK(pool->live_buffers() == 0);
        CHECK(pool->live_bytes() == 0);
        pool->close();
        CHECK(pool->stats().reserved == 0);
        CHECK(pool->upstream()->live_buffers() == 0);
    }
}
