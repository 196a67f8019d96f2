// SPDX-License-Identifier: MIT
// tests/cpp/host_stress.cpp: many threads, streams and pools of the CPU runtime at once; made for the sanitizers.
#include <random>

#include "host_support.hpp"

using namespace host_tests;

namespace {

constexpr int thread_count = 4;

template <class Work>
void on_threads(Work&& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) threads.emplace_back([&work, i] { work(static_cast<unsigned>(i)); });
    for (auto& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("host stress: threads with streams of their own share a pool") {
    Pool pool;
    std::atomic<int> wrong{0};
    on_threads([&](unsigned id) {
        std::mt19937 random(id);
        Stream stream;
        PinnedMemory pinned(64 * KiB);
        for (int turn = 0; turn < 200; ++turn) {
            const std::size_t size = 1 + random() % (64 * KiB);
            const auto byte = static_cast<unsigned char>(random());
            void* ptr = pool.allocate(size, stream);
            HOST_OK(pmhMemsetAsync(ptr, byte, size, stream));
            HOST_OK(pmhMemcpyAsync(pinned, ptr, size, pmhMemcpyDeviceToHost, stream));
            HOST_OK(pmhFreeAsync(ptr, stream));
            if (turn % 8 != 0) continue;
            HOST_OK(pmhStreamSynchronize(stream));
            if (pinned.bytes()[0] != byte || pinned.bytes()[size - 1] != byte) ++wrong;
        }
        HOST_OK(pmhStreamSynchronize(stream));
    });
    CHECK(wrong == 0);
    HOST_OK(pmhDeviceSynchronize());
    CHECK(pool.used() == 0);
    CHECK(pool.reserved() == 0);
}

TEST_CASE("host stress: memory handed from stream to stream through events") {
    Pool pool;
    std::atomic<int> wrong{0};
    on_threads([&](unsigned id) {
        Stream writer, reader;
        Event written(pmhEventDisableTiming), read(pmhEventDisableTiming);
        PinnedMemory pinned(KiB);
        for (int turn = 0; turn < 100; ++turn) {
            const auto byte = static_cast<unsigned char>(turn + static_cast<int>(id) * 50);
            void* ptr = pool.allocate(KiB, writer);
            HOST_OK(pmhMemsetAsync(ptr, byte, KiB, writer));
            HOST_OK(pmhEventRecord(written, writer));
            HOST_OK(pmhStreamWaitEvent(reader, written, 0));
            HOST_OK(pmhMemcpyAsync(pinned, ptr, KiB, pmhMemcpyDeviceToHost, reader));
            HOST_OK(pmhEventRecord(read, reader));
            HOST_OK(pmhStreamWaitEvent(writer, read, 0));
            HOST_OK(pmhFreeAsync(ptr, writer));
            if (turn % 10 != 0) continue;
            HOST_OK(pmhEventSynchronize(read));
            if (pinned.bytes()[KiB / 2] != byte) ++wrong;
        }
        HOST_OK(pmhStreamSynchronize(writer));
    });
    CHECK(wrong == 0);
}

TEST_CASE("host stress: everything at once") {
    on_threads([&](unsigned id) {
        std::mt19937 random(id + 100);
        Event event;
        HOST_OK(pmhSetDevice(static_cast<int>(id % 2)));
        for (int turn = 0; turn < 60; ++turn) {
            const std::size_t size = 1 + random() % (256 * KiB);
            auto stream = std::make_unique<Stream>(random() % 2 == 0 ? pmhStreamDefault : pmhStreamNonBlocking);
            DeviceMemory on_stream(size), on_default(size);
            Bytes bytes(size);
            HOST_OK(pmhMemsetAsync(on_default, 1, size, random() % 2 == 0 ? nullptr : pmhStreamPerThread));
            HOST_OK(pmhMemcpy(bytes.data(), on_default, size, pmhMemcpyDeviceToHost));
            HOST_OK(pmhHostRegister(bytes.data(), size, 0));
            HOST_OK(pmhMemcpyAsync(on_stream, bytes.data(), size, pmhMemcpyDefault, *stream));
            if (random() % 3 == 0) stream.reset();
            pmhPointerAttributes attributes{};
            HOST_OK(pmhPointerGetAttributes(&attributes, on_stream.at(size / 2)));
            HOST_OK(pmhHostUnregister(bytes.data()));
            if (random() % 5 == 0) HOST_OK(pmhDeviceSynchronize());
        }
    });
    HOST_OK(pmhDeviceSynchronize());
}

TEST_CASE("host stress: threads that capture do not disturb one another in thread-local mode") {
    on_threads([&](unsigned) {
        DeviceMemory device(KiB);
        for (int turn = 0; turn < 50; ++turn) {
            Stream stream;
            HOST_OK(pmhStreamBeginCapture(stream, pmhStreamCaptureModeThreadLocal));
            HOST_OK(pmhMemsetAsync(device, 0, KiB, stream));
            pmhGraph_t graph = nullptr;
            HOST_OK(pmhStreamEndCapture(stream, &graph));
            HOST_OK(pmhGraphDestroy(graph));
        }
    });
}
