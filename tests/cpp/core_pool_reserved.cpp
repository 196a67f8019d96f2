// SPDX-License-Identifier: MIT
// A pool asks its upstream for little beside the live memory, where the sizes that are wanted change all the time.
#include <algorithm>
#include <random>
#include <vector>

#include "core_pool_addresses.hpp"

using namespace fakes;

namespace {

constexpr std::size_t kLeastChunk = 2048 * KiB;

/// Arrays on one stream whose work has run as soon as it is submitted.
struct Arrays {
    FakePool& fake;
    FakeStream& stream;
    std::size_t live = 0;
    std::size_t most = 0;

    struct Array {
        void* ptr = nullptr;
        std::size_t nbytes = 0;
    };

    Array make(std::size_t nbytes) {
        const Array made{fake.take(nbytes, stream), nbytes};
        REQUIRE(made.ptr != nullptr);
        stream.run = stream.submitted;
        live += nbytes;
        most = std::max(most, live);
        return made;
    }
    void drop(const Array& array) {
        REQUIRE(fake.give(array.ptr, array.nbytes, stream) == PORTAMEM_POOL_OK);
        live -= array.nbytes;
    }
    double reserved_over() const {
        return static_cast<double>(fake.figures().peak - std::min<std::uint64_t>(fake.figures().peak, kLeastChunk)) /
               static_cast<double>(most);
    }
};

/// A size of `least` to `most` percent of nbytes.
std::size_t percent_of(std::size_t nbytes, std::mt19937_64& random, unsigned least, unsigned most) {
    return nbytes / 100 * (least + random() % (most - least + 1)) + 1;
}

/// A mesh of a size that drifts: each step makes all its fields anew, with others on the way, and then the old go.
void drift(Arrays& arrays, std::mt19937_64& random, std::size_t fields, std::size_t least, std::size_t most) {
    std::vector<Arrays::Array> mesh;
    std::size_t size = least;
    for (int step = 0; step < 200; ++step) {
        size = std::min(std::max(percent_of(size, random, 85, 120), least), most);
        std::vector<Arrays::Array> next;
        for (std::size_t field = 0; field < fields; ++field) {
            next.push_back(arrays.make(size * (1 + field % 3)));
            std::vector<Arrays::Array> others;
            for (auto left = random() % 4; left != 0; --left) {
                others.push_back(arrays.make(percent_of(size, random, 5, 100)));
            }
            for (const auto& other : others) arrays.drop(other);
        }
        for (const auto& old : mesh) arrays.drop(old);
        mesh = std::move(next);
    }
    for (const auto& last : mesh) arrays.drop(last);
}

/// Arrays that are made anew one at a time, up to twice as large or half as large.
void resize(Arrays& arrays, std::mt19937_64& random, std::size_t count, std::size_t least, std::size_t most) {
    std::vector<Arrays::Array> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(arrays.make(least << (i % 6)));
    for (int step = 0; step < 2000; ++step) {
        Arrays::Array& array = all[random() % count];
        const auto grown = arrays.make(std::min(std::max(percent_of(array.nbytes, random, 50, 200), least), most));
        arrays.drop(array);
        array = grown;
    }
    for (const auto& last : all) arrays.drop(last);
}

}  // namespace

TEST_CASE("core pool: arrays that grow and shrink reserve about twice what is live") {
    double sum = 0;
    int runs = 0;
    for (const bool host_accessible : {false, true}) {
        for (unsigned seed = 1; seed <= 8; ++seed) {
            for (int kind = 0; kind < 4; ++kind) {
                CAPTURE(host_accessible);
                CAPTURE(seed);
                CAPTURE(kind);
                std::mt19937_64 random(seed);
                FakeStream stream;
                FakePool fake(host_accessible);
                Arrays arrays{fake, stream};
                if (kind == 0) drift(arrays, random, 4, 200 * KiB, 3000 * KiB);
                if (kind == 1) drift(arrays, random, 8, 20 * KiB, 1000 * KiB);
                if (kind == 2) resize(arrays, random, 8, 64 * KiB, 8192 * KiB);
                if (kind == 3) resize(arrays, random, 40, 4 * KiB, 4096 * KiB);
                CHECK(arrays.reserved_over() <= 2.75);  // where 5 MiB are live, a chunk more is 0.4 of that
                sum += arrays.reserved_over();
                ++runs;
            }
        }
    }
    CHECK(sum / runs <= 1.75);
}

