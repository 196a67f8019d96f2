// SPDX-License-Identifier: MIT
// benchmarks/cpp/rt_overhead.cpp: what a call through portamem::rt costs beside the vendor's own.
//
// From the checkout, with libportamem.so in $LIB (a build folder, or an installed portamem):
//   host: g++ -std=c++17 -O2 -DPORTAMEM_HOST -Icsrc/include benchmarks/cpp/rt_overhead.cpp -L$LIB -lportamem
//         -Wl,-rpath,$LIB -o rt_overhead
//   CUDA: the same with -DPORTAMEM_CUDA -I$CUDA/include -L$CUDA/lib64 -lcudart_static -ldl -lrt -lpthread
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "portamem/rt/rt.hpp"

namespace rt = portamem::rt;

namespace {

// The vendor's own calls, answered as bool.
#if defined(PORTAMEM_CUDA)
namespace direct {
bool malloc_async(void** ptr, std::size_t n, rt::Stream_t s) { return cudaMallocAsync(ptr, n, s) == cudaSuccess; }
bool free_async(void* ptr, rt::Stream_t s) { return cudaFreeAsync(ptr, s) == cudaSuccess; }
bool memcpy_async(void* to, const void* from, std::size_t n, rt::Stream_t s) {
    return cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, s) == cudaSuccess;
}
bool event_record(rt::Event_t e, rt::Stream_t s) { return cudaEventRecord(e, s) == cudaSuccess; }
}  // namespace direct
#elif defined(PORTAMEM_HOST)
namespace direct {
bool malloc_async(void** ptr, std::size_t n, rt::Stream_t s) { return pmhMallocAsync(ptr, n, s) == pmhSuccess; }
bool free_async(void* ptr, rt::Stream_t s) { return pmhFreeAsync(ptr, s) == pmhSuccess; }
bool memcpy_async(void* to, const void* from, std::size_t n, rt::Stream_t s) {
    return pmhMemcpyAsync(to, from, n, pmhMemcpyDefault, s) == pmhSuccess;
}
bool event_record(rt::Event_t e, rt::Stream_t s) { return pmhEventRecord(e, s) == pmhSuccess; }
}  // namespace direct
#else
#error "rt_overhead: built for CUDA and the host runtime"
#endif

constexpr int kRounds = 41;
constexpr int kCalls = 200;  // few enough that no queue fills up, which would measure the device

void need(bool went_well, const char* what) {
    if (went_well) return;
    std::fprintf(stderr, "rt_overhead: %s failed\n", what);
    std::exit(1);
}
void need(rt::Error_t answer, const char* what) { need(answer == rt::Error_t::Success, what); }

/// Nanoseconds of a call, in a batch that starts on an idle stream.
template <class Call>
double batch(rt::Stream_t stream, Call&& call) {
    need(rt::StreamSynchronize(stream), "StreamSynchronize");
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    return spent.count() / kCalls;
}

double median(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Batches of both sides in turns, each round with the other side first.
template <class Through, class Direct>
void compare(const char* name, rt::Stream_t stream, Through&& through_rt, Direct&& directly) {
    std::vector<double> through;
    std::vector<double> direct;
    for (int round = 0; round < kRounds; ++round) {
        if (round % 2 == 0) through.push_back(batch(stream, through_rt));
        direct.push_back(batch(stream, directly));
        if (round % 2 != 0) through.push_back(batch(stream, through_rt));
    }
    // A round's two batches are close in time: what disturbs one of them mostly disturbs both.
    std::vector<double> differences;
    for (std::size_t i = 0; i < through.size(); ++i) differences.push_back(through[i] - direct[i]);
    const double difference = median(differences);
    const double b = median(direct);
    std::printf("%-28s %10.1f %10.1f %+10.1f %8.3f\n", name, b + difference, b, difference, (b + difference) / b);
}

}  // namespace

int main() {
    constexpr std::size_t nbytes = 4096;
    rt::Stream_t stream{};
    rt::Event_t event{};
    rt::MemPool_t pool{};
    void* device = nullptr;
    void* pinned = nullptr;
    need(rt::StreamCreateWithPriority(&stream, rt::StreamNonBlocking, 0), "StreamCreateWithPriority");
    need(rt::EventCreateWithFlags(&event, rt::EventDisableTiming), "EventCreateWithFlags");
    need(rt::DeviceGetDefaultMemPool(&pool, 0), "DeviceGetDefaultMemPool");
    need(rt::MemPoolSetAttribute(pool, rt::MemPoolAttr::ReleaseThreshold, ~std::uint64_t{0}), "MemPoolSetAttribute");
    need(rt::Malloc(&device, nbytes), "Malloc");
    need(rt::HostMalloc(&pinned, nbytes, rt::HostMallocDefault, rt::Coherence::Default), "HostMalloc");

    std::printf("%s %s, median of %d batches of %d calls, ns per call\n", rt::BackendName,
                rt::VersionText(rt::CompiledVersion()).c_str(), kRounds, kCalls);
    std::printf("%-28s %10s %10s %10s %8s\n", "call", "rt", "direct", "difference", "ratio");
    compare(
        "MallocAsync + FreeAsync", stream,
        [&] {
            void* ptr = nullptr;
            need(rt::MallocAsync(&ptr, nbytes, stream), "MallocAsync");
            need(rt::FreeAsync(ptr, stream), "FreeAsync");
        },
        [&] {
            void* ptr = nullptr;
            need(direct::malloc_async(&ptr, nbytes, stream), "MallocAsync");
            need(direct::free_async(ptr, stream), "FreeAsync");
        });
    compare(
        "MemcpyAsync 4 KiB", stream,
        [&] { need(rt::MemcpyAsync(device, pinned, nbytes, rt::MemcpyKind::Default, stream), "MemcpyAsync"); },
        [&] { need(direct::memcpy_async(device, pinned, nbytes, stream), "MemcpyAsync"); });
    compare(
        "EventRecord", stream, [&] { need(rt::EventRecord(event, stream), "EventRecord"); },
        [&] { need(direct::event_record(event, stream), "EventRecord"); });

    need(rt::StreamSynchronize(stream), "StreamSynchronize");
    need(rt::HostFree(pinned), "HostFree");
    need(rt::Free(device), "Free");
    need(rt::EventDestroy(event), "EventDestroy");
    need(rt::StreamDestroy(stream), "StreamDestroy");
}
