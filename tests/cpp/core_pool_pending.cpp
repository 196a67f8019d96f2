// SPDX-License-Identifier: MIT
// Memory that the host reaches, freed on a thread's own cache: what waits there for the stream's next event.
#include <cstddef>
#include <string>
#include <vector>

#include "core_pool_fakes.hpp"

using namespace fakes;

namespace {

constexpr std::size_t MiB = 1024 * KiB;

// The error text of a refused free.
std::string refused(FakePool& fake, void* ptr, std::size_t nbytes, FakeStream& stream, int status) {
    CHECK(fake.give(ptr, nbytes, stream) == status);
    const char* text = nullptr;
    CHECK(portamem_pool_error(&text) == status);
    return text;
}

// Takes so many blocks, all out, of a pool whose cache for the stream has freed before.
std::vector<void*> blocks(FakePool& fake, FakeStream& stream, std::size_t count, std::size_t nbytes) {
    void* const first = fake.take(nbytes, stream);
    REQUIRE(fake.give(first, nbytes, stream) == PORTAMEM_POOL_OK);
    std::vector<void*> out;
    while (out.size() < count) out.push_back(fake.take(nbytes, stream));
    return out;
}

}  // namespace

TEST_CASE("core pool: what the host reaches waits 64 blocks for one event, and is used again behind it only") {
    FakeStream stream;
    FakePool fake(true);
    const auto out = blocks(fake, stream, 200, 4 * KiB);
    const int marks = fake.owner.marks;
    for (void* const ptr : out) REQUIRE(fake.give(ptr, 4 * KiB, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.marks - marks == 3);
    CHECK(fake.figures().used == 0);
    std::vector<void*> others;
    for (int i = 0; i < 64; ++i) {
        others.push_back(fake.take(4 * KiB, stream));
        for (void* const ptr : out) CHECK(others.back() != ptr);
    }
    stream.run = stream.submitted;
    bool is_reused = false;
    for (int i = 0; i < 600; ++i) {  // more than a chunk has
        others.push_back(fake.take(4 * KiB, stream));
        for (void* const ptr : out) is_reused = is_reused || others.back() == ptr;
    }
    CHECK(is_reused);
    for (void* const ptr : others) REQUIRE(fake.give(ptr, 4 * KiB, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.figures().used == 0);
}

TEST_CASE(
    "core pool: what the host reaches is used again without an event once its stream's work has run, never before") {
    for (const std::size_t nbytes : {4 * KiB, 256 * KiB, 2 * MiB, 64 * MiB}) {
        CAPTURE(nbytes);
        FakeStream stream;
        FakePool fake(true, 0, false, true);
        void* const first = fake.take(nbytes, stream);
        void* const second = fake.take(nbytes, stream);
        REQUIRE(fake.give(first, nbytes, stream) == PORTAMEM_POOL_OK);
        void* held = fake.take(nbytes, stream);
        CHECK(held != first);
        REQUIRE(fake.give(held, nbytes, stream) == PORTAMEM_POOL_OK);
        REQUIRE(fake.give(second, nbytes, stream) == PORTAMEM_POOL_OK);
        stream.run = stream.submitted;
        held = fake.take(nbytes, stream);  // the take finds memory whose events have happened
        REQUIRE(fake.give(held, nbytes, stream) == PORTAMEM_POOL_OK);
        const auto before = fake.figures();
        const int marks = fake.owner.marks;
        const int queries = fake.owner.queries;
        std::vector<void*> out;
        for (int i = 0; i < 400; ++i) {
            stream.run = stream.submitted;
            out.push_back(fake.take(nbytes, stream));
            REQUIRE(out.back() != nullptr);
            if (out.size() < 3) continue;
            stream.run = stream.submitted;
            REQUIRE(fake.give(out.front(), nbytes, stream) == PORTAMEM_POOL_OK);
            out.erase(out.begin());
        }
        CHECK(fake.owner.asked_has_run > 0);
        CHECK(fake.owner.marks - marks <= 3);  // until there are blocks enough
        CHECK(fake.owner.queries - queries <= 6);
        CHECK(fake.figures().reserved <= before.reserved + 4 * nbytes + 4 * MiB);
        for (void* const ptr : out) REQUIRE(fake.give(ptr, nbytes, stream) == PORTAMEM_POOL_OK);
        CHECK(fake.figures().used == 0);
        CHECK(portamem_pool_close(fake.pool) == PORTAMEM_POOL_OK);
    }
}

TEST_CASE(
    "core pool: whether work has run is asked at a free where enough waits, and what has no room goes to the heap") {
    FakeStream stream;
    FakePool fake(true, 0, false, true);
    const auto out = blocks(fake, stream, 200, 256 * KiB);
    const int marks = fake.owner.marks;
    const auto reserved = fake.figures().reserved;
    stream.run = stream.submitted;
    for (void* const ptr : out) REQUIRE(fake.give(ptr, 256 * KiB, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.marks == marks);
    CHECK(fake.figures().used == 0);
    std::vector<void*> again;
    for (std::size_t i = 0; i < out.size(); ++i) {
        again.push_back(fake.take(256 * KiB, stream));
        stream.run = stream.submitted;
    }
    CHECK(fake.figures().reserved == reserved);
    CHECK(fake.figures().live == 200);
    for (void* const ptr : again) REQUIRE(fake.give(ptr, 256 * KiB, stream) == PORTAMEM_POOL_OK);
    CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
    CHECK(fake.figures().reserved == 0);
}

TEST_CASE("core pool: blocks that a limit leaves no rounding are settled as well") {
    FakeStream stream;
    FakePool fake(true, 3000, false, true);
    for (int i = 0; i < 10; ++i) {
        void* const ptr = fake.take(2900, stream);
        REQUIRE(ptr != nullptr);
        stream.run = stream.submitted;
        REQUIRE(fake.give(ptr, 2900, stream) == PORTAMEM_POOL_OK);
        CHECK(fake.figures().used == 0);
    }
    void* const ptr = fake.take(3000, stream);
    CHECK(ptr != nullptr);
    CHECK(fake.give(ptr, 3000, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.asked_has_run > 0);
    CHECK(fake.figures().reserved <= 3000);
}

TEST_CASE("core pool: a stream that works on is asked less and less whether its work has run") {
    FakeStream stream;
    FakePool fake(true, 0, false, true);
    const auto out = blocks(fake, stream, 130, 4 * KiB);
    const int asked = fake.owner.asked_has_run;
    const int marks = fake.owner.marks;
    std::vector<void*> others;
    for (void* const ptr : out) {
        REQUIRE(fake.give(ptr, 4 * KiB, stream) == PORTAMEM_POOL_OK);
        others.push_back(fake.take(4 * KiB, stream));
        for (void* const one : out) CHECK(others.back() != one);
    }
    CHECK(fake.owner.marks - marks >= 2);
    CHECK(fake.owner.asked_has_run - asked <= 8 * (fake.owner.marks - marks + 1));
    for (void* const ptr : others) REQUIRE(fake.give(ptr, 4 * KiB, stream) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: what the host reaches waits with at most 16 MiB for one event, and larger blocks by themselves") {
    FakeStream stream;
    FakePool fake(true);
    const auto out = blocks(fake, stream, 9, 6 * MiB);
    const int marks = fake.owner.marks;
    for (void* const ptr : out) REQUIRE(fake.give(ptr, 6 * MiB, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.marks - marks == 4);  // two come to 12 MiB, and the last waits for more
    CHECK(fake.figures().used == 0);

    const auto large = blocks(fake, stream, 5, 20 * MiB);
    const int before = fake.owner.marks;
    for (void* const ptr : large) REQUIRE(fake.give(ptr, 20 * MiB, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.marks - before >= 4);
    CHECK(fake.figures().used == 0);
}

TEST_CASE("core pool: a free of what the host reaches asks once whether its stream is captured, of any size") {
    for (const std::size_t nbytes : {KiB, 20 * MiB, 80 * MiB}) {
        CAPTURE(nbytes);
        FakeStream stream;
        FakePool fake(true);
        const auto out = blocks(fake, stream, 8, nbytes);
        const int asked = fake.owner.asked_captured;
        for (void* const ptr : out) REQUIRE(fake.give(ptr, nbytes, stream) == PORTAMEM_POOL_OK);
        CHECK(fake.owner.asked_captured - asked == 8);
    }
}

TEST_CASE("core pool: to free nothing asks nobody, where the host reaches the memory as well") {
    FakeStream stream;
    FakePool fake(true);
    const auto out = blocks(fake, stream, 1, KiB);
    CHECK(fake.take(0, stream) == nullptr);
    CHECK(fake.take(0, stream) == nullptr);
    fake.owner.fail_next_question = 1;
    CHECK(fake.give(nullptr, 0, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.fail_next_question == 1);
    fake.owner.fail_next_question = 0;
    stream.captured = true;
    CHECK(fake.give(nullptr, 0, stream) == PORTAMEM_POOL_OK);
    stream.captured = false;
    CHECK(fake.give(out[0], KiB, stream) == PORTAMEM_POOL_OK);
    CHECK(portamem_pool_close(fake.pool) == PORTAMEM_POOL_OK);
}

TEST_CASE("core pool: a release policy is asked at each free of what the host reaches") {
    FakeStream stream;
    FakePool fake(true, 0, true);
    void* const first = fake.take(KiB, stream);
    void* const second = fake.take(KiB, stream);
    REQUIRE(fake.give(first, KiB, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.asked_later == 0);
    fake.owner.keep = 0;
    REQUIRE(fake.give(second, KiB, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.asked_later == 1);
    stream.run = stream.submitted;
    CHECK(portamem_pool_release_due(fake.pool) == 1);
    CHECK(fake.figures().reserved == 0);
}

TEST_CASE("core pool: wrong frees of what the host reaches are refused, and change nothing") {
    FakeStream stream;
    FakePool fake(true);
    const auto out = blocks(fake, stream, 4, KiB);
    const auto used = fake.figures().used;

    stream.captured = true;
    CHECK(refused(fake, out[0], KiB, stream, PORTAMEM_POOL_INVALID).find("captured") != std::string::npos);
    stream.captured = false;
    fake.owner.fail_next_question = 1;
    CHECK(fake.give(out[0], KiB, stream) == PORTAMEM_POOL_THROWN);
    CHECK(fake.owner.fail_next_question == 0);
    CHECK(refused(fake, out[0], KiB + 1, stream, PORTAMEM_POOL_INVALID).find("not of 1025 bytes") != std::string::npos);
    char* const inside = static_cast<char*>(out[0]) + 8;
    CHECK(refused(fake, inside, KiB, stream, PORTAMEM_POOL_INVALID).find("inside of a block") != std::string::npos);
    int local = 0;
    CHECK(refused(fake, &local, KiB, stream, PORTAMEM_POOL_INVALID).find("no block at") != std::string::npos);
    CHECK(fake.figures().used == used);

    for (void* const ptr : out) CHECK(fake.give(ptr, KiB, stream) == PORTAMEM_POOL_OK);
    CHECK(refused(fake, out[0], KiB, stream, PORTAMEM_POOL_INVALID).find("freed before") != std::string::npos);
    CHECK(fake.figures().used == 0);
}

TEST_CASE("core pool: a trim finds what another thread is about to mark, because it ends or frees") {
    constexpr std::size_t kLarge = 80 * MiB;  // a chunk each
    FakeStream stream;
    FakePool fake(true);
    const auto leaves = [&fake](std::size_t chunks) {
        return [&fake, chunks] {
            CHECK(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
            CHECK(fake.figures().chunks == chunks);
        };
    };
    SUBCASE("ends") {
        std::thread([&] {
            const auto out = blocks(fake, stream, 3, KiB);
            for (void* const ptr : out) CHECK(fake.give(ptr, KiB, stream) == PORTAMEM_POOL_OK);
            fake.owner.while_marking = leaves(0);
        }).join();
        CHECK(fake.figures().reserved == 0);
    }
    SUBCASE("frees") {
        std::vector<void*> out;
        while (out.size() < 4) out.push_back(fake.take(kLarge, stream));
        REQUIRE(fake.figures().chunks == 4);
        CHECK(fake.give(out[0], kLarge, stream) == PORTAMEM_POOL_OK);
        stream.captured = true;
        leaves(4)();  // out of the cache, but it cannot be marked
        stream.captured = false;
        CHECK(fake.give(out[1], kLarge, stream) == PORTAMEM_POOL_OK);
        fake.owner.while_marking = leaves(2);
        CHECK(fake.give(out[2], kLarge, stream) == PORTAMEM_POOL_OK);
        leaves(1)();
        CHECK(fake.give(out[3], kLarge, stream) == PORTAMEM_POOL_OK);
    }
    CHECK_FALSE(fake.owner.while_marking);
    CHECK(portamem_pool_close(fake.pool) == PORTAMEM_POOL_OK);
}
