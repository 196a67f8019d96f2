// SPDX-License-Identifier: MIT
// Pools and bare handles: by what a handle is known, and what is safe where it comes again without a word.
#include "pm_pool_support.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kSize = 4096;
constexpr int kUsesOfNew = 64;  // of a handle, at each of which a free records an event

bool numbers_streams(rt::Stream_t handle) {
    std::uint64_t id = 0;
    return rt::StreamGetId(handle, &id) == rt::Error_t::Success;
}

// Until pools follow the handle.
void use_often(const Pool& pool, rt::Stream_t handle) {
    for (int i = 0; i < kUsesOfNew; ++i) {
        void* const ptr = pool->allocate(kSize, handle);
        pool->deallocate(ptr, kSize, handle);
    }
}

// A stream that has the handle of `ended`, which ends here; null where the runtime does not give it out again.
std::unique_ptr<TestStream> again_under(std::unique_ptr<TestStream> ended) {
    const rt::Stream_t handle = ended->handle;
    CHECK(rt::StreamSynchronize(handle) == Success);
    ended.reset();
    std::vector<std::unique_ptr<TestStream>> others;  // live until then, or they would have the handles of each other
    for (int i = 0; i < 1000; ++i) {
        others.push_back(std::make_unique<TestStream>());
        if (others.back()->handle == handle) return std::move(others.back());
    }
    return nullptr;
}

void wait_until_open(void* is_open) {
    while (!static_cast<std::atomic<bool>*>(is_open)->load()) std::this_thread::yield();
}

std::uint64_t steals_of(const Pool& pool) { return pool->stats().steals; }

}  // namespace

TEST_CASE("pm handles: the handle of a stream made here finds what was freed on the stream, and the other way round") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource());
    if (reaches_host(pool)) return;  // such memory waits for the work of its stream
    const StreamPtr stream = pm::Stream::create(0);
    const rt::Stream_t handle = stream->handle();
    const Gate gate(stream);  // nothing is handed out for having run
    void* const ptr = pool->allocate(kSize, stream);
    pool->deallocate(ptr, kSize, handle);
    CHECK(pool->allocate(kSize, stream) == ptr);
    pool->deallocate(ptr, kSize, stream);
    CHECK(pool->allocate(kSize, handle) == ptr);
    const StreamPtr wrapped = pm::Stream::from_handle(handle, 0);
    CHECK(wrapped != stream);
    pool->deallocate(ptr, kSize, wrapped);
    CHECK(pool->allocate(kSize, handle) == ptr);
    pool->deallocate(ptr, kSize, handle);
    CHECK(pool->stats().steals == 0);
}

TEST_CASE("pm handles: closing a Stream of a handle leaves the stream and other Streams of it as they are") {
    if (no_device()) return;
    const StreamPtr stream = pm::Stream::create(0);
    const StreamPtr one = pm::Stream::from_handle(stream->handle(), 0);
    CHECK(pm::Stream::from_handle(stream->handle(), 0) == one);
    const StreamPtr alone = pm::Stream::from_handle_alone(stream->handle(), 0);
    one->close();
    CHECK_FALSE(alone->is_closed());
    CHECK_FALSE(stream->is_closed());
    const StreamPtr next = pm::Stream::from_handle(stream->handle(), 0);
    CHECK(next != one);
    next->synchronize();
    stream->close();
    CHECK(alone->is_closed());
    CHECK(alone->teller() == nullptr);
}

TEST_CASE("pm handles: a Stream of a handle ends with the stream, and no call reaches the handle" *
          ends_a_held_stream()) {
    if (no_device()) return;
    for (const bool closes : {true, false}) {
        CAPTURE(closes);
        const Pool pool = pool_over(device_resource());
        StreamPtr stream = pm::Stream::create(0);
        const StreamPtr named = pm::Stream::from_handle_alone(stream->handle(), 0);
        const StreamPtr other = pm::Stream::create(0);
        void* const ptr = pool->allocate(kSize, other);
        pm::Buffer used(pool, kSize, other);
        pm::Buffer allocated(pool, kSize, named);
        used.record_stream(named);
        const Gate gate(named);
        if (closes) stream->close();
        stream.reset();
        CHECK(named->is_closed());
        CHECK(contains(refusal<std::invalid_argument>([&] { (void)named->handle(); }), "the stream is closed"));
        CHECK_THROWS_AS(named->synchronize(), std::invalid_argument);
        CHECK_THROWS_AS(named->record(*pm::Event::create(0)), std::invalid_argument);
        CHECK_THROWS_AS(pool->deallocate(ptr, kSize, named), std::invalid_argument);
        CHECK_FALSE(named->is_idle());  // its last work goes on
        pool->deallocate(ptr, kSize, other);
        CHECK_NOTHROW(used.close());
        CHECK_NOTHROW(allocated.close());
        gate.open();
        const auto last = named->tail();
        REQUIRE(last != nullptr);
        last->synchronize();
        CHECK(named->is_idle());
        CHECK(pool->live_buffers() == 0);
    }
}

