// SPDX-License-Identifier: MIT
// tests/cpp/host_prefaulted.cpp: prefaulted pinned memory where the runtime refuses, and at the edges of a process.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "forked_child.hpp"
#include "pm_support.hpp"
#include "portamem/host/runtime_api.h"

namespace {

using Prefaulted = pm::PrefaultedPinnedMemoryResource;

std::shared_ptr<Prefaulted> prefaulted() { return std::make_shared<Prefaulted>(0); }

StreamPtr on() { return pm::Stream::default_stream(0); }

struct Knobs {
    ~Knobs() {
        (void)pmhKnobReset();
        // Putting a thread's capture mode back is a call too, which may have been the one to fail.
        rt::StreamCaptureMode mode = rt::StreamCaptureMode::Global;
        (void)rt::ThreadExchangeStreamCaptureMode(&mode);
    }
    static void fail(const char* call, unsigned nth, int code) { REQUIRE(pmhKnobFailCall(call, nth, code) == 0); }
};

/// Returns the bytes of the process's addresses that can be written, which are not all that are mapped. The C library
/// reserves tens of MiB for each of some threads and keeps 40 MiB of stacks, so that a test looks for a difference of
/// 100 MiB and more. Only what lies where mmap() gives addresses counts, which is below the main thread's stack: a
/// sanitizer's shadow lies far from there, and grows by several times what the program touches.
std::size_t writable() {
    constexpr std::size_t mmap_span = std::size_t{3} << 39;
    const auto stack = reinterpret_cast<std::uintptr_t>(environ[0]);
    std::ifstream file("/proc/self/maps");
    std::size_t nbytes = 0;
    for (std::string line; std::getline(file, line);) {
        std::size_t begin = 0;
        std::size_t end = 0;
        char writes = '-';
        REQUIRE(std::sscanf(line.c_str(), "%zx-%zx %*c%c", &begin, &end, &writes) == 3);
        if (writes == 'w' && begin + mmap_span > stack) nbytes += end - begin;
    }
    return nbytes;
}

bool is_usable(void* ptr, std::size_t nbytes, unsigned seed) {
    const Bytes wanted = pattern(nbytes, seed);
    std::copy(wanted.begin(), wanted.end(), static_cast<unsigned char*>(ptr));
    return std::equal(wanted.begin(), wanted.end(), static_cast<unsigned char*>(ptr)) &&
           pm::pointer_info(ptr).type == rt::MemoryType::Host;
}

/// One that the runtime has told that it registers nothing.
std::shared_ptr<Prefaulted> without_registration() {
    auto resource = prefaulted();
    Knobs::fail("HostRegister", 1, pmhErrorNotSupported);
    void* ptr = resource->allocate(4096, on());
    CHECK_FALSE(resource->registers());
    resource->deallocate(ptr, 4096, on());
    return resource;
}

}  // namespace

TEST_CASE("host prefaulted: what cannot be registered is HostMalloc's, and the pages are gone") {
    const Knobs knobs;
    for (const int code : {int{pmhErrorOutOfMemory}, int{pmhErrorInvalidValue}, int{pmhErrorUnknown}}) {
        const auto resource = prefaulted();
        const std::size_t before = writable();
        for (unsigned i = 0; i < 20; ++i) {
            Knobs::fail("HostRegister", 1, code);
            void* ptr = resource->allocate(16 * MiB, on());
            CHECK(is_usable(ptr, MiB, i));
            resource->deallocate(ptr, 16 * MiB, on());
            CHECK(pm::pointer_info(ptr).type == rt::MemoryType::Unregistered);
        }
        CHECK(resource->registers() == (code == pmhErrorOutOfMemory));  // the others are no matter of the moment
        CHECK(writable() < before + 100 * MiB);
    }
    CHECK(rt::PeekAtLastError() == Success);
}

