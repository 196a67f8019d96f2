// SPDX-License-Identifier: MIT
// A pool tells the order checker of memory that it hands on.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "core_pool_fakes.hpp"
#include "portamem/abi/order_api.h"

using namespace fakes;

namespace {

// The beginning of a chunk, beyond a multiple of 64 KiB; and the ranges that the order checker was told of.
std::size_t chunk_offset = 0;
std::vector<std::pair<std::uintptr_t, std::uintptr_t>> settled;

// The end of the bytes that the checker was told of, from an address on without a gap.
std::uintptr_t settled_up_to(std::uintptr_t begin) {
    std::sort(settled.begin(), settled.end());
    for (const auto& [from, to] : settled) {
        if (from <= begin && begin < to) begin = to;
    }
    return begin;
}

void tell_order_checker_done(void*, void*, const portamem_order_range* ranges, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto begin = reinterpret_cast<std::uintptr_t>(ranges[i].ptr);
        settled.emplace_back(begin, begin + ranges[i].nbytes);
    }
}

// A thread that is about to mark its own stream, and is held up there.
std::promise<void>* about_to_mark = nullptr;
std::promise<void>* may_mark = nullptr;
std::thread* late = nullptr;

}  // namespace

TEST_CASE("core pool: the order checker is told of every byte that a stream has freed, rests of slabs among them") {
    const auto session = portamem_order_begin(PORTAMEM_BACKEND_HOST);
    for (const unsigned offset : {0U, 256U, 512U, 768U, 2048U, 2304U, 31744U}) {
        for (const unsigned nbytes : {256U, 700U, 1100U, 3328U, 5632U, 11264U, 33000U, 65536U}) {
            CAPTURE(offset);
            CAPTURE(nbytes);
            chunk_offset = offset;
            settled.clear();
            FakeOwner owner;
            FakeStream stream;
            portamem_pool_ops ops = fake_ops();
            ops.allocate = [](void*, std::size_t size, void*, void** ptr) {
                auto* const memory =
                    static_cast<char*>(std::aligned_alloc(64 * KiB, (size + 2 * 64 * KiB) & ~(64 * KiB - 1)));
                *ptr = memory + chunk_offset;
                return static_cast<int>(PORTAMEM_POOL_OK);
            };
            ops.deallocate = [](void*, void* ptr, std::size_t) {
                std::free(static_cast<char*>(ptr) - chunk_offset);
                return static_cast<int>(PORTAMEM_POOL_OK);
            };
            ops.happened = tell_order_checker_done;
            portamem_pool_options options{};
            options.size = sizeof options;
            portamem_pool* const pool = portamem_pool_create(&ops, &owner, &options);
            REQUIRE(pool != nullptr);
            const auto use = [&](std::size_t size) {
                void* const ptr = portamem_pool_allocate(pool, size, stream.identity, &stream);
                REQUIRE(ptr != nullptr);
                ++stream.submitted;
                REQUIRE(portamem_pool_deallocate(pool, ptr, size, stream.identity, &stream) == PORTAMEM_POOL_OK);
                return reinterpret_cast<std::uintptr_t>(ptr);
            };
            const std::uintptr_t begin = use(2048 * KiB);
            (void)use(nbytes);
            stream.run = stream.submitted;
            CHECK(portamem_pool_trim(pool, 0) == PORTAMEM_POOL_OK);
            CHECK(settled_up_to(begin) >= begin + 2048 * KiB);
            portamem_pool_destroy(pool);
            CHECK(owner.events == 0);
        }
    }
    CHECK(portamem_order_end(session) == 0);
}

TEST_CASE("core pool: memory that comes behind an event while the order checker is told of it is told of itself") {
    constexpr std::size_t early = 128 * KiB;
    constexpr std::size_t large = (std::size_t{64} << 20) + 256;  // in no cache: it goes to the stream itself
    const auto session = portamem_order_begin(PORTAMEM_BACKEND_HOST);
    settled.clear();
    std::promise<void> reached;
    std::promise<void> released;
    FakeOwner owner;
    FakeStream stream;
    stream.is_per_thread = true;
    portamem_pool_ops ops = fake_ops();
    static const auto mark = ops.mark;
    ops.mark = [](void* self, void* ref, void* on, void** event) {
        if (about_to_mark != nullptr) {
            std::exchange(about_to_mark, nullptr)->set_value();
            may_mark->get_future().wait();
        }
        return mark(self, ref, on, event);
    };
    ops.happened = [](void* self, void* event, const portamem_order_range* ranges, std::size_t count) {
        if (late != nullptr) {
            may_mark->set_value();
            std::exchange(late, nullptr)->join();
        }
        tell_order_checker_done(self, event, ranges, count);
    };
    portamem_pool_options options{};
    options.size = sizeof options;
    portamem_pool* const pool = portamem_pool_create(&ops, &owner, &options);
    REQUIRE(pool != nullptr);

    void* taken = nullptr;
    void* freed_first = nullptr;
    may_mark = &released;
    std::thread owner_of_stream([&] {
        stream.thread = std::this_thread::get_id();
        freed_first = portamem_pool_allocate(pool, early, stream.identity, &stream);
        taken = portamem_pool_allocate(pool, large, stream.identity, &stream);
        ++stream.submitted;
        CHECK(portamem_pool_deallocate(pool, freed_first, early, stream.identity, &stream) == PORTAMEM_POOL_OK);
        about_to_mark = &reached;
        CHECK(portamem_pool_deallocate(pool, taken, large, stream.identity, &stream) == PORTAMEM_POOL_OK);
    });
    late = &owner_of_stream;
    reached.get_future().wait();
    ++owner.events;
    portamem_pool_stream_ended(pool, stream.identity, new FakeEvent{&stream, stream.submitted});
    stream.run = stream.submitted;
    CHECK(portamem_pool_trim(pool, 0) == PORTAMEM_POOL_OK);
    CHECK(late == nullptr);
    CHECK(portamem_pool_trim(pool, 0) == PORTAMEM_POOL_OK);  // frees that came during the first trim are for this one
    REQUIRE(freed_first != nullptr);
    REQUIRE(taken != nullptr);
    for (const auto& [ptr, nbytes] : {std::pair{freed_first, early}, std::pair{taken, large}}) {
        const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
        CHECK(settled_up_to(begin) >= begin + nbytes);
    }
    CHECK(owner.chunks.empty());
    portamem_pool_destroy(pool);
    CHECK(owner.events == 0);
    CHECK(portamem_order_end(session) == 0);
}
