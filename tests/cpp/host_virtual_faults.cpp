// SPDX-License-Identifier: MIT
// tests/cpp/host_virtual_faults.cpp: virtual memory over a runtime whose calls fail, or that has no more memory.
#include <algorithm>
#include <initializer_list>
#include <new>
#include <optional>

#include "host_memory_taken.hpp"
#include "pm_support.hpp"
#include "portamem/host/runtime_api.h"

namespace {

constexpr const char* kCalls[] = {"MemAddressReserve", "MemCreate",      "MemMap", "MemSetAccess",     "MemUnmap",
                                  "MemRelease",        "MemAddressFree", "Memcpy", "DeviceSynchronize"};

// Runs `step` with each n-th of the calls refused, and `check` behind it with whether the step was done.
template <class Step, class Check>
unsigned with_refusals(Step&& step, Check&& check) {
    unsigned refused = 0;
    for (const char* call : kCalls) {
        CAPTURE(call);
        for (unsigned nth = 1; nth <= 4; ++nth) {
            CAPTURE(nth);
            REQUIRE(pmhKnobFailCall(call, nth, 719) == pmhSuccess);
            bool is_done = true;
            try {
                step();
            } catch (const pm::Error&) {
                is_done = false;
                ++refused;
            }
            (void)pmhKnobReset();
            check(is_done);
        }
    }
    return refused;
}

// Gives the first device another capacity for a while.
struct Capacity {
    Capacity(std::size_t nbytes, std::size_t before) : before_(before) {
        REQUIRE(pmhKnobSetCapacity(0, nbytes) == pmhSuccess);
    }
    ~Capacity() { (void)pmhKnobSetCapacity(0, before_); }
    Capacity(const Capacity&) = delete;
    Capacity& operator=(const Capacity&) = delete;

  private:
    const std::size_t before_;
};

std::size_t free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    REQUIRE(rt::MemGetInfo(&free, &total) == rt::Error_t::Success);
    return free;
}

Bytes first_of(Bytes bytes, std::size_t count) {
    bytes.resize(count);
    return bytes;
}

constexpr std::size_t kKnown = 5000;  // bytes that a test writes and knows: all of a block would take seconds

}  // namespace

TEST_CASE("host virtual: any n-th call of an allocation or of growth fails, and nothing is lost") {
    const auto resource = pm::VirtualMemoryResource::create(0);
    const std::size_t unit = resource->granularity();
    const std::size_t before = free_bytes();
    std::optional<pm::GrowableBuffer> made;
    const unsigned refused = with_refusals([&] { made.emplace(resource, 3 * unit, 64 * unit); },
                                           [&](bool is_done) {
                                               if (is_done) made->close();
                                               made.reset();
                                               CHECK(resource->live_buffers() == 0);
                                               CHECK(resource->mapped() == 0);
                                               CHECK(free_bytes() == before);
                                           });
    CHECK(refused >= 5);
    pm::GrowableBuffer buffer(resource, 3 * unit, 64 * unit);
    const auto known = [&] { return buffer.sub(3 * unit - kKnown, kKnown); };
    put(known(), 1);
    const unsigned more = with_refusals([&] { buffer.resize(12 * unit); },
                                        [&](bool is_done) {
                                            CHECK(buffer.nbytes() == (is_done ? 12 : 3) * unit);
                                            CHECK(get(known()) == pattern(kKnown, 1));
                                            buffer.resize(3 * unit);
                                            CHECK(get(known()) == pattern(kKnown, 1));
                                        });
    CHECK(more >= 9);
}