TEST_CASE("core pool: what a cache holds of other sizes is put together before the upstream is asked") {
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        FakeStream stream;
        FakePool fake(host_accessible);
        Arrays arrays{fake, stream};
        std::vector<Arrays::Array> all;
        for (int i = 0; i < 4; ++i) all.push_back(arrays.make(480 * KiB));
        for (const auto& array : all) arrays.drop(array);
        const auto large = arrays.make(1900 * KiB);
        CHECK(fake.figures().reserved == kLeastChunk);
        arrays.drop(large);
        // The slab has been cut in part, and none of its blocks is out.
        arrays.drop(arrays.make(700));
        const auto whole = arrays.make(kLeastChunk);
        CHECK(fake.figures().reserved == kLeastChunk);
        CHECK(fake.figures().misses == 1);
        arrays.drop(whole);
    }
}

TEST_CASE("core pool: what a stream has freed is put together with what nobody has used yet") {
    FakeStream stream;
    FakePool fake;
    Arrays arrays{fake, stream};
    arrays.drop(arrays.make(1000 * KiB));  // the rest of the chunk was never used
    arrays.drop(arrays.make(kLeastChunk));
    CHECK(fake.figures().reserved == kLeastChunk);
    CHECK(fake.owner.marks == 0);
}

TEST_CASE("core pool: what the cache of a thread's own stream gives up is behind a mark, for other streams") {
    FakeStream other;
    FakeStream stream;
    FakePool fake(false, kLeastChunk);
    Arrays arrays{fake, stream};
    arrays.stream.is_per_thread = true;
    std::vector<Arrays::Array> all;
    for (int i = 0; i < 4; ++i) all.push_back(arrays.make(480 * KiB));
    for (const auto& array : all) arrays.drop(array);
    const auto freed_at = arrays.stream.submitted;
    const auto large = arrays.make(1000 * KiB);
    CHECK(fake.figures().reserved == kLeastChunk);
    void* const ptr = fake.take(800 * KiB, other);
    REQUIRE(ptr != nullptr);
    REQUIRE(other.waits.count(&arrays.stream) == 1);
    CHECK(other.waits.at(&arrays.stream) >= freed_at);
    CHECK(fake.give(ptr, 800 * KiB, other) == PORTAMEM_POOL_OK);
    arrays.drop(large);
}

TEST_CASE("core pool: blocks of one size get no room beside them") {
    FakeStream stream;
    FakePool fake;
    Arrays arrays{fake, stream};
    std::vector<Arrays::Array> all;
    for (int i = 0; i < 8; ++i) all.push_back(arrays.make(32 * 1024 * KiB));
    CHECK(fake.figures().reserved == arrays.live);
    for (const auto& array : all) arrays.drop(array);
}

TEST_CASE("core pool: of chunks that are full of large blocks of one size, little is left over") {
    constexpr std::size_t kMiB = 1024 * KiB;
    for (const std::size_t nbytes : {30 * kMiB, 66 * kMiB, 90 * kMiB, 130 * kMiB, 140 * kMiB, 150 * kMiB, 200 * kMiB}) {
        CAPTURE(nbytes);
        FakeStream stream;
        FakePool fake;
        fake.owner.left = 12000 * kMiB;
        Arrays arrays{fake, stream};
        std::vector<Arrays::Array> all;
        while (arrays.live < 10000 * kMiB) {
            const std::size_t live = arrays.live;
            const std::uint64_t reserved = fake.figures().reserved;
            all.push_back(arrays.make(nbytes));
            if (fake.figures().reserved == reserved) continue;
            CHECK(reserved <= live + live / 8 + fake.owner.chunks.size() * kLeastChunk);  // nothing more fitted in
        }
        for (const auto& array : all) arrays.drop(array);
    }
}

