// SPDX-License-Identifier: MIT
// tests/cpp/host_kernel.cpp: kernels of the CPU runtime: their order, and which memory they reach.
#include <cstring>
#include <initializer_list>

#include "host_support.hpp"

using namespace host_tests;

namespace {

std::uint64_t word(const void* ptr) { return reinterpret_cast<std::uint64_t>(ptr); }

pmhError_t launch(pmhKernelFn_t kernel, std::initializer_list<std::uint64_t> words, pmhStream_t stream,
                  unsigned blocks = 1, unsigned threads = 1, unsigned flags = pmhLaunchDefault) {
    return pmhLaunchKernel(kernel, blocks, threads, words.begin(), words.size(), flags, stream);
}

void* at(std::uint64_t address, std::size_t size = 1) {
    return pmhKernelAddress(reinterpret_cast<const void*>(address), size);
}

// address, bytes of each block
void write_index(const pmhKernelBlock* block) {
    const std::uint64_t* words = block->arguments;
    void* part = at(words[0] + block->index * words[1], words[1]);
    if (part != nullptr) std::memset(part, static_cast<int>(block->index + block->count + block->threads), words[1]);
}

// pinned word for the answer, address, bytes
void is_reached(const pmhKernelBlock* block) {
    const std::uint64_t* words = block->arguments;
    *static_cast<int*>(at(words[0], sizeof(int))) = at(words[1], words[2]) == nullptr ? 0 : 1;
}

/// True where a kernel on a device finds `size` bytes at an address.
bool reached(const void* ptr, std::size_t size, int device = 0) {
    PinnedMemory answer(sizeof(int));
    auto* value = static_cast<int*>(answer.ptr);
    *value = -1;
    int before = 0;
    HOST_OK(pmhGetDevice(&before));
    HOST_OK(pmhSetDevice(device));
    HOST_OK(launch(is_reached, {word(value), word(ptr), size}, nullptr));
    HOST_OK(pmhStreamSynchronize(nullptr));
    HOST_OK(pmhSetDevice(before));
    REQUIRE(*value >= 0);
    return *value == 1;
}

}  // namespace

TEST_CASE("host kernels: every block runs, and reaches memory of each kind") {
    constexpr std::size_t part = 100;
    const Stream stream;
    const DeviceMemory device(10 * part);
    const PinnedMemory pinned(10 * part);
    const ManagedMemory managed(10 * part);
    void* pooled = nullptr;
    HOST_OK(pmhMallocAsync(&pooled, 10 * part, stream));
    for (void* memory : {device.ptr, pinned.ptr, managed.ptr, pooled}) {
        HOST_OK(launch(write_index, {word(memory), part}, stream, 10, 7));
        HOST_OK(pmhStreamSynchronize(stream));
        Bytes expected;
        for (unsigned char block = 0; block < 10; ++block)
            expected.insert(expected.end(), part, static_cast<unsigned char>(block + 17));
        CHECK(get(memory, 10 * part) == expected);
    }
    HOST_OK(pmhFreeAsync(pooled, stream));
}

TEST_CASE("host kernels: a launch is work of its stream") {
    Latch latch;
    const Stream stream;
    const DeviceMemory memory(KiB);
    put(memory, Bytes(KiB, 0));
    latch.hold(stream);
    HOST_OK(launch(write_index, {word(memory.ptr), KiB}, stream));
    CHECK(pmhStreamQuery(stream) == pmhErrorNotReady);
    CHECK(peek(memory, KiB) == Bytes(KiB, 0));
    latch.open();
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(get(memory, KiB) == Bytes(KiB, 2));
}

TEST_CASE("host kernels: memory of the arguments stays until they have run") {
    Latch latch;
    const Stream stream;
    const PinnedMemory answer(sizeof(int));
    auto* value = static_cast<int*>(answer.ptr);
    *value = -1;
    void* memory = nullptr;
    HOST_OK(pmhMalloc(&memory, KiB));
    latch.hold(stream);
    HOST_OK(launch(is_reached, {word(value), word(memory), KiB}, stream));
    HOST_OK(pmhFree(memory));
    latch.open();
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(*value == 1);
    // Asked without an allocation, which might be where the memory was. To a device that reaches ordinary memory, an
    // address of no allocation is the host's.
    int pageable = 0;
    HOST_OK(pmhDeviceGetAttribute(&pageable, pmhDevAttrPageableMemoryAccess, 0));
    HOST_OK(launch(is_reached, {word(value), word(memory), KiB}, stream));
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(*value == pageable);
}

TEST_CASE("host kernels: only memory of one allocation is found") {
    const DeviceMemory memory(KiB);
    CHECK(reached(memory.at(0), KiB));
    CHECK(reached(memory.at(KiB - 1), 1));
    CHECK_FALSE(reached(memory.at(0), KiB + 1));
    CHECK_FALSE(reached(memory.at(KiB - 1), 2));
    CHECK_FALSE(reached(memory.at(KiB), 1));
    CHECK_FALSE(reached(memory.at(16), SIZE_MAX - 8));
    CHECK_FALSE(reached(nullptr, 1));
    int pageable = 0, on_the_stack = 0;
    HOST_OK(pmhDeviceGetAttribute(&pageable, pmhDevAttrPageableMemoryAccess, 0));
    CHECK(reached(&on_the_stack, sizeof on_the_stack) == (pageable == 1));
}

