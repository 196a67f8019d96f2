// SPDX-License-Identifier: MIT
// tests/cpp/host_asan.cpp: under AddressSanitizer, what is written beside a block of a chunk ends the program.
#include <algorithm>
#include <cstdlib>

#include "host_child.hpp"
#include "portamem/portamem.hpp"

using namespace host_tests;

namespace {

const portamem_pool_annotator* sanitizer() { return portamem_address_sanitizer(PORTAMEM_BACKEND_HOST, 0); }

/// Two blocks of 256 bytes in device memory, of which the second is free.
struct Blocks {
    DeviceMemory chunk{KiB};
    char* begin = static_cast<char*>(chunk.ptr);
    Blocks() {
        sanitizer()->chunk(begin, KiB);
        sanitizer()->used(begin, 256);
        sanitizer()->used(begin + 256, 100);
        sanitizer()->unused(begin + 256, 100);
    }
    ~Blocks() { sanitizer()->chunk_gone(begin, KiB); }
};

}  // namespace

TEST_CASE("host child: writes a block to its end" * doctest::skip()) {
    const Blocks blocks;
    HOST_OK(pmhMemset(blocks.begin, 1, 256));
    CHECK(get(blocks.begin, 256) == Bytes(256, 1));
}

TEST_CASE("host child: writes one byte beyond a block" * doctest::skip()) {
    const Blocks blocks;
    HOST_OK(pmhMemset(blocks.begin, 1, 257));
    HOST_OK(pmhDeviceSynchronize());
}

TEST_CASE("host child: reads a block that is free" * doctest::skip()) {
    const Blocks blocks;
    (void)get(blocks.begin + 256, 1);
}

namespace {

/// Three blocks of a pool one beside the other, of which the one in the middle is free.
struct Pooled {
    std::shared_ptr<portamem::PoolMemoryResource> pool =
        portamem::PoolMemoryResource::create(std::make_shared<portamem::PinnedMemoryResource>(0));
    std::shared_ptr<portamem::Stream> stream = portamem::Stream::create(0);
    std::vector<unsigned char*> blocks;

    Pooled() {
        for (int i = 0; i < 64; ++i) blocks.push_back(static_cast<unsigned char*>(pool->allocate(256, stream)));
        std::sort(blocks.begin(), blocks.end());
        for (std::size_t i = 1; i + 1 < blocks.size(); ++i) {
            if (blocks[i + 1] - blocks[i - 1] != 512) continue;
            blocks = {blocks[i - 1], blocks[i], blocks[i + 1]};
            pool->deallocate(blocks[1], 256, stream);
            return;
        }
        std::_Exit(0);  // a failure of these tests, which expect to die
    }
};

}  // namespace

TEST_CASE("host child: uses pooled blocks to their ends" * doctest::skip()) {
    const Pooled pooled;
    pooled.blocks[0][255] = 1;
    pooled.blocks[2][0] = 1;
    HOST_OK(pmhMemset(pooled.blocks[0], 1, 256));
    auto* again = static_cast<unsigned char*>(pooled.pool->allocate(100, pooled.stream));
    again[0] = again[99] = 1;
    pooled.pool->deallocate(again, 100, pooled.stream);
    CHECK(pooled.pool->live_buffers() == 63);
}

TEST_CASE("host child: writes beyond a pooled block" * doctest::skip()) {
    const Pooled pooled;
    static_cast<volatile unsigned char*>(pooled.blocks[0])[256] = 1;
}

TEST_CASE("host child: writes before a pooled block" * doctest::skip()) {
    const Pooled pooled;
    static_cast<volatile unsigned char*>(pooled.blocks[2])[-1] = 1;
}

TEST_CASE("host child: writes beyond what was asked for" * doctest::skip()) {
    const Pooled pooled;
    auto* block = static_cast<unsigned char*>(pooled.pool->allocate(100, pooled.stream));
    static_cast<volatile unsigned char*>(block)[100] = 1;
}

