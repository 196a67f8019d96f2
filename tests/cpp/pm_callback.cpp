// SPDX-License-Identifier: MIT
// tests/cpp/pm_callback.cpp: memory of the program's own two functions.
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "pm_support.hpp"

using Callback = pm::CallbackMemoryResource;

namespace {

struct Heap {
    int out = 0;
    void* stream = nullptr;

    static void* allocate(std::size_t nbytes, void* stream, void* self) {
        auto& heap = *static_cast<Heap*>(self);
        ++heap.out;
        heap.stream = stream;
        return std::aligned_alloc(256, (nbytes + 255) / 256 * 256);
    }
    static void deallocate(void* ptr, std::size_t, void*, void* self) {
        --static_cast<Heap*>(self)->out;
        std::free(ptr);
    }
};

pm::MemoryTraits system_memory() { return Callback::memory_of(pm::ResourceKind::System, 0); }

}  // namespace

TEST_CASE("pm callback: C functions give memory, with their user data and the stream's handle") {
    if (no_device()) return;
    Heap heap;
    const auto resource = Callback::from_functions(&Heap::allocate, &Heap::deallocate, &heap, system_memory());
    CHECK(resource->kind() == pm::ResourceKind::System);
    CHECK(resource->is_host_accessible());
    const auto stream = pm::Stream::create(0);
    {
        const pm::Buffer buffer(resource, 1000, stream);
        CHECK(heap.out == 1);
        CHECK(heap.stream == static_cast<void*>(stream->handle()));
        put(buffer, 5);
        CHECK(get(buffer) == pattern(1000, 5));
        const pm::Buffer none(resource, 0, stream);
        CHECK(heap.out == 1);
    }
    CHECK(heap.out == 0);
    CHECK_THROWS_AS(Callback::from_functions(nullptr, &Heap::deallocate, nullptr, system_memory()),
                    std::invalid_argument);
    CHECK_THROWS_AS(Callback(nullptr, nullptr, system_memory()), std::invalid_argument);
}

TEST_CASE("pm callback: what a function throws reaches the caller, and nothing is counted") {
    if (no_device()) return;
    const Resource upstream = device_resource();
    bool fails = true;
    const auto resource = std::make_shared<Callback>(
        [&](std::size_t nbytes, const StreamPtr& stream) {
            if (fails) throw std::domain_error("allocate says no");
            return upstream->allocate(nbytes, stream);
        },
        [&](void* ptr, std::size_t nbytes, const StreamPtr& stream) {
            if (fails) throw std::domain_error("deallocate says no");
            upstream->deallocate(ptr, nbytes, stream);
        },
        Callback::memory_of(pm::ResourceKind::Device, 0));
    CHECK(refusal<std::domain_error>([&] { pm::Buffer(resource, 10); }) == "allocate says no");
    CHECK(resource->live_buffers() == 0);
    fails = false;
    pm::Buffer buffer(resource, 10);
    put(buffer, 9);
    fails = true;
    CHECK(refusal<std::domain_error>([&] { buffer.close(); }) == "deallocate says no");
    CHECK(resource->live_buffers() == 1);
    CHECK(get(buffer) == pattern(10, 9));
    fails = false;
    buffer.close();
    CHECK(upstream->live_buffers() == 0);
    resource->close();
}

TEST_CASE("pm callback: a function that throws is called again for the same memory, until it returns") {
    if (no_device()) return;
    Heap heap;
    std::mutex mutex;
    std::vector<std::pair<void*, std::size_t>> calls;
    bool fails = true;
    const auto resource = std::make_shared<Callback>(
        [&](std::size_t nbytes, const StreamPtr&) { return Heap::allocate(nbytes, nullptr, &heap); },
        [&](void* ptr, std::size_t nbytes, const StreamPtr&) {
            const std::lock_guard<std::mutex> lock(mutex);
            calls.emplace_back(ptr, nbytes);
            if (fails) throw std::domain_error("not now");
            Heap::deallocate(ptr, nbytes, nullptr, &heap);
        },
        system_memory());
    const auto seen = [&] {
        const std::lock_guard<std::mutex> lock(mutex);
        return calls;
    };
    std::pair<void*, std::size_t> memory;
    {
        pm::Buffer buffer(resource, 1000);
        memory = {buffer.ptr(), 1000};
        CHECK_THROWS_AS(buffer.close(), std::domain_error);
        CHECK_THROWS_AS(buffer.close(), std::domain_error);
        CHECK(seen().size() == 2);  // once for each time that the program asks
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        CHECK(seen().size() == 2);
    }
    CHECK(eventually([&] { return seen().size() > 5; }));  // the buffer was dropped
    CHECK(resource->live_buffers() == 1);
    {
        const std::lock_guard<std::mutex> lock(mutex);
        fails = false;
    }
    CHECK(eventually([&] { return resource->live_buffers() == 0; }));
    CHECK(heap.out == 0);
    const auto all = seen();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    CHECK(seen().size() == all.size());
    CHECK(all == decltype(calls)(all.size(), memory));
    resource->close();
}