TEST_CASE("host kernels: another device's memory takes a peer, or a pool that is open to it") {
    void* plain = nullptr;
    void* pooled = nullptr;
    HOST_OK(pmhSetDevice(1));
    const Pool pool(0, 1);
    HOST_OK(pmhMalloc(&plain, KiB));
    HOST_OK(pmhMallocFromPoolAsync(&pooled, KiB, pool, nullptr));
    HOST_OK(pmhStreamSynchronize(nullptr));
    HOST_OK(pmhSetDevice(0));
    CHECK_FALSE(reached(plain, KiB));
    CHECK_FALSE(reached(pooled, KiB));
    CHECK(reached(plain, KiB, 1));
    HOST_OK(pmhDeviceEnablePeerAccess(1, 0));
    CHECK(reached(plain, KiB));
    CHECK_FALSE(reached(pooled, KiB));
    HOST_OK(pmhDeviceDisablePeerAccess(1));
    HOST_OK(pmhMemPoolSetAccess(pool, {pmhMemLocationTypeDevice, 0}, pmhMemAccessFlagsProtReadWrite));
    CHECK_FALSE(reached(plain, KiB));
    CHECK(reached(pooled, KiB));
    HOST_OK(pmhFree(plain));
    HOST_OK(pmhFree(pooled));
}

TEST_CASE("host kernels: they may not call the runtime") {
    const Stream stream;
    const PinnedMemory answer(sizeof(int));
    const auto kernel = [](const pmhKernelBlock* block) {
        void* ptr = nullptr;
        *static_cast<int*>(at(block->arguments[0], sizeof(int))) = static_cast<int>(pmhMalloc(&ptr, 16));
    };
    HOST_OK(launch(kernel, {word(answer.ptr)}, stream));
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(*static_cast<int*>(answer.ptr) == pmhErrorNotPermitted);
}

TEST_CASE("host kernels: nothing of theirs works outside, and no heap without the flag") {
    const DeviceMemory memory(KiB);
    CHECK(pmhKernelAddress(memory, 1) == nullptr);
    CHECK(pmhKernelMalloc(16) == nullptr);
    CHECK(pmhKernelMallocAligned(64, 16) == nullptr);
    pmhKernelFree(memory);
    const Stream stream;
    const PinnedMemory answer(sizeof(int));
    const auto kernel = [](const pmhKernelBlock* block) {
        *static_cast<int*>(at(block->arguments[0], sizeof(int))) = pmhKernelMalloc(16) == nullptr ? 1 : 2;
    };
    HOST_OK(launch(kernel, {word(answer.ptr)}, stream));
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(*static_cast<int*>(answer.ptr) == 1);
}

TEST_CASE("host kernels: refusals") {
    const Stream stream;
    const std::uint64_t none = 0;
    CHECK(pmhLaunchKernel(nullptr, 1, 1, &none, 1, 0, stream) == pmhErrorInvalidValue);
    CHECK(pmhLaunchKernel(write_index, 0, 1, &none, 1, 0, stream) == pmhErrorInvalidValue);
    CHECK(pmhLaunchKernel(write_index, 1, 0, &none, 1, 0, stream) == pmhErrorInvalidValue);
    CHECK(pmhLaunchKernel(write_index, 1, 1, nullptr, 1, 0, stream) == pmhErrorInvalidValue);
    CHECK(pmhLaunchKernel(write_index, 1, 1, &none, 1, 2, stream) == pmhErrorInvalidValue);
    CHECK(launch(write_index, {0, 0}, reinterpret_cast<pmhStream_t>(0x1234)) == pmhErrorInvalidHandle);
    HOST_OK(pmhSetDevice(1));
    CHECK(launch(write_index, {0, 0}, stream) == pmhErrorInvalidHandle);
    HOST_OK(pmhSetDevice(0));
}

TEST_CASE("host kernels: a captured launch is a node and does not run") {
    const Stream stream;
    const DeviceMemory memory(KiB);
    put(memory, Bytes(KiB, 0));
    HOST_OK(pmhStreamBeginCapture(stream, pmhStreamCaptureModeThreadLocal));
    HOST_OK(launch(write_index, {word(memory.ptr), KiB}, stream));
    pmhGraph_t graph = nullptr;
    HOST_OK(pmhStreamEndCapture(stream, &graph));
    std::size_t nodes = 0;
    HOST_OK(pmhGraphGetNodeCount(graph, &nodes));
    CHECK(nodes == 1);
    HOST_OK(pmhGraphDestroy(graph));
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(get(memory, KiB) == Bytes(KiB, 0));
}