TEST_CASE("host child: fills beyond a pooled block on a stream" * doctest::skip()) {
    const Pooled pooled;
    HOST_OK(pmhMemsetAsync(pooled.blocks[0], 1, 257, pooled.stream->handle()));
    pooled.stream->synchronize();
}

TEST_CASE("host child: uses a pooled block that was freed" * doctest::skip()) {
    const Pooled pooled;
    static_cast<volatile unsigned char*>(pooled.blocks[1])[0] = 1;
}

TEST_CASE("host child: queued work uses a block that was freed behind it" * doctest::skip()) {
    const Pooled pooled;
    Latch latch;
    latch.hold(pooled.stream->handle());
    for (int i = 0; i < 20; ++i) HOST_OK(pmhMemsetAsync(pooled.blocks[0], i, 256, pooled.stream->handle()));
    pooled.pool->deallocate(pooled.blocks[0], 256, pooled.stream);
    for (int i = 0; i < 5; ++i)
        pooled.pool->deallocate(pooled.pool->allocate(4096, pooled.stream), 4096, pooled.stream);
    latch.open();
    pooled.stream->synchronize();
    pooled.pool->trim();
    void* chunk = pooled.pool->upstream()->allocate(MiB, pooled.stream);  // perhaps where the pool's was
    std::fill_n(static_cast<unsigned char*>(chunk), MiB, static_cast<unsigned char>(1));
    pooled.pool->upstream()->deallocate(chunk, MiB, pooled.stream);
}

TEST_CASE("host asan: what is written beside a pooled block, or after its free, dies; all else lives") {
    CHECK(succeeded(run_child("uses pooled blocks to their ends")));
    CHECK(succeeded(run_child("queued work uses a block that was freed behind it")));
    if (sanitizer() == nullptr) return;
    for (const char* name :
         {"writes beyond a pooled block", "writes before a pooled block", "writes beyond what was asked for",
          "fills beyond a pooled block on a stream", "uses a pooled block that was freed"}) {
        CAPTURE(std::string(name));
        CHECK_FALSE(succeeded(run_child(name)));
    }
}

TEST_CASE("host asan: an off-by-one write into the block beside it dies") {
    if (sanitizer() == nullptr) return;  // this program was not built with it
    // Guarded device memory is written by another address than the one that the sanitizer is told of.
    const Environment open = {{"PORTAMEM_HOST_GUARD", "0"}};
    CHECK(succeeded(run_child("writes a block to its end", open)));
    CHECK_FALSE(succeeded(run_child("writes one byte beyond a block", open)));
    CHECK_FALSE(succeeded(run_child("reads a block that is free", open)));
}

TEST_CASE("host asan: runs of bytes are told as the sanitizer was told of them") {
    DeviceMemory memory(KiB);
    char* const begin = static_cast<char*>(memory.ptr);
    int is_unused = 2;
    CHECK(portamem_address_sanitizer_run(PORTAMEM_BACKEND_HOST, begin, KiB, &is_unused) == KiB);
    CHECK(is_unused == 0);
    if (sanitizer() == nullptr) return;
    sanitizer()->chunk(begin, KiB);
    sanitizer()->used(begin, 101);
    sanitizer()->used(begin + 256, 256);
    const std::size_t ends[] = {101, 256, 512, KiB};
    std::size_t at = 0;
    for (int run = 0; run < 4; ++run) {
        CHECK(portamem_address_sanitizer_run(PORTAMEM_BACKEND_HOST, begin + at, KiB - at, &is_unused) ==
              ends[run] - at);
        CHECK(is_unused == run % 2);
        at = ends[run];
    }
    CHECK(portamem_address_sanitizer_run(PORTAMEM_BACKEND_CUDA, begin, KiB, &is_unused) == KiB);  // it sees no device
    CHECK(is_unused == 0);
    sanitizer()->chunk_gone(begin, KiB);
}
