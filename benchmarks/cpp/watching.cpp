// SPDX-License-Identifier: MIT
// benchmarks/cpp/watching.cpp: what a pair of allocate and deallocate takes on a pool, and under each adaptor on one.
//
// watching THREADS [LOG]: nanoseconds a pair by all threads together, a line for each; without a file for the
// LoggingAdaptor that of the pool alone. benchmarks/watching.py compiles it.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "portamem/portamem.hpp"

namespace pm = portamem;

namespace {

using Resource = std::shared_ptr<pm::MemoryResource>;

constexpr std::size_t kBytes = 4096;
constexpr int kWarm = 100;
constexpr int kPairs = 20000;

void pairs(const Resource& resource, const std::shared_ptr<pm::Stream>& stream, int count) {
    for (int i = 0; i < count; ++i) resource->deallocate(resource->allocate(kBytes, stream), kBytes, stream);
}

/// Threads begin when all of them are there, each on a stream of its own.
double nanoseconds(const Resource& resource, int threads) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) {
        all.emplace_back([&] {
            const auto stream = pm::Stream::create(0);
            pairs(resource, stream, kWarm);
            ready.fetch_add(1);
            while (!go.load()) std::this_thread::yield();
            pairs(resource, stream, kPairs);
            ready.fetch_sub(1);
        });
    }
    while (ready.load() != threads) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    go.store(true);
    for (std::thread& thread : all) thread.join();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    return spent.count() / (static_cast<double>(threads) * kPairs);
}

Resource pool() { return std::make_shared<pm::PoolMemoryResource>(std::make_shared<pm::DeviceMemoryResource>(0)); }

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    std::vector<std::pair<const char*, Resource>> all = {{"nothing", pool()}};
    if (argc > 2) {
        all.emplace_back("LimitingAdaptor", std::make_shared<pm::LimitingAdaptor>(pool(), std::size_t{1} << 40));
        all.emplace_back("StatisticsAdaptor", std::make_shared<pm::StatisticsAdaptor>(pool()));
        all.emplace_back("TrackingAdaptor", std::make_shared<pm::TrackingAdaptor>(pool()));
        all.emplace_back("LoggingAdaptor", std::make_shared<pm::LoggingAdaptor>(pool(), argv[2]));
    }
    const int threads = std::atoi(argv[1]);
    for (const auto& [name, resource] : all) std::printf("%s %.2f\n", name, nanoseconds(resource, threads));
}
