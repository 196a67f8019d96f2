// SPDX-License-Identifier: MIT
// tests/cpp/pm_pool_annotations.cpp: a memory checker is told of blocks in stream order.
#include <vector>

#include "pm_support.hpp"
#include "portamem/detail/sanitizers.hpp"

namespace {

using pm::detail::PoolAnnotations;

/// A memory checker that keeps one flag for each byte of a chunk.
struct Checker {
    static inline std::vector<char> bytes;
    static inline char* begin = nullptr;

    static void mark(void* ptr, std::size_t nbytes, char to) {
        const auto at = static_cast<std::size_t>(static_cast<char*>(ptr) - begin);
        REQUIRE(at + nbytes <= bytes.size());
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), nbytes, to);
    }
    static void chunk(void* ptr, std::size_t nbytes) {
        begin = static_cast<char*>(ptr);
        bytes.assign(nbytes, 'x');
    }
    static void chunk_gone(void* ptr, std::size_t nbytes) { mark(ptr, nbytes, '-'); }
    static void used(void* ptr, std::size_t nbytes) { mark(ptr, nbytes, 'u'); }
    static void unused(void* ptr, std::size_t nbytes) { mark(ptr, nbytes, 'x'); }

    static const portamem_pool_annotator& table() {
        static const portamem_pool_annotator functions{sizeof functions, chunk, chunk_gone, used, unused};
        return functions;
    }
    /// The state of bytes [first, last) where all are alike, '?' otherwise.
    static char state(std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
            if (bytes[i] != bytes[first]) return '?';
        }
        return bytes[first];
    }
};

struct Chunk {
    std::vector<char> memory = std::vector<char>(4096);
    PoolAnnotations annotations{Checker::table()};
    StreamPtr stream = pm::Stream::create(0);

    Chunk() { annotations.chunk(memory.data(), memory.size()); }
    char* at(std::size_t offset) { return memory.data() + offset; }
    void take(std::size_t offset, std::size_t nbytes) { annotations.used(at(offset), nbytes); }
    void give(std::size_t offset, std::size_t nbytes) {
        annotations.give_back(at(offset), nbytes, *stream, [] {});
    }
    /// Any call looks for what has happened.
    void look() {
        take(4000, 1);
        give(4000, 1);
    }
    bool becomes(char state, std::size_t first, std::size_t last) {
        return eventually([&] {
            look();
            return Checker::state(first, last) == state;
        });
    }
};

}  // namespace

TEST_CASE("pm pool annotations: a chunk is out of bounds but for what is out, byte by byte") {
    if (no_device()) return;
    Chunk chunk;
    CHECK(Checker::state(0, 4096) == 'x');
    chunk.take(256, 100);
    CHECK(Checker::state(0, 256) == 'x');
    CHECK(Checker::state(256, 356) == 'u');
    CHECK(Checker::state(356, 4000) == 'x');
    chunk.give(256, 100);
    CHECK(chunk.becomes('x', 256, 356));
    chunk.annotations.chunk_gone(chunk.at(0), 4096);
    CHECK(Checker::state(0, 4096) == '-');
}

TEST_CASE("pm pool annotations: a freed block stays in bounds until the work before the free has run") {
    if (no_device()) return;
    Chunk chunk;
    chunk.take(0, 256);
    {
        const Gate gate(chunk.stream);
        chunk.give(0, 256);
        for (int i = 0; i < 5; ++i) chunk.look();
        CHECK(Checker::state(0, 256) == 'u');
        gate.open();
    }
    CHECK(chunk.becomes('x', 0, 256));
}

TEST_CASE("pm pool annotations: handed out again in time, it never goes out of bounds; what is left of it does") {
    if (no_device()) return;
    Chunk chunk;
    chunk.take(0, 1024);
    const Gate gate(chunk.stream);
    chunk.give(0, 1024);
    chunk.take(256, 300);
    CHECK(Checker::state(0, 1024) == 'u');
    gate.open();
    CHECK(chunk.becomes('x', 0, 256));
    CHECK(chunk.becomes('x', 556, 1024));
    CHECK(Checker::state(256, 556) == 'u');
    chunk.give(256, 300);
    CHECK(chunk.becomes('x', 256, 556));
}