TEST_CASE("host virtual: any n-th call of a shrink fails, and the buffer has the new size, and memory stays known") {
    const auto resource = pm::VirtualMemoryResource::create(0);
    const std::size_t unit = resource->granularity();
    const std::size_t before = free_bytes();
    pm::GrowableBuffer buffer(resource, 40 * unit, 64 * unit);
    std::size_t kept = 0;
    for (unsigned nth = 1; nth <= 7; ++nth) {  // seven of eight pieces go
        CAPTURE(nth);
        buffer.resize(40 * unit);
        put(buffer.sub(2 * unit - kKnown, kKnown), nth);
        REQUIRE(pmhKnobFailCall("MemUnmap", nth, 719) == pmhSuccess);
        buffer.resize(2 * unit);
        (void)pmhKnobReset();
        CHECK(buffer.nbytes() == 2 * unit);
        CHECK(get(buffer.sub(2 * unit - kKnown, kKnown)) == pattern(kKnown, nth));
        if (buffer.mapped() > 5 * unit) ++kept;
        CHECK(before - free_bytes() == buffer.mapped());
    }
    CHECK(kept == 7);
    buffer.resize(unit);
    CHECK(buffer.mapped() <= 5 * unit);
    buffer.close();
    CHECK(free_bytes() == before);
}

TEST_CASE("host virtual: any n-th call of sleep and wake fails, and the bytes are there when it is awake") {
    const auto resource = pm::VirtualMemoryResource::create(0);
    const std::size_t unit = resource->granularity();
    pm::GrowableBuffer buffer(resource, 3 * unit, 8 * unit);
    const pm::Buffer known = buffer.sub(3 * unit - kKnown, kKnown);
    pm::Buffer other(resource, 100);
    put(known, 3);
    put(other, 4);
    const unsigned refused = with_refusals(
        [&] {
            resource->sleep();
            resource->wake();
        },
        [&](bool) {
            resource->wake();
            CHECK(get(known) == pattern(kKnown, 3));
            CHECK(get(other) == pattern(100, 4));
        });
    CHECK(refused >= 6);
}

TEST_CASE("host virtual: any n-th change of access fails, and all blocks have the access from before") {
    using Access = rt::MemAccessFlags;
    const auto resource = pm::VirtualMemoryResource::create(0);
    const std::size_t unit = resource->granularity();
    const std::size_t before = free_bytes();
    const auto seen = [](const pm::Buffer& buffer) {
        auto flags = Access::Read;
        REQUIRE(rt::MemGetAccess(&flags, {rt::LocationType::Device, 1}, buffer.ptr()) == rt::Error_t::Success);
        return flags;
    };
    const auto refuse_access = [&](unsigned nth, Access flags) {
        REQUIRE(pmhKnobFailCall("MemSetAccess", nth, 719) == pmhSuccess);
        CHECK_THROWS_AS(resource->set_access(1, flags), pm::Error);
        (void)pmhKnobReset();
    };
    refuse_access(1, Access::ReadWrite);  // of the piece of its own that it asks with
    refuse_access(2, Access::ReadWrite);
    CHECK(resource->access(1) == Access::None);
    CHECK(free_bytes() == before);
    CHECK_THROWS_AS(resource->set_access(1, Access::Read), pm::Error);  // which the CPU runtime does not know
    {
        pm::GrowableBuffer first(resource, unit, 16 * unit);
        pm::Buffer second(resource, 100), third(resource, 100);
        const auto all_have = [&](Access flags) {
            for (const pm::Buffer* each : std::initializer_list<const pm::Buffer*>{&first, &second, &third})
                CHECK(seen(*each) == flags);
            CHECK(resource->access(1) == flags);
        };
        for (unsigned nth = 1; nth <= 3; ++nth) {
            CAPTURE(nth);
            refuse_access(nth, Access::ReadWrite);
            all_have(Access::None);
        }
        CHECK_THROWS_AS(resource->set_access(1, Access::Read), pm::Error);
        all_have(Access::None);
        resource->set_access(1, Access::ReadWrite);
        all_have(Access::ReadWrite);
        for (unsigned nth = 1; nth <= 3; ++nth) {
            CAPTURE(nth);
            refuse_access(nth, Access::None);
            all_have(Access::ReadWrite);
        }
        // Growth whose memory cannot be opened to the other device gives it back.
        REQUIRE(pmhKnobFailCall("MemSetAccess", 2, 719) == pmhSuccess);
        CHECK_THROWS_AS(first.resize(12 * unit), pm::Error);
        (void)pmhKnobReset();
        CHECK(first.mapped() == unit);
        first.resize(12 * unit);
        all_have(Access::ReadWrite);
        for (pm::Buffer* each : std::initializer_list<pm::Buffer*>{&first, &second, &third}) each->close();
    }
    CHECK(free_bytes() == before);
}