TEST_CASE("pm handles: threads use Streams of a handle while the stream is closed, or gone") {
    if (no_device()) return;
    for (int turn = 0; turn < 100; ++turn) {
        StreamPtr stream = pm::Stream::create(0);
        const StreamPtr named = pm::Stream::from_handle_alone(stream->handle(), 0);
        const DeviceMemory memory(kSize);
        std::atomic<int> begun{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i) {
            threads.emplace_back([&, i] {
                try {
                    for (;;) {
                        ++begun;
                        if (i == 0) named->synchronize();
                        if (i == 1) (void)named->query();
                        const pm::Stream::Use use = named->in_use();
                        const rt::Error_t answer = rt::MemsetAsync(memory.ptr, 1, kSize, named->handle());
                        if (answer != Success) FAIL_CHECK(rt::GetErrorName(answer));
                    }
                } catch (const std::invalid_argument& error) {
                    if (!contains(error.what(), "the stream is closed")) FAIL_CHECK(error.what());
                } catch (const std::exception& error) {
                    FAIL_CHECK(error.what());
                }
            });
        }
        while (begun < 6) std::this_thread::yield();
        if (turn % 2 == 0) stream->close();
        stream.reset();
        for (std::thread& thread : threads) thread.join();
        CHECK(named->is_closed());
        CHECK(rt::DeviceSynchronize() == Success);  // before the memory goes
    }
}

TEST_CASE("pm handles: a stream goes while a call that holds its handle waits for who lets go of it") {
    if (no_device()) return;
    StreamPtr stream = pm::Stream::create(0);
    const StreamPtr named = pm::Stream::from_handle_alone(stream->handle(), 0);
    std::atomic<bool> is_held{false};
    std::atomic<bool> is_gone{false};
    std::thread holder([&] {
        const pm::Stream::Use use = named->in_use();
        is_held = true;
        while (!is_gone) std::this_thread::yield();
    });
    while (!is_held) std::this_thread::yield();
    stream.reset();
    is_gone = true;
    holder.join();
    CHECK(named->is_closed());
    CHECK_THROWS_AS(named->synchronize(), std::invalid_argument);
}

TEST_CASE("pm handles: a handle that is used again and again costs no event at a free") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource());
    const TestStream native;
    if (reaches_host(pool) || !numbers_streams(native.handle)) return;
    use_often(pool, native.handle);
    void* const ptr = pool->allocate(kSize, native.handle);
    pool->deallocate(ptr, kSize, native.handle);
    const auto before = steals_of(pool);
    for (int i = 0; i < 100; ++i) {
        CHECK(pool->allocate(kSize, native.handle) == ptr);
        pool->deallocate(ptr, kSize, native.handle);
        const StreamPtr named = pm::Stream::from_handle(native.handle, 0);
        CHECK(pool->allocate(kSize, named) == ptr);
        pool->deallocate(ptr, kSize, named);
    }
    CHECK(steals_of(pool) == before);
    CHECK(rt::StreamSynchronize(native.handle) == Success);
}

TEST_CASE("pm handles: a handle that comes again is another stream's, and finds nothing in its order") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource());
    if (reaches_host(pool)) return;
    auto first = std::make_unique<TestStream>();
    const rt::Stream_t handle = first->handle;
    if (!numbers_streams(handle)) return;
    use_often(pool, handle);
    const StreamPtr kept = pm::Stream::from_handle(handle, 0);
    const std::uint64_t before = kept->memory_identity();
    void* const ptr = pool->allocate(kSize, handle);
    pool->deallocate(ptr, kSize, handle);
    CHECK(pm::Stream::from_handle(handle, 0)->memory_identity() == before);
    const auto second = again_under(std::move(first));
    if (second == nullptr) return;
    void* const again = pool->allocate(kSize, kept);  // by an old Stream of it, too
    CHECK(kept->memory_identity() != before);
    CHECK(kept->handle_use()->has_ended());
    CHECK(pm::Stream::from_handle(handle, 0)->memory_identity() != before);
    pool->deallocate(again, kSize, kept);
    void* const third = pool->allocate(kSize, handle);
    pool->deallocate(third, kSize, handle);
    CHECK(rt::StreamSynchronize(handle) == Success);
    // Nothing was lost: what the ended stream had comes back once a thread of the pool's has waited for the device.
    CHECK(eventually([&] {
        pool->trim();
        return pool->stats().reserved == 0;
    }));
}

