// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/work.hpp: what every contender is made to do. No memory is touched.
//
// A contender has allocate(nbytes, stream) and deallocate(ptr, nbytes, stream), where `stream` is a number below kStreams.
#pragma once

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "clock.hpp"
#include "cpus.hpp"

namespace table {

constexpr int kStreams = 17;  // 16 to work on, and one to be held up
constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

/// Sizes whose logarithms are spread evenly: every doubling as often as every other. The same ones in every call.
inline std::vector<std::size_t> sizes(std::size_t count, std::size_t least, std::size_t most) {
    std::mt19937_64 random(20);
    std::uniform_real_distribution<double> exponent(std::log(static_cast<double>(least)),
                                                    std::log(static_cast<double>(most)));
    std::vector<std::size_t> found(count);
    for (std::size_t& nbytes : found) nbytes = static_cast<std::size_t>(std::exp(exponent(random)));
    return found;
}

/// ns of an allocation and its free, the same size again and again on one stream.
template <class C>
double pair(C& contender, std::size_t nbytes, int count) {
    const auto some = [&](int times) {
        for (int i = 0; i < times; ++i) contender.deallocate(contender.allocate(nbytes, 0), nbytes, 0);
    };
    some(count / 10 + 1);
    const auto begin = Clock::now();
    some(count);
    return nanoseconds(Clock::now() - begin) / count;
}

/// ns of a free and an allocation in its place, the same size for each of 64 live blocks, which take turns at random.
template <class C>
double random_pair(C& contender, std::size_t nbytes, int count) {
    std::vector<void*> blocks(64);
    for (void*& block : blocks) block = contender.allocate(nbytes, 0);
    std::mt19937_64 random(7);
    const auto some = [&](int times) {
        for (int i = 0; i < times; ++i) {
            void*& block = blocks[random() % blocks.size()];
            contender.deallocate(block, nbytes, 0);
            block = contender.allocate(nbytes, 0);
        }
    };
    some(count / 10 + 1);
    const auto begin = Clock::now();
    some(count);
    const double spent = nanoseconds(Clock::now() - begin) / count;
    for (void* block : blocks) contender.deallocate(block, nbytes, 0);
    return spent;
}

struct Live {
    double per_op = 0;         ///< ns of an allocation or a free, of the second time
    double reserved_over = 0;  ///< peak reserved by peak live, 0 where the contender does not say
};

/// Many blocks of many sizes, all live, then freed in random order. Twice: the first time the memory is new.
template <class C>
Live live(C& contender, std::size_t count, std::size_t least, std::size_t most) {
    const std::vector<std::size_t> nbytes = sizes(count, least, most);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(5));
    std::vector<void*> blocks(count);
    Live found;
    for (int time = 0; time < 2; ++time) {
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < count; ++i) {
            try {
                blocks[i] = contender.allocate(nbytes[i], 0);
            } catch (...) {  // more than there is: the next contender finds all of it
                while (i-- > 0) contender.deallocate(blocks[i], nbytes[i], 0);
                throw;
            }
        }
        for (const std::size_t i : order) contender.deallocate(blocks[i], nbytes[i], 0);
        found.per_op = nanoseconds(Clock::now() - begin) / static_cast<double>(2 * count);
        if (time == 0) {
            const double most_live = static_cast<double>(std::accumulate(nbytes.begin(), nbytes.end(), std::size_t{0}));
            found.reserved_over = static_cast<double>(contender.peak_reserved()) / most_live;
        }
    }
    return found;
}

/// ns of an allocation and its free, where another thread frees. What the two threads spend in the calls themselves:
/// how fast a machine hands something over is not in it.
template <class C>
double other_thread(C& contender, std::size_t nbytes, int rounds) {
    constexpr int kBatch = 512;
    std::vector<void*> blocks(kBatch);
    std::mutex mutex;
    std::condition_variable changed;
    bool full = false;
    bool over = false;
    double freeing = 0;
    std::thread other([&] {
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [&] { return full || over; });
            if (!full) return;
            const auto begin = Clock::now();
            for (void* block : blocks) contender.deallocate(block, nbytes, 0);
            freeing += nanoseconds(Clock::now() - begin);
            full = false;
            changed.notify_all();
        }
    });
    double allocating = 0;
    const int warm = rounds / 4 + 1;
    for (int round = -warm; round < rounds; ++round) {
        std::unique_lock<std::mutex> lock(mutex);
        if (round == 0) allocating = freeing = 0;
        const auto begin = Clock::now();
        for (void*& block : blocks) block = contender.allocate(nbytes, 0);
        allocating += nanoseconds(Clock::now() - begin);
        full = true;
        changed.notify_all();
        changed.wait(lock, [&] { return !full; });
    }
    {
        const std::lock_guard<std::mutex> lock(mutex);
        over = true;
    }
    changed.notify_all();
    other.join();
    return (allocating + freeing) / (static_cast<double>(rounds) * kBatch);
}