TEST_CASE("host virtual: without memory for a piece to ask with, access is set all the same") {
    const auto resource = pm::VirtualMemoryResource::create(0);
    std::size_t free = 0;
    std::size_t total = 0;
    REQUIRE(rt::MemGetInfo(&free, &total) == rt::Error_t::Success);
    {
        const Capacity none(total - free, total);
        resource->set_access(1, rt::MemAccessFlags::ReadWrite);
    }
    CHECK(resource->access(1) == rt::MemAccessFlags::ReadWrite);
    const pm::Buffer buffer(resource, 100);
    auto flags = rt::MemAccessFlags::None;
    REQUIRE(rt::MemGetAccess(&flags, {rt::LocationType::Device, 1}, buffer.ptr()) == rt::Error_t::Success);
    CHECK(flags == rt::MemAccessFlags::ReadWrite);
}

TEST_CASE("host virtual: memory that runs out halfway leaves the old contents and size, and takes nothing") {
    const auto resource = pm::VirtualMemoryResource::create(0);
    const std::size_t unit = resource->granularity();
    std::size_t free = 0;
    std::size_t total = 0;
    REQUIRE(rt::MemGetInfo(&free, &total) == rt::Error_t::Success);
    (void)portamem_pools_lend(rt::BackendId, 0, total);  // what other tests' pools keep idle would help later
    REQUIRE(rt::MemGetInfo(&free, &total) == rt::Error_t::Success);
    const Capacity less(total - free + 20 * unit, total);
    {
        pm::GrowableBuffer buffer(resource, 4 * unit, 64 * unit);
        put(buffer, 5);
        const auto text = refusal<pm::OutOfMemory>([&] { buffer.resize(40 * unit); });
        CHECK(contains(text, "asked for"));
        CHECK(buffer.nbytes() == 4 * unit);
        CHECK(buffer.mapped() == 4 * unit);
        CHECK(get(buffer) == pattern(4 * unit, 5));
        buffer.resize(20 * unit);
        CHECK(first_of(get(buffer), 4 * unit) == pattern(4 * unit, 5));
        // While it sleeps another takes the memory, and wake finds none until that has gone.
        put(buffer, 6);
        resource->sleep();
        {
            const auto rival = pm::VirtualMemoryResource::create(0);
            const pm::Buffer taken(rival, 10 * unit);
            CHECK_THROWS_AS(resource->wake(), pm::OutOfMemory);
            CHECK(resource->is_asleep());
            CHECK(resource->mapped() == 0);
        }
        resource->wake();
        CHECK(get(buffer) == pattern(20 * unit, 6));
        // A pool's idle memory helps growth too.
        buffer.resize(unit);
        const auto pool = pm::PoolMemoryResource::create(device_resource());
        const auto stream = pm::Stream::create(0);
        pm::Buffer(pool, 8 * unit, stream).close();
        stream->synchronize();
        buffer.resize(19 * unit);
        CHECK(buffer.mapped() >= 19 * unit);
    }
}

TEST_CASE("host virtual: without host memory a size changes or does not, and the resource can sleep all the same") {
    const auto resource = pm::VirtualMemoryResource::create(0);
    const std::size_t unit = resource->granularity();
    for (const std::size_t target : {2 * unit, 12 * unit}) {
        CAPTURE(target);
        for (std::uint64_t nth = 1; nth <= 20; ++nth) {
            CAPTURE(nth);
            pm::GrowableBuffer buffer(resource, 6 * unit, 16 * unit);
            put(buffer.sub(0, kKnown), 9);
            bool is_done = true;
            fail_host_memory(nth);
            try {
                buffer.resize(target);
            } catch (const std::bad_alloc&) {
                is_done = false;
            } catch (const pm::OutOfMemory&) {
                is_done = false;
            }
            fail_host_memory(0);
            CHECK(buffer.nbytes() == (is_done ? target : 6 * unit));
            resource->sleep();
            resource->wake();
            CHECK(get(buffer.sub(0, kKnown)) == pattern(kKnown, 9));
        }
    }
}
