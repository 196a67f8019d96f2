// SPDX-License-Identifier: MIT
// tests/cpp/host_virtual_use.cpp: the CPU runtime's virtual memory beside copies, kernels, captures, forks, threads.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>

#include "host_virtual_support.hpp"
#include "portamem/detail/sanitizers.hpp"

using namespace host_tests;

namespace {

/// Unmaps memory that copies and fills use, before they run or while they do.
void unmap_under_copies(bool before_they_run) {
    const Knobs knobs;
    const DeviceMemory device(4 * granule);
    const std::size_t before = free_bytes();
    const Stream stream;
    {
        Latch latch;
        latch.hold(stream);
        HOST_OK(pmhKnobSetCopyDelay(1000));
        const Range range(4 * granule);
        const Physical memory(2 * granule), other(2 * granule);
        const Mapped low(range.at(0), memory), high(range.at(2 * granule), other);
        for (int i = 0; i < 8; ++i) {
            HOST_OK(pmhMemcpyAsync(device, range.ptr, 4 * granule, pmhMemcpyDefault, stream));
            HOST_OK(pmhMemcpyAsync(range.ptr, device, 4 * granule, pmhMemcpyDefault, stream));
            HOST_OK(pmhMemsetAsync(range.at(granule), i, 2 * granule, stream));
        }
        if (!before_they_run) latch.open();
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        HOST_OK(set_access(high.ptr, high.size, pmhMemAccessFlagsProtNone));
    }
    CHECK(free_bytes() == before);
    HOST_OK(pmhStreamSynchronize(stream));
}

}  // namespace

TEST_CASE("host virtual: copies that wait when their memory goes harm nothing") { unmap_under_copies(true); }

#if !PORTAMEM_THREAD_SANITIZER  // which reports the race, and is right
TEST_CASE("host virtual: copies that run when their memory goes harm nothing") { unmap_under_copies(false); }
#endif

TEST_CASE("host virtual: a capture forbids none of it") {
    const Stream stream;
    pmhGraph_t graph = nullptr;
    HOST_OK(pmhStreamBeginCapture(stream, pmhStreamCaptureModeGlobal));
    {
        const Range range(granule);
        const Physical memory(granule);
        const Mapped mapped(range.ptr, memory);
        HOST_OK(pmhMemsetAsync(range.ptr, 1, granule, stream));
    }
    HOST_OK(pmhStreamEndCapture(stream, &graph));
    std::size_t nodes = 0;
    HOST_OK(pmhGraphGetNodeCount(graph, &nodes));
    CHECK(nodes == 1);
    HOST_OK(pmhGraphDestroy(graph));
}

namespace {

std::uint64_t word(const void* ptr) { return reinterpret_cast<std::uint64_t>(ptr); }

// address, bytes, value, pinned word for the answer
void fill_if_reached(const pmhKernelBlock* block) {
    const std::uint64_t* words = block->arguments;
    const auto* ptr = reinterpret_cast<const void*>(words[0]);
    void* part = pmhKernelAddress(ptr, words[1]);
    if (part != nullptr) std::memset(part, static_cast<int>(words[2]), words[1]);
    auto* answer = pmhKernelAddress(reinterpret_cast<const void*>(words[3]), sizeof(int));
    *static_cast<int*>(answer) = part == nullptr ? 0 : 1;
}

bool kernel_fills(const void* ptr, std::size_t size, int value, int device = 0) {
    const PinnedMemory answer(sizeof(int));
    HOST_OK(pmhSetDevice(device));
    const std::uint64_t words[] = {word(ptr), size, static_cast<std::uint64_t>(value), word(answer.ptr)};
    HOST_OK(pmhLaunchKernel(fill_if_reached, 1, 1, words, 4, pmhLaunchDefault, nullptr));
    HOST_OK(pmhStreamSynchronize(nullptr));
    HOST_OK(pmhSetDevice(0));
    return *static_cast<int*>(answer.ptr) == 1;
}

}  // namespace

TEST_CASE("host virtual: kernels reach it where their device has access") {
    const Range range(4 * granule);
    const Physical first(granule), second(granule);
    const Mapped low(range.at(0), first), high(range.at(granule), second);
    CHECK(kernel_fills(range.at(10), 2 * granule - 20, 5));
    Bytes bytes(2 * granule, 5);
    std::fill_n(bytes.begin(), 10, static_cast<unsigned char>(0));
    std::fill_n(bytes.end() - 10, 10, static_cast<unsigned char>(0));
    CHECK(get(range.ptr, 2 * granule) == bytes);
    CHECK_FALSE(kernel_fills(range.at(granule), granule + 1, 6));
    CHECK_FALSE(kernel_fills(range.at(2 * granule), 1, 6));
    CHECK_FALSE(kernel_fills(range.ptr, granule, 6, 1));
    HOST_OK(set_access(range.ptr, granule, pmhMemAccessFlagsProtReadWrite, 1));
    CHECK(kernel_fills(range.ptr, 8, 7, 1));
    CHECK_FALSE(kernel_fills(range.ptr, granule + 1, 6, 1));
    CHECK(get(range.ptr, 8) == Bytes(8, 7));
    CHECK(get(range.at(granule), granule - 10) == Bytes(granule - 10, 5));
}

TEST_CASE("host virtual: a child of fork cannot write to the memory") {
    const Range range(granule);
    const Physical memory(granule);
    const Mapped mapped(range.ptr, memory);
    put(range.ptr, pattern(granule, 11));
    const pid_t child = fork();
    REQUIRE(child != -1);
    if (child == 0) {
        if (pmhMemUnmap(range.ptr, granule) != pmhErrorInitializationError) _exit(1);
        _exit(is_readable(range.ptr) ? 2 : 0);  // nothing of it is mapped here
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(get(range.ptr, granule) == pattern(granule, 11));
}

TEST_CASE("host virtual: threads map and unmap beside one another") {
    const std::size_t before = free_bytes();
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (unsigned number = 0; number < 4; ++number)
        threads.emplace_back([&wrong, number] {
            for (unsigned i = 0; i < 50; ++i) {
                void* ptr = nullptr;
                Handle handle = nullptr;
                const Bytes bytes = pattern(granule, number * 50 + i);
                Bytes found(granule);
                const bool right = pmhMemAddressReserve(&ptr, 2 * granule, 0, nullptr) == pmhSuccess &&
                                   pmhMemCreate(&handle, granule, on(0)) == pmhSuccess &&
                                   map(ptr, granule, handle) == pmhSuccess && pmhMemRelease(handle) == pmhSuccess &&
                                   set_access(ptr, granule) == pmhSuccess &&
                                   pmhMemcpy(ptr, bytes.data(), granule, pmhMemcpyDefault) == pmhSuccess &&
                                   pmhMemcpy(found.data(), ptr, granule, pmhMemcpyDefault) == pmhSuccess &&
                                   pmhMemUnmap(ptr, granule) == pmhSuccess &&
                                   pmhMemAddressFree(ptr, 2 * granule) == pmhSuccess && found == bytes;
                if (!right) ++wrong;
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(free_bytes() == before);
}