TEST_CASE("pm pool annotations: what the pool refuses changes nothing") {
    if (no_device()) return;
    Chunk chunk;
    chunk.take(0, 256);
    const auto refuse = [] { throw std::invalid_argument("refused"); };
    CHECK_THROWS_AS(chunk.annotations.give_back(chunk.at(0), 128, *chunk.stream, refuse), std::invalid_argument);
    CHECK_THROWS_AS(chunk.annotations.give_back(chunk.at(128), 128, *chunk.stream, refuse), std::invalid_argument);
    CHECK_THROWS_AS(chunk.annotations.give_back(chunk.at(0), 256, *chunk.stream, refuse), std::invalid_argument);
    for (int i = 0; i < 3; ++i) chunk.look();
    CHECK(Checker::state(0, 256) == 'u');
    chunk.give(0, 256);
    CHECK(chunk.becomes('x', 0, 256));
    CHECK_THROWS_AS(chunk.annotations.give_back(chunk.at(0), 256, *chunk.stream, refuse), std::invalid_argument);
    CHECK(Checker::state(0, 256) == 'x');
}

TEST_CASE("pm pool annotations: a chunk that goes back takes what is pending with it") {
    if (no_device()) return;
    Chunk chunk;
    chunk.take(0, 256);
    const Gate gate(chunk.stream);
    chunk.give(0, 256);
    chunk.annotations.chunk_gone(chunk.at(0), 2048);
    gate.open();
    chunk.stream->synchronize();
    for (int i = 0; i < 3; ++i) chunk.look();
    CHECK(Checker::state(0, 2048) == '-');
}

TEST_CASE("pm pool annotations: many freed blocks are all looked at in time") {
    if (no_device()) return;
    Chunk chunk;
    for (std::size_t i = 0; i < 60; ++i) chunk.take(i * 64, 64);
    const Gate gate(chunk.stream);
    for (std::size_t i = 0; i < 60; ++i) chunk.give(i * 64, 64);
    CHECK(Checker::state(0, 60 * 64) == 'u');
    gate.open();
    CHECK(chunk.becomes('x', 0, 60 * 64));
}

TEST_CASE("pm pool annotations: no checker, nothing to tell") {
    if (no_device()) return;
    pm::MemoryTraits traits;
    traits.host_accessible = true;
    const bool watched = portamem_address_sanitizer(rt::BackendId, 1) != nullptr;
    traits.kind = pm::ResourceKind::Pinned;
    CHECK((PoolAnnotations::of(traits) != nullptr) == watched);
#if PORTAMEM_ADDRESS_SANITIZER
    CHECK(watched);
#endif
}

TEST_CASE("pm pool annotations: where nobody turns out to listen, nothing is told, kept or marked") {
    if (no_device()) return;
    static int told = 0;
    const auto tell = [](void*, std::size_t) { ++told; };
    const portamem_pool_annotator table{sizeof table, tell, tell, tell, tell};
    pm::detail::CheckedRegions::Calls calls;
    calls.announced = [] { return false; };
    pm::detail::CheckedRegions regions(calls);
    PoolAnnotations annotations(table, &regions);
    CHECK(annotations.is_heard());  // perhaps
    CHECK_FALSE(annotations.is_followed());
    std::vector<char> memory(4096);
    regions.chunk(memory.data(), memory.size());
    CHECK_FALSE(annotations.is_heard());

    auto stream = pm::Stream::create(0);
    annotations.used(memory.data(), 100);
    int gone = 0;
    annotations.give_back(memory.data(), 100, *stream, [&] { ++gone; });
    CHECK(gone == 1);
    // The runtime would refuse a mark on a stream that is captured: portamem does not try to make one.
    annotations.used(memory.data(), 100);
    stream->begin_capture(rt::StreamCaptureMode::Relaxed);
    annotations.give_back(memory.data(), 100, *stream, [&] { ++gone; });
    stream->end_capture();
    CHECK(gone == 2);
    CHECK(told == 0);
}

TEST_CASE("pm pool annotations: a pool that no checker follows takes the short way after its first chunk") {
    if (no_device()) return;
    pm::PoolOptions at_once;  // on every machine what a stream has freed is at hand for it
    at_once.host_access = false;
    auto pool = pm::PoolMemoryResource::create(std::make_shared<pm::DeviceMemoryResource>(0), at_once);
    auto stream = pm::Stream::create(0);
    void* const first = pool->allocate(1000, stream);
    const auto& regions = pm::detail::CheckedRegions::instance();
    const bool followed = regions.listener() == pm::detail::CheckedRegions::Listener::Checker;
    const bool watched = followed || portamem_address_sanitizer(rt::BackendId, 0) != nullptr;
    CHECK(pool->deallocate_cached(first, 1000, stream) == !watched);
    if (watched) pool->deallocate(first, 1000, stream);
    void* const second = pool->allocate_cached(1000, stream);
    CHECK((second != nullptr) == !watched);
    if (second != nullptr) pool->deallocate(second, 1000, stream);
    stream->synchronize();
}