TEST_CASE("pm handles: memory is freed on a handle that has come again as it is on any") {
    if (no_device()) return;
    const auto has_come_again = [](int uses, const std::string& named) {
        const Pool pool = pool_over(device_resource());
        const StreamPtr other = pm::Stream::create(0);
        auto first = std::make_unique<TestStream>();
        const rt::Stream_t handle = first->handle;
        if (reaches_host(pool) || !numbers_streams(handle)) return true;
        const StreamPtr kept = pm::Stream::from_handle(handle, 0);
        for (int i = 0; i < uses; ++i) pool->deallocate(pool->allocate(kSize, kept), kSize, kept);
        const auto second = again_under(std::move(first));
        if (second == nullptr) return false;
        void* const ptr = pool->allocate(kSize, other);
        void* const large = pool->allocate(3 * MiB, other);
        std::atomic<bool> is_open{false};  // work of the new stream, which still uses the memory
        REQUIRE(rt::LaunchHostFunc(handle, wait_until_open, &is_open) == Success);
        const auto free = [&](void* memory, std::size_t nbytes) {
            if (named == "kept") return pool->deallocate(memory, nbytes, kept);
            if (named == "bare") return pool->deallocate(memory, nbytes, handle);
            pool->deallocate(memory, nbytes, pm::Stream::from_handle(handle, 0));
        };
        CHECK_NOTHROW(free(ptr, kSize));
        CHECK_NOTHROW(free(large, 3 * MiB));
        CHECK(pool->live_buffers() == 0);
        void* const next = pool->allocate(3 * MiB, other);
        if (next == large) CHECK_FALSE(other->query());  // behind that work
        is_open = true;
        pool->deallocate(next, 3 * MiB, other);
        CHECK(rt::StreamSynchronize(handle) == Success);
        CHECK(eventually([&] {
            pool->trim();
            return pool->stats().reserved == 0;
        }));
        return true;
    };
    for (const int uses : {1, kUsesOfNew}) {
        for (const char* const named : {"kept", "anew", "bare"}) {
            CAPTURE(uses);
            CAPTURE(named);
            for (int tries = 0; tries < 10 && !has_come_again(uses, named); ++tries) {
            }
        }
    }
}

TEST_CASE("pm handles: a handle that has come again is named anew by a Stream of its own") {
    if (no_device()) return;
    auto first = std::make_unique<TestStream>();
    const rt::Stream_t handle = first->handle;
    if (!numbers_streams(handle)) return;
    const StreamPtr before = pm::Stream::from_handle(handle, 0);
    const auto second = again_under(std::move(first));
    if (second == nullptr) return;
    const StreamPtr now = pm::Stream::from_handle(handle, 0);
    CHECK(now != before);
    CHECK(now->memory_identity() != before->memory_identity());
    CHECK(pm::Stream::from_handle(handle, 0) == now);
}

TEST_CASE("pm handles: threads that use one handle do not meet") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource());
    const TestStream native;
    const StreamPtr of_main = pm::Stream::from_handle(native.handle, 0);
    use_often(pool, native.handle);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            std::vector<void*> out;
            for (int i = 0; i < 200; ++i) {
                out.push_back(pool->allocate(kSize, i % 2 == 0 ? pm::Stream::from_handle(native.handle, 0) : of_main));
            }
            for (void* const ptr : out) pool->deallocate(ptr, kSize, of_main);
            use_often(pool, native.handle);
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(pool->live_buffers() == 0);
    CHECK(rt::StreamSynchronize(native.handle) == Success);
    pool->trim();  // also of what threads have left that are gone
    CHECK(pool->stats().reserved == 0);
}

TEST_CASE("pm handles: under a capture nothing is asked that would break it") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource());
    const TestStream native;
    use_often(pool, native.handle);
    const StreamPtr stream = pm::Stream::from_handle(native.handle, 0);
    REQUIRE(rt::StreamBeginCapture(native.handle, rt::StreamCaptureMode::Global) == rt::Error_t::Success);
    void* ptr = nullptr;
    try {
        ptr = pool->allocate(kSize, native.handle);
    } catch (const std::invalid_argument&) {
        // there may be nothing at hand
    }
    auto status = rt::StreamCaptureStatus::None;
    CHECK(rt::StreamIsCapturing(native.handle, &status) == rt::Error_t::Success);
    CHECK(status == rt::StreamCaptureStatus::Active);
    rt::Graph_t graph{};
    CHECK(rt::StreamEndCapture(native.handle, &graph) == rt::Error_t::Success);
    CHECK(rt::GraphDestroy(graph) == rt::Error_t::Success);
    if (ptr != nullptr) pool->deallocate(ptr, kSize, native.handle);
    CHECK(rt::StreamSynchronize(native.handle) == Success);
}

TEST_CASE("pm handles: a null handle is the default stream of the resource's device") {
    if (no_device()) return;
    const Pool pool = pool_over(device_resource());
    if (reaches_host(pool)) return;  // such memory waits for the work of its stream
    void* const ptr = pool->allocate(kSize, rt::Stream_t{});
    pool->deallocate(ptr, kSize, pm::Stream::default_stream(0));
    CHECK(pool->allocate(kSize, pm::Stream::default_stream(0)) == ptr);
    pool->deallocate(ptr, kSize, rt::Stream_t{});
    pm::Stream::default_stream(0)->synchronize();
}
