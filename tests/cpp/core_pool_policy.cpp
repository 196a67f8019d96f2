// SPDX-License-Identifier: MIT
// A release policy decides what goes back, with streams and an upstream that the test moves by hand.
#include "core_pool_fakes.hpp"

namespace {

using namespace fakes;

constexpr std::size_t MiB = 1024 * KiB;
constexpr std::size_t kSize = 80 * MiB;  // in no cache: each free asks the policy

// Frees blocks under work of their stream; the pool then wants nothing kept.
struct Pending {
    FakeStream stream;
    FakePool fake;
    std::size_t reserved = 0;

    explicit Pending(bool host_accessible) : fake(host_accessible, 0, true) {
        void* blocks[3];
        for (void*& block : blocks) block = fake.take(kSize, stream);
        reserved = fake.figures().reserved;
        REQUIRE(reserved >= 3 * kSize);
        fake.owner.keep = 0;
        for (void* block : blocks) REQUIRE(fake.give(block, kSize, stream) == PORTAMEM_POOL_OK);
    }
};

}  // namespace

TEST_CASE("core pool: what a policy wants gone goes once the work that it waits for has run, and not before") {
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        Pending with(host_accessible);
        const int marks = with.fake.owner.marks;
        CHECK(with.fake.owner.asked_later == 1);  // for all three
        for (int i = 0; i < 3; ++i) CHECK(portamem_pool_release_due(with.fake.pool) == 0);
        CHECK(with.fake.figures().reserved == with.reserved);
        with.stream.run = with.stream.submitted;
        CHECK(portamem_pool_release_due(with.fake.pool) == 1);
        CHECK(with.fake.figures().reserved == 0);
        CHECK(with.fake.owner.chunks.empty());
        CHECK(portamem_pool_release_due(with.fake.pool) == 1);  // nothing more
        CHECK(with.fake.owner.marks == marks);
        CHECK(with.fake.owner.synchronized == 0);
        // The next free asks again.
        void* const block = with.fake.take(kSize, with.stream);
        CHECK(with.fake.give(block, kSize, with.stream) == PORTAMEM_POOL_OK);
        CHECK(with.fake.owner.asked_later == 2);
        with.stream.run = with.stream.submitted;
        CHECK(portamem_pool_release_due(with.fake.pool) == 1);
        CHECK(with.fake.figures().reserved == 0);
    }
}

TEST_CASE("core pool: a policy that is content meanwhile has the last word") {
    Pending with(false);
    with.fake.owner.keep = SIZE_MAX;
    void* const block = with.fake.take(kSize, with.stream);
    CHECK(with.fake.give(block, kSize, with.stream) == PORTAMEM_POOL_OK);
    with.stream.run = with.stream.submitted;
    const std::size_t reserved = with.fake.figures().reserved;
    CHECK(portamem_pool_release_due(with.fake.pool) == 1);
    CHECK(with.fake.figures().reserved == reserved);
}

TEST_CASE("core pool: a policy that does not answer now is asked again, and keeps its last wish meanwhile") {
    FakeStream stream;
    FakePool fake(false, 0, true);
    void* blocks[3];
    for (void*& block : blocks) block = fake.take(kSize, stream);
    fake.owner.keep = PORTAMEM_POOL_ASK_LATER;
    for (void* block : blocks) CHECK(fake.give(block, kSize, stream) == PORTAMEM_POOL_OK);
    CHECK(fake.owner.asked_later == 1);
    stream.run = stream.submitted;
    CHECK(portamem_pool_release_due(fake.pool) == 0);  // still no answer
    CHECK(fake.figures().reserved >= 3 * kSize);
    SUBCASE("it wants all gone") {
        fake.owner.keep = 0;
        CHECK(portamem_pool_release_due(fake.pool) == 1);
        CHECK(fake.figures().reserved == 0);
    }
    SUBCASE("it wants nothing gone") {
        fake.owner.keep = SIZE_MAX;
        CHECK(portamem_pool_release_due(fake.pool) == 1);
        CHECK(fake.figures().reserved >= 3 * kSize);
        fake.owner.keep = PORTAMEM_POOL_ASK_LATER;
        fake.give(fake.take(kSize, stream), kSize, stream);
        CHECK(fake.owner.asked_later == 2);
    }

    Pending with(false);
    with.fake.owner.keep = PORTAMEM_POOL_ASK_LATER;
    void* const block = with.fake.take(kSize, with.stream);
    CHECK(with.fake.give(block, kSize, with.stream) == PORTAMEM_POOL_OK);
    with.stream.run = with.stream.submitted;
    CHECK(portamem_pool_release_due(with.fake.pool) == 1);
    CHECK(with.fake.figures().reserved == 0);
}

TEST_CASE("core pool: a policy's wish is no reason to wait, and what is closed is not asked for it") {
    Pending with(false);
    CHECK(with.fake.owner.synchronized == 0);
    CHECK(portamem_pool_close(with.fake.pool) == PORTAMEM_POOL_OK);  // waits, as every close
    CHECK(with.fake.owner.chunks.empty());
    CHECK(portamem_pool_release_due(with.fake.pool) == 1);
}

TEST_CASE("core pool: an upstream that takes nothing back ends the wish until the next free") {
    Pending with(false);
    with.stream.run = with.stream.submitted;
    with.fake.owner.refuses_chunks = true;
    CHECK(portamem_pool_release_due(with.fake.pool) == 1);
    CHECK(with.fake.figures().reserved == with.reserved);
    with.fake.owner.refuses_chunks = false;
    void* const block = with.fake.take(kSize, with.stream);
    CHECK(with.fake.give(block, kSize, with.stream) == PORTAMEM_POOL_OK);
    with.stream.run = with.stream.submitted;
    CHECK(portamem_pool_release_due(with.fake.pool) == 1);
    CHECK(with.fake.figures().reserved == 0);
}

TEST_CASE("core pool: what a free asks for while the last wish is served is not forgotten") {
    Pending with(false);
    with.fake.owner.keep = 2 * kSize;  // as the first free said
    void* blocks[2];
    for (void*& block : blocks) block = with.fake.take(kSize, with.stream);
    CHECK(with.fake.give(blocks[0], kSize, with.stream) == PORTAMEM_POOL_OK);
    with.stream.run = with.stream.submitted;
    // The upstream is told of a chunk, and another thread frees then.
    static FakePool* pool = nullptr;
    static FakeStream* stream = nullptr;
    static void* block = nullptr;
    static int frees = 0;
    pool = &with.fake;
    stream = &with.stream;
    block = blocks[1];
    frees = 0;
    with.fake.owner.while_deallocating = [] {
        if (frees++ != 0) return;
        std::thread([] {
            pool->owner.keep = 0;
            ++stream->submitted;  // its use, which runs on
            CHECK(pool->give(block, kSize, *stream) == PORTAMEM_POOL_OK);
        }).join();
    };
    CHECK(portamem_pool_release_due(with.fake.pool) == 0);  // there is more to do
    CHECK(frees != 0);
    with.stream.run = with.stream.submitted;
    CHECK(portamem_pool_release_due(with.fake.pool) == 1);
    CHECK(with.fake.figures().reserved == 0);
}