TEST_CASE("pm callback: null is out of memory, and a misaligned address goes back") {
    if (no_device()) return;
    int returned = 0;
    alignas(256) static unsigned char memory[1024];
    std::size_t offset = 0;
    const auto resource = std::make_shared<Callback>(
        [&](std::size_t, const StreamPtr&) { return offset == 0 ? nullptr : static_cast<void*>(memory + offset); },
        [&](void*, std::size_t, const StreamPtr&) { ++returned; }, system_memory());
    CHECK(contains(refusal<pm::OutOfMemory>([&] { pm::Buffer(resource, 300); }), "no address for 300 B"));
    CHECK(returned == 0);
    offset = 16;
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::Buffer(resource, 300); }), "not a multiple of 256"));
    CHECK(returned == 1);
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::Buffer(resource, 1, nullptr, 512); }), "aligns to 256"));
    CHECK(resource->live_buffers() == 0);
    const pm::Buffer less(resource, 300, nullptr, 16);  // as was asked for
    CHECK(less.ptr() == memory + 16);
}

TEST_CASE("pm callback: memory that is out is refused, and is not given back") {
    if (no_device()) return;
    std::vector<std::size_t> returned;
    alignas(256) static unsigned char memory[4096];
    std::size_t offset = 1024;
    const auto resource = std::make_shared<Callback>(
        [&](std::size_t, const StreamPtr&) { return static_cast<void*>(memory + offset); },
        [&](void* ptr, std::size_t, const StreamPtr&) {
            returned.push_back(static_cast<std::size_t>(static_cast<unsigned char*>(ptr) - memory));
        },
        system_memory());
    const auto refused = [&](std::size_t at, std::size_t nbytes, std::size_t alignment = 256) {
        offset = at;
        return refusal<std::invalid_argument>([&] { pm::Buffer(resource, nbytes, nullptr, alignment); });
    };
    {
        const pm::Buffer held(resource, 512);
        CHECK(contains(refused(1024, 512), "which is out already as 512 bytes"));
        CHECK(contains(refused(1024, 1), "give each block memory of its own"));
        CHECK(contains(refused(1280, 16), "overlap a block that is out: 512 bytes at 0x"));  // inside
        CHECK(contains(refused(1024 + 496, 300, 16), "overlap"));                            // over its end
        CHECK(contains(refused(768, 257), "overlap"));                                       // into its start
        CHECK(contains(refused(0, 4096), "overlap"));                                        // around it
        CHECK(contains(refused(1032, 8), "overlap"));                                        // misaligned besides
        CHECK(resource->live_buffers() == 1);
        CHECK(resource->live_bytes() == 512);
        CHECK(returned.empty());
        offset = 512;
        const pm::Buffer before(resource, 512);  // up to its first byte
        offset = 1536;
        const pm::Buffer after(resource, 100);  // from behind its last
        CHECK(contains(refused(0, 513), "overlap"));
    }
    CHECK(returned.size() == 3);
    offset = 1024;
    const pm::Buffer again(resource, 4096 - 1024);  // memory that went back may come again
    CHECK(again.ptr() == memory + 1024);
    const auto beyond = std::make_shared<Callback>(
        [&](std::size_t, const StreamPtr&) { return reinterpret_cast<void*>(std::uintptr_t{0} - 256); },
        [](void*, std::size_t, const StreamPtr&) {}, system_memory());
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::Buffer(beyond, 257); }), "beyond the last address"));
}

TEST_CASE("pm callback: memory that is not stream-ordered goes back when the stream's work has run") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const Gate gate(stream);
    bool open_at_free = false;
    Heap heap;
    const auto resource = std::make_shared<Callback>(
        [&](std::size_t nbytes, const StreamPtr&) { return Heap::allocate(nbytes, nullptr, &heap); },
        [&](void* ptr, std::size_t, const StreamPtr&) {
            open_at_free = gate.is_open();
            Heap::deallocate(ptr, 0, nullptr, &heap);
        },
        system_memory());
    pm::Buffer buffer(resource, 64, stream);
    gate.open_soon();
    buffer.close();
    CHECK(open_at_free);
}

TEST_CASE("pm callback: a function may allocate from a resource that stands on it") {
    if (no_device()) return;
    Heap heap;
    std::shared_ptr<pm::MemoryResource> above;
    int depth = 0;
    const auto resource = std::make_shared<Callback>(
        [&](std::size_t nbytes, const StreamPtr& stream) {
            if (++depth == 1) {
                const pm::Buffer scratch(above, 128, stream);  // runs this function again, for a chunk of its own
                CHECK(scratch.ptr() != nullptr);
            }
            --depth;
            return Heap::allocate(nbytes, nullptr, &heap);
        },
        [&](void* ptr, std::size_t nbytes, const StreamPtr&) { Heap::deallocate(ptr, nbytes, nullptr, &heap); },
        system_memory());
    SUBCASE("blocks") { above = std::make_shared<pm::FixedSizeMemoryResource>(resource, 128, 4); }
    SUBCASE("arena") { above = std::make_shared<pm::MonotonicMemoryResource>(resource, 4096); }
    const pm::Buffer buffer(above, 100);
    put(buffer, 2);
    CHECK(get(buffer) == pattern(100, 2));
    CHECK(heap.out == 2);
}