TEST_CASE("core pool: the next chunk is mostly of the last one's size") {
    FakeStream stream;
    FakePool fake;
    fake.owner.left = 3000 * 1024 * KiB;
    Arrays arrays{fake, stream};
    std::vector<std::size_t> sizes;
    std::uint64_t reserved = 0;
    std::vector<Arrays::Array> all;
    while (arrays.live < 2000 * 1024 * KiB) {
        all.push_back(arrays.make(1000 * KiB));
        if (const auto now = fake.figures().reserved; now != reserved) {
            sizes.push_back(now - reserved);
            reserved = now;
        }
    }
    std::size_t same = 0;
    for (std::size_t i = 1; i < sizes.size(); ++i) same += sizes[i] == sizes[i - 1];
    CHECK(sizes.back() > 64 * 1024 * KiB);
    CHECK(4 * same >= 3 * sizes.size());
    for (const auto& array : all) arrays.drop(array);
}

TEST_CASE("core pool: what an upstream has left is used up in few pieces") {
    for (const bool host_accessible : {false, true}) {
        CAPTURE(host_accessible);
        FakeStream stream;
        FakePool fake(host_accessible);
        fake.owner.left = std::size_t{500} << 20;
        std::vector<void*> blocks;
        for (;;) {
            void* const ptr = fake.take(33 * KiB, stream);
            if (ptr == nullptr) break;
            blocks.push_back(ptr);
        }
        CHECK(fake.owner.left < 128 * KiB);
        CHECK(fake.owner.chunks.size() < 60);
        const auto figures = fake.figures();
        CHECK(static_cast<double>(figures.reserved) / static_cast<double>(figures.used) < 1.05);
        for (void* ptr : blocks) REQUIRE(fake.give(ptr, 33 * KiB, stream) == PORTAMEM_POOL_OK);
        stream.run = stream.submitted;
    }
}

TEST_CASE("core pool: chunks become large again when the upstream has memory again") {
    FakeStream stream;
    FakePool fake;
    fake.owner.left = std::size_t{300} << 20;
    std::vector<void*> blocks;
    for (void* ptr = nullptr; (ptr = fake.take(64 * KiB, stream)) != nullptr;) blocks.push_back(ptr);
    fake.owner.left = std::size_t{600} << 20;  // other users have given memory back
    const std::size_t before = fake.owner.chunks.size();
    for (int i = 0; i < 4000; ++i) blocks.push_back(fake.take(64 * KiB, stream));
    CHECK(blocks.back() != nullptr);
    CHECK(fake.owner.chunks.size() - before < 30);
    for (void* ptr : blocks) REQUIRE(fake.give(ptr, 64 * KiB, stream) == PORTAMEM_POOL_OK);
    stream.run = stream.submitted;
}

TEST_CASE("core pool: of an array that grows slowly, made anew or beside the old one, what it has outgrown goes back") {
    for (const bool host_accessible : {false, true}) {
        for (const bool is_beside : {false, true}) {
            for (const std::size_t percent : {1U, 10U, 60U}) {
                CAPTURE(host_accessible);
                CAPTURE(is_beside);
                CAPTURE(percent);
                FakeStream stream;
                FakePool fake(host_accessible);
                fake.owner.left = std::size_t{1} << 40;
                Arrays arrays{fake, stream};
                Arrays::Array old{};
                for (std::size_t nbytes = 1024 * KiB; nbytes < 400 * 1024 * KiB; nbytes += nbytes / 100 * percent + 1) {
                    const Arrays::Array next = arrays.make(nbytes);
                    const std::uint64_t reserved = fake.figures().reserved;
                    CHECK(reserved <= arrays.most * 12 / 10 + 3 * kLeastChunk);
                    if (old.ptr != nullptr) arrays.drop(old);
                    old = is_beside ? next : Arrays::Array{};
                    if (!is_beside) arrays.drop(next);
                }
                if (old.ptr != nullptr) arrays.drop(old);
            }
        }
    }
}

