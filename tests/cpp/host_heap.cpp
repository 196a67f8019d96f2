// SPDX-License-Identifier: MIT
// tests/cpp/host_heap.cpp: the heap that kernels of the CPU runtime allocate from. A process has it once for each
// device, so that every case is a process of its own.
#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "host_child.hpp"

using namespace host_tests;

namespace {

constexpr std::size_t kSize = MiB;

std::uint64_t word(const void* ptr) { return reinterpret_cast<std::uint64_t>(ptr); }

std::size_t limit() {
    std::size_t value = 0;
    HOST_OK(pmhDeviceGetLimit(&value, pmhLimitMallocHeapSize));
    return value;
}

pmhError_t launch(pmhKernelFn_t kernel, std::initializer_list<std::uint64_t> words, pmhStream_t stream = nullptr) {
    return pmhLaunchKernel(kernel, 1, 1, words.begin(), words.size(), pmhLaunchUsesHeap, stream);
}

template <class T>
T* at(std::uint64_t address, std::size_t count = 1) {
    return static_cast<T*>(pmhKernelAddress(reinterpret_cast<const void*>(address), count * sizeof(T)));
}

void nothing(const pmhKernelBlock*) {}

// pinned table, count, bytes of each, alignment
void allocate_all(const pmhKernelBlock* block) {
    const std::uint64_t* words = block->arguments;
    auto* table = at<void*>(words[0], words[1]);
    for (std::uint64_t i = 0; i < words[1]; ++i)
        table[i] = words[3] == 0 ? pmhKernelMalloc(words[2]) : pmhKernelMallocAligned(words[3], words[2]);
}

// pinned table, count
void free_all(const pmhKernelBlock* block) {
    const std::uint64_t* words = block->arguments;
    auto* table = at<void*>(words[0], words[1]);
    for (std::uint64_t i = 0; i < words[1]; ++i) pmhKernelFree(table[i]);
}

// pinned table, count, bytes of each
void write_all(const pmhKernelBlock* block) {
    const std::uint64_t* words = block->arguments;
    auto* table = at<void*>(words[0], words[1]);
    for (std::uint64_t i = 0; i < words[1]; ++i)
        std::memset(at<char>(word(table[i]), words[2]), static_cast<int>(i + 1), words[2]);
}

// pinned table, count, bytes of each, pinned number of wrong bytes
void compare_all(const pmhKernelBlock* block) {
    const std::uint64_t* words = block->arguments;
    auto* table = at<void*>(words[0], words[1]);
    auto* wrong = at<std::uint64_t>(words[3]);
    for (std::uint64_t i = 0; i < words[1]; ++i) {
        const char* bytes = at<char>(word(table[i]), words[2]);
        for (std::uint64_t n = 0; n < words[2]; ++n) *wrong += bytes == nullptr || bytes[n] != static_cast<char>(i + 1);
    }
}

/// Allocations that a kernel made.
struct Table {
    std::size_t count;
    PinnedMemory memory{count * sizeof(void*)};

    void** begin() const { return static_cast<void**>(memory.ptr); }
    void** end() const { return begin() + count; }
    std::size_t nulls() const { return static_cast<std::size_t>(std::count(begin(), end(), nullptr)); }

    void allocate(std::size_t size, std::size_t align = 0) const {
        HOST_OK(launch(allocate_all, {word(memory.ptr), count, size, align}));
        HOST_OK(pmhStreamSynchronize(nullptr));
    }
    void free() const {
        HOST_OK(launch(free_all, {word(memory.ptr), count}));
        HOST_OK(pmhStreamSynchronize(nullptr));
    }
};

void set_limit() { HOST_OK(pmhDeviceSetLimit(pmhLimitMallocHeapSize, kSize)); }

}  // namespace

TEST_CASE("host child: settles the size of the heap" * doctest::skip()) {
    CHECK(limit() == 8 * MiB);
    const std::size_t before = free_bytes();
    set_limit();
    CHECK(free_bytes() == before);
    HOST_OK(pmhLaunchKernel(nothing, 1, 1, nullptr, 0, pmhLaunchDefault, nullptr));
    CHECK(free_bytes() == before);
    HOST_OK(launch(nothing, {}));
    CHECK(free_bytes() == before - kSize);
    HOST_OK(launch(nothing, {}));
    CHECK(free_bytes() == before - kSize);
    CHECK(pmhDeviceSetLimit(pmhLimitMallocHeapSize, 2 * kSize) == pmhErrorInvalidValue);
    CHECK(pmhDeviceSetLimit(pmhLimitMallocHeapSize, kSize) == pmhErrorInvalidValue);
    CHECK(limit() == kSize);
    HOST_OK(pmhDeviceSetLimit(pmhLimitStackSize, 2048));
    HOST_OK(pmhSetDevice(1));
    HOST_OK(pmhDeviceSetLimit(pmhLimitMallocHeapSize, 2 * kSize));
    CHECK(limit() == 2 * kSize);
}