TEST_CASE("host prefaulted: where both are refused there is no memory, and nothing is left behind") {
    const Knobs knobs;
    const auto resource = without_registration();
    const std::size_t before = writable();
    for (int i = 0; i < 400; ++i) {
        Knobs::fail("HostMalloc", 1, pmhErrorOutOfMemory);
        CHECK_THROWS_AS(resource->allocate(512 * 1024, on()), pm::OutOfMemory);
        CHECK(resource->live_buffers() == 0);
    }
    CHECK(writable() < before + 100 * MiB);
    void* ptr = resource->allocate(MiB, on());
    CHECK(is_usable(ptr, MiB, 1));
    resource->deallocate(ptr, MiB, on());
}

TEST_CASE("host prefaulted: memory that the runtime keeps stays allocated, and goes at the next try") {
    const Knobs knobs;
    const auto resource = prefaulted();
    void* ptr = resource->allocate(3 * MiB, on());
    Knobs::fail("HostUnregister", 1, pmhErrorUnknown);
    CHECK_THROWS_AS(resource->deallocate(ptr, 3 * MiB, on()), pm::Error);
    CHECK(resource->live_bytes() == 3 * MiB);
    CHECK(is_usable(ptr, 3 * MiB, 2));
    CHECK_THROWS_AS(resource->close(), pm::ExportError);
    resource->deallocate(ptr, 3 * MiB, on());
    CHECK(resource->live_bytes() == 0);
    resource->close();
}

TEST_CASE("host prefaulted: whichever call fails, counts are right and the next allocation works") {
    const Knobs knobs;
    unsigned failures = 0;
    for (unsigned nth = 1; nth <= 60; ++nth) {
        CAPTURE(nth);
        const auto resource = prefaulted();
        std::vector<std::pair<void*, std::size_t>> out;
        Knobs::fail(nullptr, nth, pmhErrorOutOfMemory);
        for (const std::size_t nbytes : {std::size_t{4096}, 2 * MiB, 3 * MiB, 2 * MiB}) {
            try {
                out.emplace_back(resource->allocate(nbytes, on()), nbytes);
            } catch (const pm::Error&) {
                ++failures;
            }
        }
        std::size_t bytes = 0;
        for (const auto& each : out) bytes += each.second;
        CHECK(resource->live_buffers() == out.size());
        CHECK(resource->live_bytes() == bytes);
        for (const auto& [ptr, nbytes] : out) {
            try {
                resource->deallocate(ptr, nbytes, on());
            } catch (const pm::Error&) {
                ++failures;
                REQUIRE(pmhKnobFailCall(nullptr, 0, 0) == 0);
                resource->deallocate(ptr, nbytes, on());
            }
        }
        REQUIRE(pmhKnobFailCall(nullptr, 0, 0) == 0);
        CHECK(resource->live_buffers() == 0);
        CHECK(resource->live_bytes() == 0);
        void* next = resource->allocate(MiB, on());
        CHECK(is_usable(next, MiB, nth));
        resource->deallocate(next, MiB, on());
        resource->close();
    }
    CHECK(failures > 0);
}

TEST_CASE("host prefaulted: resources over plain pinned memory have their chunks registered, through adaptors too") {
    const auto pinned = pinned_resource();
    const auto limited = std::make_shared<pm::LimitingAdaptor>(pinned, 64 * MiB);
    const std::vector<std::shared_ptr<pm::MemoryResource>> keeping = {
        pm::PoolMemoryResource::create(limited), std::make_shared<pm::FixedSizeMemoryResource>(limited, MiB),
        std::make_shared<pm::MonotonicMemoryResource>(limited)};
    for (const auto& resource : keeping) {
        const Knobs knobs;
        Knobs::fail("HostMalloc", 1, pmhErrorUnknown);
        void* ptr = resource->allocate(MiB, on());
        CHECK(is_usable(ptr, MiB, 3));
        CHECK_THROWS_AS(pinned->allocate(MiB, on()), pm::Error);  // it is the first call of HostMalloc
        CHECK(pinned->live_bytes() >= MiB);
        resource->deallocate(ptr, MiB, on());
    }
    for (const auto& resource : keeping) resource->close();
    CHECK(pinned->live_bytes() == 0);
    pinned->close();
}

