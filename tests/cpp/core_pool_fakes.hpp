// SPDX-License-Identifier: MIT
// Streams, events and an upstream for the machinery of pools, which the test moves by hand.
#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "portamem/abi/pool_api.h"

namespace fakes {

inline constexpr std::size_t KiB = 1024;

// A stream counts what was submitted to it and what of that has run; an event is a place in one.
struct FakeStream {
    std::uint64_t identity = portamem_new_identity();
    std::uint64_t submitted = 0;
    std::uint64_t run = 0;
    std::map<FakeStream*, std::uint64_t> waits;
    bool captured = false;
    bool ends_unseen = false;
    bool is_per_thread = false;
    bool is_gone = false;
    std::thread::id thread = std::this_thread::get_id();
};

struct FakeEvent {
    FakeStream* stream;
    std::uint64_t place;
};

struct FakeOwner {
    std::mutex mutex;  // of what callbacks change: chunks, what is left, and how far streams have come
    std::map<void*, std::size_t> chunks;
    std::size_t left = std::size_t{1} << 30;
    // Threads mark, ask and drop events at once: no lock of the pool guards these calls.
    std::atomic<int> events{0};
    std::atomic<int> marks{0};
    std::atomic<int> fail_next_mark{0};
    std::atomic<int> synchronized{0};
    std::atomic<int> device_synchronized{0};
    std::atomic<int> queries{0};
    std::atomic<int> asked_has_run{0};  // by a pool that may ask that
    bool refuses_chunks = false;
    std::size_t keep = SIZE_MAX;  // by a pool with a policy
    std::atomic<int> asked_later{0};
    std::atomic<int> asked_captured{0};
    std::atomic<int> fail_next_question{0};
    void (*while_deallocating)() = nullptr;
    std::function<void()> while_waiting;  // of a stream for an event, once
    std::function<void()> while_marking;  // a stream, once

