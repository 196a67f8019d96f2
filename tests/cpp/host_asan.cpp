// SPDX-License-Identifier: MIT
// tests/cpp/host_asan.cpp: under AddressSanitizer, what is written beside a block of a chunk ends the program.
#include "host_child.hpp"
#include "portamem/pool_annotator.h"

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

TEST_CASE("host asan: an off-by-one write into the block beside it dies") {
    if (sanitizer() == nullptr) return;  // this program was not built with it
    CHECK(succeeded(run_child("writes a block to its end")));
    CHECK_FALSE(succeeded(run_child("writes one byte beyond a block")));
    CHECK_FALSE(succeeded(run_child("reads a block that is free")));
}