/// Millions of calls of `pair_of(thread)` per second, by that many threads at once, on a CPU if one is named.
template <class Pair>
double millions_per_second(int threads, double seconds, Pair&& pair_of, int cpu = kAnyCpu) {
    constexpr int kBatch = 64;
    std::atomic<int> ready{0};
    std::atomic<bool> start{false};
    std::atomic<bool> stop{false};
    std::vector<double> counts(static_cast<std::size_t>(threads) * 16);  // a cache line or two for each
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; ++thread) {
        all.emplace_back([&, thread] {
            if (cpu != kAnyCpu) stay_on(cpu);
            for (int i = 0; i < 16 * kBatch; ++i) pair_of(thread);  // warm
            ready.fetch_add(1);
            while (!start.load(std::memory_order_acquire)) std::this_thread::yield();
            double count = 0;
            while (!stop.load(std::memory_order_relaxed)) {
                for (int i = 0; i < kBatch; ++i) pair_of(thread);
                count += kBatch;
            }
            counts[static_cast<std::size_t>(thread) * 16] = count;
        });
    }
    while (ready.load() < threads) std::this_thread::yield();
    const auto begin = Clock::now();
    start.store(true, std::memory_order_release);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop.store(true);
    for (std::thread& thread : all) thread.join();
    return std::accumulate(counts.begin(), counts.end(), 0.0) / nanoseconds(Clock::now() - begin) * 1e3;
}

/// Millions of pairs per second, each thread on a stream of its own. A single thread goes from CPU to CPU, and the mean
/// counts: where others use the machine too one CPU may do half of what the next one does, and many threads have them all.
template <class C>
double threads(C& contender, int count, std::size_t nbytes, double seconds) {
    const auto pair_of = [&contender, nbytes](int thread) {
        contender.deallocate(contender.allocate(nbytes, thread), nbytes, thread);
    };
    if (count > 1) return millions_per_second(count, seconds, pair_of);
    const std::vector<int> cpus = some_cpus();
    double sum = 0;
    for (const int cpu : cpus) sum += millions_per_second(1, seconds / 8, pair_of, cpu);
    return sum / static_cast<double>(cpus.size());
}

/// Millions of blocks per second that eight threads allocate on one stream and free on another, each with two streams.
template <class C>
double stream_pairs(C& contender, std::size_t nbytes, double seconds) {
    return millions_per_second(8, seconds, [&contender, nbytes](int thread) {
        contender.deallocate(contender.allocate(nbytes, 2 * thread), nbytes, 2 * thread + 1);
    });
}

struct Latency {
    double middle = 0;   ///< ns
    double highest = 0;  ///< ns that one call in a thousand exceeds
};

/// Blocks of 256 B to 4 MiB that come and go at random on four streams. Each call is timed by itself, and so the clock
/// is in it, for everybody alike.
template <class C>
Latency mixed(C& contender, std::size_t calls) {
    constexpr std::size_t kSlots = 1024;
    const std::vector<std::size_t> nbytes = sizes(calls, 256, 4 * kMiB);
    struct Block {
        void* ptr = nullptr;
        std::size_t nbytes = 0;
        int stream = 0;
    };
    std::vector<Block> slots(kSlots);
    std::vector<double> spent(calls);  // written to before: a page that is new would slow down the call after it
    spent.clear();
    std::mt19937_64 random(9);
    for (std::size_t i = 0; i < calls; ++i) {
        const std::uint64_t drawn = random();
        Block& block = slots[drawn % kSlots];
        const auto begin = Clock::now();
        if (block.ptr == nullptr) {
            block.nbytes = nbytes[i];
            block.stream = static_cast<int>(drawn >> 62);
            block.ptr = contender.allocate(block.nbytes, block.stream);
        } else {
            contender.deallocate(block.ptr, block.nbytes, block.stream);
            block.ptr = nullptr;
        }
        if (i >= calls / 5) spent.push_back(nanoseconds(Clock::now() - begin));  // before, the memory is new
    }
    for (const Block& block : slots) {
        if (block.ptr != nullptr) contender.deallocate(block.ptr, block.nbytes, block.stream);
    }
    Latency found;
    found.middle = quantile(spent, 0.5);
    found.highest = quantile(spent, 0.999);
    return found;
}

}  // namespace table