TEST_CASE(
    "host prefaulted: pinned memory of other flags, and coherence that was asked for, is HostMalloc's everywhere") {
    const auto combined = std::make_shared<pm::PinnedMemoryResource>(0, rt::HostMallocWriteCombined);
    const auto coherent =
        std::make_shared<pm::PinnedMemoryResource>(0, pm::detail::PinnedChunks::kFlags, rt::Coherence::Coherent);
    for (const auto& pinned : {combined, coherent}) {
        const Knobs knobs;
        const auto pool = pm::PoolMemoryResource::create(pinned);
        Knobs::fail("HostRegister", 1, pmhErrorUnknown);
        void* ptr = pool->allocate(MiB, on());
        CHECK(is_usable(ptr, MiB, 3));
        pool->deallocate(ptr, MiB, on());
        pool->close();
        int mine = 0;
        CHECK(rt::HostRegister(&mine, sizeof mine, rt::HostRegisterPortable) == rt::Error_t::Unknown);  // the first
    }
}

TEST_CASE(
    "host prefaulted: only chunks of a MiB and more are pages, and what a function of the program asks for is none") {
    const Knobs knobs;
    const auto pinned = pinned_resource();
    void* mine = nullptr;
    const auto upstream = std::make_shared<pm::CallbackMemoryResource>(
        [&](std::size_t nbytes, const StreamPtr& stream) {
            Knobs::fail("HostRegister", 1, pmhErrorUnknown);
            mine = pinned->allocate(4 * MiB, stream);
            return std::aligned_alloc(4096, nbytes);
        },
        [](void* ptr, std::size_t, const StreamPtr&) { std::free(ptr); },
        pm::CallbackMemoryResource::memory_of(pm::ResourceKind::Pinned, 0));
    int own = 0;
    const auto is_first = [&] {  // the call that was to fail is this one
        return rt::HostRegister(&own, sizeof own, rt::HostRegisterPortable) == rt::Error_t::Unknown;
    };
    const auto pool = pm::PoolMemoryResource::create(upstream);
    void* ptr = pool->allocate(2 * MiB, on());
    CHECK(is_first());
    pool->deallocate(ptr, 2 * MiB, on());
    pool->close();
    pinned->deallocate(mine, 4 * MiB, on());
    Knobs::fail("HostRegister", 1, pmhErrorUnknown);
    pm::FixedSizeMemoryResource small(pinned, 4096, 4);
    ptr = small.allocate(4096, on());
    CHECK(is_first());
    small.deallocate(ptr, 4096, on());
    small.close();
}

TEST_CASE("host prefaulted: a chunk that somebody freed behind its back is in nobody's way") {
    const Knobs knobs;
    const auto resource = without_registration();
    std::set<void*> seen;
    for (int i = 0; i < 50; ++i) {
        void* ptr = resource->allocate(64 * 1024, on());
        CHECK(is_usable(ptr, 64 * 1024, 1));
        seen.insert(ptr);
        REQUIRE(rt::HostFree(ptr) == Success);
    }
    CHECK(seen.size() < 50);  // the runtime gives the same address again
}

TEST_CASE("host prefaulted: a forked child is refused") {
    const Knobs knobs;
    auto resource = without_registration();
    auto registering = prefaulted();
    void* kept = registering->allocate(MiB, on());
    void* chunk = resource->allocate(64 * MiB, on());
    const int answer = answer_of_forked_child([&] {
        int refused = 1;
        try {
            (void)resource->allocate(64 * MiB, on());
        } catch (const pm::Error& e) {
            refused = e.name() == "Forked" ? 0 : 2;
        }
        resource.reset();
        registering.reset();
        return refused;
    });
    CHECK(answer == 0);
    registering->deallocate(kept, MiB, on());
    resource->deallocate(chunk, 64 * MiB, on());
}