    ~FakeOwner() {
        for (const auto& chunk : chunks) ::munmap(chunk.first, chunk.second);
    }
};

/// The test's own calls always get host memory: see core_pool_host_memory.cpp.
inline thread_local int spared = 0;
struct Spared {
    Spared() { ++spared; }
    ~Spared() { --spared; }
    Spared(const Spared&) = delete;
    Spared& operator=(const Spared&) = delete;
};

inline FakeOwner& owner_of(void* self) { return *static_cast<FakeOwner*>(self); }
inline FakeStream& stream_at(void* stream) { return *static_cast<FakeStream*>(stream); }

inline portamem_pool_ops fake_ops() {
    portamem_pool_ops ops{};
    ops.size = sizeof ops;
    ops.allocate = [](void* self, std::size_t nbytes, void*, void** ptr) {
        const Spared mine;
        FakeOwner& owner = owner_of(self);
        const std::lock_guard<std::mutex> lock(owner.mutex);
        if (nbytes > owner.left) return static_cast<int>(PORTAMEM_POOL_OUT_OF_MEMORY);
        // A pool touches no byte of what it hands out. These pages cost nothing until the test touches them.
        *ptr = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(*ptr != MAP_FAILED);
        owner.left -= nbytes;
        owner.chunks[*ptr] = nbytes;
        return static_cast<int>(PORTAMEM_POOL_OK);
    };
    ops.deallocate = [](void* self, void* ptr, std::size_t nbytes) {
        const Spared mine;
        FakeOwner& owner = owner_of(self);
        if (owner.while_deallocating != nullptr) owner.while_deallocating();
        const std::lock_guard<std::mutex> lock(owner.mutex);
        CHECK(owner.chunks.at(ptr) == nbytes);
        if (owner.refuses_chunks) return static_cast<int>(PORTAMEM_POOL_THROWN);
        owner.chunks.erase(ptr);
        owner.left += nbytes;
        ::munmap(ptr, nbytes);
        return static_cast<int>(PORTAMEM_POOL_OK);
    };
    ops.describe = [](void*, void* stream, portamem_pool_stream* about) {
        about->ref = stream;
        about->ends_unseen = stream_at(stream).ends_unseen ? 1 : 0;
        about->is_per_thread = stream_at(stream).is_per_thread ? 1 : 0;
        return static_cast<int>(PORTAMEM_POOL_OK);
    };
    ops.forget = [](void*, void*) {};
    ops.is_captured = [](void* self, void* stream) {
        FakeOwner& owner = owner_of(self);
        ++owner.asked_captured;
        if (owner.fail_next_question > 0 && --owner.fail_next_question == 0) return -1;
        return stream_at(stream).captured ? 1 : 0;
    };
    ops.mark = [](void* self, void* ref, void* stream, void** event) {
        const Spared mine;
        if (const auto run = std::exchange(owner_of(self).while_marking, nullptr)) run();
        FakeStream& on = stream_at(ref == nullptr ? stream : ref);
        if (on.is_gone) return static_cast<int>(PORTAMEM_POOL_GONE);
        if (on.captured) return static_cast<int>(PORTAMEM_POOL_BUSY);
        if (on.is_per_thread && on.thread != std::this_thread::get_id()) return static_cast<int>(PORTAMEM_POOL_BUSY);
        if (owner_of(self).fail_next_mark > 0 && --owner_of(self).fail_next_mark == 0) {
            return static_cast<int>(PORTAMEM_POOL_THROWN);
        }
        ++owner_of(self).events;
        ++owner_of(self).marks;
        *event = new FakeEvent{&on, on.submitted};
        return static_cast<int>(PORTAMEM_POOL_OK);
    };
    ops.wait = [](void* self, void* stream, void* event) {
        const Spared mine;
        if (const auto run = std::exchange(owner_of(self).while_waiting, nullptr)) run();
        const auto& mark = *static_cast<FakeEvent*>(event);
        const std::lock_guard<std::mutex> lock(owner_of(self).mutex);
        auto& seen = stream_at(stream).waits[mark.stream];
        if (mark.place > seen) seen = mark.place;
        return static_cast<int>(PORTAMEM_POOL_OK);
    };
    ops.query = [](void* self, void* event) {
        ++owner_of(self).queries;
        const auto& mark = *static_cast<FakeEvent*>(event);
        const std::lock_guard<std::mutex> lock(owner_of(self).mutex);
        return mark.stream->run >= mark.place ? 1 : 0;
    };
    ops.synchronize = [](void* self, void* event) {
        ++owner_of(self).synchronized;
        if (event == nullptr) {
            ++owner_of(self).device_synchronized;
            return static_cast<int>(PORTAMEM_POOL_OK);
        }
        const auto& mark = *static_cast<FakeEvent*>(event);
        const std::lock_guard<std::mutex> lock(owner_of(self).mutex);
        if (mark.stream->run < mark.place) mark.stream->run = mark.place;
        return static_cast<int>(PORTAMEM_POOL_OK);
    };
    ops.drop = [](void* self, void* event) {
        if (self != nullptr) --owner_of(self).events;
        delete static_cast<FakeEvent*>(event);
    };
    return ops;
}

struct FakePool {
    FakeOwner owner;
    portamem_pool_ops ops = fake_ops();
    portamem_pool* pool = nullptr;

    explicit FakePool(bool host_accessible = false, std::size_t limit = 0, bool has_policy = false,
                      bool tells_runs = false) {
        if (tells_runs) {
            ops.has_run = [](void* self, void* stream) {
                ++owner_of(self).asked_has_run;
                return !stream_at(stream).captured && stream_at(stream).run >= stream_at(stream).submitted ? 1 : 0;
            };
        }
        if (has_policy) {
            ops.keep = [](void* self, std::size_t) { return owner_of(self).keep; };
            ops.later = [](void* self) {
                ++owner_of(self).asked_later;
                return static_cast<int>(PORTAMEM_POOL_OK);
            };
        }
        portamem_pool_options options{};
        options.size = sizeof options;
        options.host_accessible = host_accessible ? 1 : 0;
        options.limit = limit;
        pool = portamem_pool_create(&ops, &owner, &options);
        REQUIRE(pool != nullptr);
    }
    ~FakePool() {
        if (pool == nullptr) return;
        portamem_pool_destroy(pool);
        CHECK(owner.chunks.empty());
        CHECK(owner.events == 0);
    }
    FakePool(const FakePool&) = delete;
    FakePool& operator=(const FakePool&) = delete;

    void* take(std::size_t nbytes, FakeStream& stream) {
        void* const ptr = portamem_pool_allocate(pool, nbytes, stream.identity, &stream);
        if (ptr != nullptr) ++stream.submitted;  // work that uses it
        return ptr;
    }
    int give(void* ptr, std::size_t nbytes, FakeStream& stream) {
        return portamem_pool_deallocate(pool, ptr, nbytes, stream.identity, &stream);
    }
    portamem_pool_figures figures() const {
        portamem_pool_figures all{};
        all.size = sizeof all;
        portamem_pool_stats(pool, &all);
        return all;
    }
};

}  // namespace fakes