TEST_CASE("host child: has no room for the heap" * doctest::skip()) {
    HOST_OK(pmhDeviceSetLimit(pmhLimitMallocHeapSize, 2 * MiB));
    void* ptr = nullptr;
    HOST_OK(pmhMalloc(&ptr, 3 * MiB));
    const std::size_t before = free_bytes();
    CHECK(launch(nothing, {}) == pmhErrorOutOfMemory);
    CHECK(detail().find("heap") != std::string::npos);
    CHECK(free_bytes() == before);
    HOST_OK(pmhLaunchKernel(nothing, 1, 1, nullptr, 0, pmhLaunchDefault, nullptr));
    HOST_OK(pmhDeviceSetLimit(pmhLimitMallocHeapSize, MiB));
    HOST_OK(pmhFree(ptr));
    HOST_OK(launch(nothing, {}));
    CHECK(free_bytes() == 3 * MiB);
}

TEST_CASE("host child: begins to use the heap beside a capture" * doctest::skip()) {
    const Stream stream;
    HOST_OK(pmhStreamBeginCapture(stream, pmhStreamCaptureModeGlobal));
    const std::size_t before = free_bytes();
    CHECK(launch(nothing, {}, stream) == pmhErrorStreamCaptureUnsupported);
    CHECK(free_bytes() == before);
    pmhGraph_t graph = nullptr;
    CHECK(pmhStreamEndCapture(stream, &graph) == pmhErrorStreamCaptureInvalidated);
    HOST_OK(launch(nothing, {}, stream));
    HOST_OK(pmhStreamBeginCapture(stream, pmhStreamCaptureModeGlobal));
    HOST_OK(launch(nothing, {}, stream));
    HOST_OK(pmhStreamEndCapture(stream, &graph));
    HOST_OK(pmhGraphDestroy(graph));
}

TEST_CASE("host child: allocates from the heap" * doctest::skip()) {
    set_limit();
    for (const std::size_t align : {0u, 1u, 16u, 64u, 4096u}) {
        const Table table{50};
        table.allocate(100, align);
        CHECK(table.nulls() == 0);
        std::vector<std::uint64_t> addresses;
        for (const void* each : table) addresses.push_back(word(each));
        std::sort(addresses.begin(), addresses.end());
        for (std::size_t i = 0; i < addresses.size(); ++i) {
            CHECK(addresses[i] % std::max<std::size_t>(align, 16) == 0);
            if (i > 0) CHECK(addresses[i] - addresses[i - 1] >= 100);
        }
        table.free();
    }
    const Table odd{1};
    odd.allocate(16, 48);
    CHECK(odd.nulls() == 1);
}

TEST_CASE("host child: exhausts the heap" * doctest::skip()) {
    set_limit();
    const Table whole{1};
    whole.allocate(kSize);
    CHECK(whole.nulls() == 0);
    const Table one{1};
    one.allocate(1);
    CHECK(one.nulls() == 1);
    whole.free();
    for (int turn = 0; turn < 3; ++turn) {
        const Table many{300};
        many.allocate(4096);
        CHECK(many.nulls() == 300 - kSize / 4096);
        // The test frees in another order than it allocated: neighbours merge from both sides.
        std::reverse(many.begin(), many.end());
        std::rotate(many.begin(), many.begin() + 101, many.end());
        many.free();
    }
    whole.allocate(kSize);
    CHECK(whole.nulls() == 0);
    whole.free();
    one.allocate(kSize + 1);
    CHECK(one.nulls() == 1);
    one.allocate(SIZE_MAX);
    CHECK(one.nulls() == 1);
}

TEST_CASE("host child: keeps memory of the heap across kernels" * doctest::skip()) {
    set_limit();
    const Table table{40};
    const PinnedMemory wrong(sizeof(std::uint64_t));
    auto* count = static_cast<std::uint64_t*>(wrong.ptr);
    *count = 0;
    table.allocate(1000);
    const Stream other;
    HOST_OK(launch(write_all, {word(table.memory.ptr), 40, 1000}, other));
    HOST_OK(pmhStreamSynchronize(other));
    HOST_OK(launch(compare_all, {word(table.memory.ptr), 40, 1000, word(count)}));
    HOST_OK(pmhStreamSynchronize(nullptr));
    CHECK(*count == 0);
    HOST_OK(launch(compare_all, {word(table.memory.ptr), 40, 1017, word(count)}));
    HOST_OK(pmhStreamSynchronize(nullptr));
    CHECK_MESSAGE(*count > 0, "what lies beyond an allocation is not found");
    table.free();
    *count = 0;
    HOST_OK(launch(compare_all, {word(table.memory.ptr), 40, 1000, word(count)}));
    HOST_OK(pmhStreamSynchronize(nullptr));
    CHECK_MESSAGE(*count == 40 * 1000, "what was freed is not found");
}