TEST_CASE("core pool: what work still uses is not given back, nor waited for, when a pool grows") {
    FakeStream stream;
    FakePool fake;
    for (std::size_t nbytes = 16 * 1024 * KiB; nbytes < 400 * 1024 * KiB; nbytes += nbytes / 4) {
        void* const ptr = fake.take(nbytes, stream);  // its work has not run
        REQUIRE(ptr != nullptr);
        REQUIRE(fake.give(ptr, nbytes, stream) == PORTAMEM_POOL_OK);
        void* const again = fake.take(nbytes, stream);
        CHECK(again == ptr);
        REQUIRE(fake.give(again, nbytes, stream) == PORTAMEM_POOL_OK);
        if (fake.owner.left < 700 * 1024 * KiB) break;  // from here on the upstream has too little
    }
    CHECK(fake.owner.synchronized == 0);
    CHECK(fake.figures().releases == 0);
    stream.run = stream.submitted;
}

TEST_CASE("core pool: a small block is not cut out of a large one while the upstream has memory for it") {
    constexpr std::size_t kMiB = 1024 * KiB;
    for (const bool host_accessible : {false, true}) {
        for (const std::size_t small : {std::size_t{100}, 10'000 * std::size_t{1}, 300 * KiB, kMiB}) {
            CAPTURE(host_accessible);
            CAPTURE(small);
            FakeStream stream;
            FakePool fake(host_accessible, 520 * kMiB);
            Arrays arrays{fake, stream};
            arrays.drop(arrays.make(512 * kMiB));
            const auto one = arrays.make(small);
            arrays.drop(arrays.make(512 * kMiB));
            std::vector<Arrays::Array> all;  // but where the limit leaves no other place
            for (int i = 0; i < 400; ++i) all.push_back(arrays.make(kMiB));
            for (const auto& array : all) arrays.drop(array);
            arrays.drop(one);
        }
    }
}

TEST_CASE("core pool: phases of small and of large blocks do not take each other's chunks") {
    constexpr std::size_t kMiB = 1024 * KiB;
    struct Kind {
        std::size_t least_large;
        std::size_t most_large;
        double reserved;
    };
    for (const Kind& kind : {Kind{4 * kMiB, 4 * kMiB, 1.35}, Kind{kMiB, 16 * kMiB, 1.45}, Kind{kMiB, 4 * kMiB, 1.75}}) {
        CAPTURE(kind.most_large);
        FakeStream stream;
        FakePool fake;
        fake.owner.left = std::size_t{1} << 40;
        Arrays arrays{fake, stream};
        std::mt19937_64 random(3);
        std::vector<Arrays::Array> kept;
        for (int turn = 0; turn < 5; ++turn) {
            std::vector<Arrays::Array> all;
            for (int i = 0; i < 100'000; ++i) all.push_back(arrays.make(64 + random() % 1024 * (random() % 4)));
            std::shuffle(all.begin(), all.end(), random);
            for (std::size_t i = 0; i < all.size(); ++i) i < 100 ? kept.push_back(all[i]) : arrays.drop(all[i]);
            all.clear();
            for (int i = 0; i < 100; ++i) {
                all.push_back(arrays.make(kind.least_large + random() % (kind.most_large - kind.least_large + 1)));
            }
            for (const auto& array : all) arrays.drop(array);
        }
        CHECK(static_cast<double>(fake.figures().peak) <= kind.reserved * static_cast<double>(arrays.most));
        for (const auto& array : kept) arrays.drop(array);
    }
}

TEST_CASE("core pool: chunks are whole multiples of what the upstream takes memory in") {
    for (const std::size_t granularity : {2 * MiB, 3 * MiB}) {
        CAPTURE(granularity);
        FakeStream stream;
        const AddressPool fake(0, granularity);
        std::mt19937 random(4);
        std::vector<std::pair<std::uintptr_t, std::size_t>> live;
        for (int i = 0; i < 300; ++i) {
            const std::size_t nbytes = std::size_t{1} << (random() % 26);
            live.emplace_back(fake.take(nbytes, stream), nbytes);
            REQUIRE(live.back().first != 0);
        }
        CHECK(fake.owner.given.size() > 3);
        for (const auto& [ptr, nbytes] : fake.owner.given) CHECK(nbytes % granularity == 0);
        for (const auto& [address, nbytes] : live) REQUIRE(fake.give(address, nbytes, stream) == PORTAMEM_POOL_OK);
    }
}
