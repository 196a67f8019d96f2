// SPDX-License-Identifier: MIT
// Small blocks of a pool that has no room for one more slab.
#include <algorithm>
#include <utility>
#include <vector>

#include "core_pool_fakes.hpp"

using namespace fakes;

TEST_CASE("core pool: small blocks of a pool that has room for no more slabs do not each wait for the device") {
    constexpr std::size_t kPiece = 34 * KiB;
    constexpr std::size_t kSmall = 12 * KiB;  // in slabs of 128 KiB
    for (const bool is_others : {false, true}) {
        CAPTURE(is_others);
        FakeStream stream;
        FakeStream other;
        FakePool fake(false, 8192 * KiB);
        std::vector<void*> pieces;
        while (void* ptr = fake.take(kPiece, stream)) pieces.push_back(ptr);
        REQUIRE(pieces.size() > 200);
        std::sort(pieces.begin(), pieces.end());
        std::vector<void*> small;
        int before = 0;
        for (std::size_t i = 0; i < pieces.size(); i += 2) {  // apart from each other, behind work that has not run
            REQUIRE(fake.give(pieces[i], kPiece, is_others ? other : stream) == PORTAMEM_POOL_OK);
            REQUIRE((small.emplace_back(fake.take(kSmall, stream))) != nullptr);
            if (i == 0) before = fake.owner.synchronized;
        }
        CHECK(fake.owner.synchronized == before);
        for (void* ptr : small) REQUIRE(fake.give(ptr, kSmall, stream) == PORTAMEM_POOL_OK);
        for (std::size_t i = 1; i < pieces.size(); i += 2) {
            REQUIRE(fake.give(pieces[i], kPiece, stream) == PORTAMEM_POOL_OK);
        }
        std::vector<void*> many;  // there is room for slabs again, and they come from these
        while (void* ptr = fake.take(kSmall, stream)) many.push_back(ptr);
        CHECK(many.size() > 600);
        for (void* ptr : many) REQUIRE(fake.give(ptr, kSmall, stream) == PORTAMEM_POOL_OK);
        CHECK(portamem_pool_close(fake.pool) == PORTAMEM_POOL_OK);
    }
}

TEST_CASE("core pool: once memory has gone back to the owner, small blocks come from slabs again") {
    constexpr std::size_t kPiece = 34 * KiB;
    constexpr std::size_t kSmall = 12 * KiB;
    for (const bool goes_back : {false, true}) {
        CAPTURE(goes_back);
        FakeStream stream;
        FakePool fake;
        fake.owner.left = 8192 * KiB;
        void* const large = fake.take(4096 * KiB, stream);
        REQUIRE(large != nullptr);
        std::vector<void*> pieces;
        while (void* ptr = fake.take(kPiece, stream)) pieces.push_back(ptr);
        std::sort(pieces.begin(), pieces.end());
        const auto let_go = [&](std::size_t first, std::size_t last) {  // apart from each other
            for (std::size_t i = first; i < last; i += 2) {
                REQUIRE(fake.give(std::exchange(pieces[i], nullptr), kPiece, stream) == PORTAMEM_POOL_OK);
            }
        };
        let_go(0, 1);
        void* const alone = fake.take(kSmall, stream);  // there is no room for many
        REQUIRE(alone != nullptr);
        if (goes_back) {
            REQUIRE(fake.give(large, 4096 * KiB, stream) == PORTAMEM_POOL_OK);
            REQUIRE(portamem_pool_trim(fake.pool, 0) == PORTAMEM_POOL_OK);
            CHECK(fake.owner.left >= 4096 * KiB);
        }
        let_go(2, 21);
        const std::size_t before = fake.figures().reserved;
        std::vector<void*> small;
        for (int i = 0; i < 8; ++i) REQUIRE((small.emplace_back(fake.take(kSmall, stream))) != nullptr);
        CHECK((fake.figures().reserved > before) == goes_back);
        for (void* ptr : small) REQUIRE(fake.give(ptr, kSmall, stream) == PORTAMEM_POOL_OK);
        REQUIRE(fake.give(alone, kSmall, stream) == PORTAMEM_POOL_OK);
        for (void* ptr : pieces) {
            if (ptr != nullptr) REQUIRE(fake.give(ptr, kPiece, stream) == PORTAMEM_POOL_OK);
        }
        if (!goes_back) REQUIRE(fake.give(large, 4096 * KiB, stream) == PORTAMEM_POOL_OK);
        CHECK(portamem_pool_close(fake.pool) == PORTAMEM_POOL_OK);
    }
}

TEST_CASE("core pool: once a limit has been raised, small blocks come from slabs again") {
    constexpr std::size_t kPiece = 34 * KiB;
    constexpr std::size_t kSmall = 12 * KiB;
    for (const bool is_raised : {false, true}) {
        CAPTURE(is_raised);
        FakeStream stream;
        FakePool fake(false, 8192 * KiB);
        std::vector<void*> pieces;
        while (void* ptr = fake.take(kPiece, stream)) pieces.push_back(ptr);
        std::sort(pieces.begin(), pieces.end());
        const auto let_go = [&](std::size_t first, std::size_t last) {  // apart from each other
            for (std::size_t i = first; i < last; i += 2) {
                REQUIRE(fake.give(std::exchange(pieces[i], nullptr), kPiece, stream) == PORTAMEM_POOL_OK);
            }
        };
        let_go(0, 1);
        void* const alone = fake.take(kSmall, stream);  // there is no room for many
        REQUIRE(alone != nullptr);
        if (is_raised) portamem_pool_set_limit(fake.pool, 64 * 1024 * KiB);
        let_go(2, 21);
        const std::size_t before = fake.figures().reserved;
        std::vector<void*> small;
        for (int i = 0; i < 8; ++i) REQUIRE((small.emplace_back(fake.take(kSmall, stream))) != nullptr);
        CHECK((fake.figures().reserved > before) == is_raised);
        for (void* ptr : small) REQUIRE(fake.give(ptr, kSmall, stream) == PORTAMEM_POOL_OK);
        REQUIRE(fake.give(alone, kSmall, stream) == PORTAMEM_POOL_OK);
        for (void* ptr : pieces) {
            if (ptr != nullptr) REQUIRE(fake.give(ptr, kPiece, stream) == PORTAMEM_POOL_OK);
        }
        CHECK(portamem_pool_close(fake.pool) == PORTAMEM_POOL_OK);
    }
}