TEST_CASE("host child: gives addresses of the heap to calls of the host" * doctest::skip()) {
    set_limit();
    const Table table{1};
    table.allocate(KiB);
    void* heap = *table.begin();
    const Stream stream;
    Bytes bytes(64);
    const DeviceMemory device(64);
    const auto refused = [](pmhError_t answer) {
        CHECK(answer == pmhErrorInvalidValue);
        CHECK(detail().find("heap of kernels") != std::string::npos);
    };
    for (char* ptr : {static_cast<char*>(heap), static_cast<char*>(heap) + 500, static_cast<char*>(heap) + 2 * KiB}) {
        refused(pmhFree(ptr));
        refused(pmhHostFree(ptr));
        refused(pmhFreeAsync(ptr, stream));
        refused(pmhMemcpy(bytes.data(), ptr, 64, pmhMemcpyDefault));
        refused(pmhMemcpy(ptr, bytes.data(), 64, pmhMemcpyHostToDevice));
        refused(pmhMemcpyAsync(ptr, device, 64, pmhMemcpyDeviceToDevice, stream));
        refused(pmhMemcpy2D(bytes.data(), 8, ptr, 8, 8, 8, pmhMemcpyDefault));
        refused(pmhMemcpyPeer(device, 0, ptr, 0, 64));
        refused(pmhMemset(ptr, 1, 64));
        refused(pmhMemsetAsync(ptr, 1, 64, stream));
        refused(pmhHostRegister(ptr, 64, 0));
        CHECK(pmhHostUnregister(ptr) == pmhErrorHostMemoryNotRegistered);
        CHECK(pmhMemPrefetchAsync(ptr, 64, {pmhMemLocationTypeDevice, 0}, 0, stream) == pmhErrorInvalidValue);
        CHECK(pmhMemAdvise(ptr, 64, pmhMemAdviseSetReadMostly, {}) == pmhErrorInvalidValue);
        unsigned flags = 0;
        CHECK(pmhHostGetFlags(&flags, ptr) == pmhErrorInvalidValue);
        pmhPointerAttributes attributes{};
        HOST_OK(pmhPointerGetAttributes(&attributes, ptr));
        CHECK(attributes.type == pmhMemoryTypeUnregistered);
        CHECK(attributes.base == nullptr);
    }
    table.free();
}

TEST_CASE("host child: frees what is not in the heap" * doctest::skip()) {
    set_limit();
    const DeviceMemory plain(KiB);
    const Table table{2};
    table.allocate(KiB);
    void* kept[2] = {table.begin()[0], table.begin()[1]};
    table.begin()[0] = nullptr;
    table.begin()[1] = plain;
    table.free();
    table.begin()[0] = static_cast<char*>(kept[0]) + 16;
    table.free();
    put(plain, pattern(KiB, 3));
    table.begin()[0] = kept[0];
    table.begin()[1] = kept[1];
    HOST_OK(launch(write_all, {word(table.memory.ptr), 2, KiB}));
    HOST_OK(pmhStreamSynchronize(nullptr));
    CHECK(get(plain, KiB) == pattern(KiB, 3));
    table.free();
}

TEST_CASE("host child: uses the heap from many streams at once" * doctest::skip()) {
    set_limit();
    const auto churn = [](const pmhKernelBlock* block) {
        auto* wrong = at<std::uint64_t>(block->arguments[0]);
        for (unsigned turn = 0; turn < 300; ++turn) {
            const std::size_t size = 16 + (turn * 37 + block->arguments[1] * 101) % 4000;
            void* ptr = pmhKernelMalloc(size);
            auto* bytes = at<unsigned char>(word(ptr), size);
            if (bytes == nullptr) {
                ++*wrong;
                continue;
            }
            std::memset(bytes, static_cast<int>(block->arguments[1]), size);
            std::this_thread::yield();
            for (std::size_t i = 0; i < size; ++i) *wrong += bytes[i] != block->arguments[1];
            pmhKernelFree(ptr);
        }
    };
    const Stream streams[4];
    const PinnedMemory counts(sizeof(std::uint64_t) * 4);
    auto* wrong = static_cast<std::uint64_t*>(counts.ptr);
    std::fill(wrong, wrong + 4, 0);
    for (std::uint64_t i = 0; i < 4; ++i) HOST_OK(launch(churn, {word(wrong + i), i + 1}, streams[i]));
    HOST_OK(pmhDeviceSynchronize());
    for (int i = 0; i < 4; ++i) CHECK(wrong[i] == 0);
    const Table whole{1};
    whole.allocate(kSize);
    CHECK(whole.nulls() == 0);
}

TEST_CASE("host heap: what a process settles once") {
    CHECK(succeeded(run_child("settles the size of the heap")));
    CHECK(succeeded(run_child("has no room for the heap", {{"PORTAMEM_HOST_CAPACITY", "4MiB"}})));
    CHECK(succeeded(run_child("begins to use the heap beside a capture")));
    CHECK(succeeded(run_child("allocates from the heap")));
    CHECK(succeeded(run_child("exhausts the heap")));
    CHECK(succeeded(run_child("keeps memory of the heap across kernels")));
    CHECK(succeeded(run_child("gives addresses of the heap to calls of the host")));
    CHECK(succeeded(run_child("frees what is not in the heap")));
    CHECK(succeeded(run_child("uses the heap from many streams at once")));
}
