// SPDX-License-Identifier: MIT
// tests/soak/soak.cpp: pools of every kind of memory from many threads and streams at once, for a while.
//
//   portamem_soak_BACKEND [--seconds 10] [--threads 16] [--streams 16] [--seed 0] [--spoil byte|memory]
//
// Threads share the streams: portamem's own, and foreign ones with and without the promise to announce their end.
// They allocate, write, copy, hand memory to each other and give it back, at random: on other streams and from other
// threads than it came from, and while work that was declared on it still runs. Memory that the host reaches is written
// by the host as soon as it is there. Every block holds a known pattern and is read back: memory that two of them were
// given, or that was given out while a stream still used it, shows as a wrong byte. Pools are trimmed and asked
// meanwhile.
//
// It exits 0 only if every byte was right, no call failed that should not, all resources close, and at the end as much
// is held as at the start (held.hpp). The first tenth of the time is a warm-up by the same work. It is made for
// ThreadSanitizer on the host backend, and runs on every backend. --spoil makes a byte wrong, or loses memory: the
// program has to say so then.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "held.hpp"
#include "portamem/portamem.hpp"

namespace pm = portamem;

namespace {

using Resource = std::shared_ptr<pm::MemoryResource>;
using StreamPtr = std::shared_ptr<pm::Stream>;
using Counts = std::map<std::string, std::uint64_t>;

constexpr std::size_t kLargest = std::size_t{1} << 20;
constexpr std::size_t kLivePerThread = std::size_t{12} << 20;
constexpr std::size_t kHandedOver = 64;

struct Options {
    double seconds = 10;
    int threads = 16;
    int streams = 16;
    unsigned seed = 0;
    std::string spoil;
};

/// Bytes of which every block holds a stretch.
const std::vector<unsigned char>& pattern() {
    static const std::vector<unsigned char> bytes = [] {
        std::vector<unsigned char> made(2 * kLargest);
        std::mt19937_64 random(7);
        for (unsigned char& byte : made) byte = static_cast<unsigned char>(random());
        return made;
    }();
    return bytes;
}

/// A live block, where in the pattern its bytes begin, and the stream that used it last.
struct Item {
    pm::Buffer buffer;
    std::size_t begin;
    StreamPtr stream;
};

/// The threads' common state.
struct Shared {
    std::vector<std::pair<std::string, Resource>> kinds;
    std::vector<StreamPtr> streams;
    std::mutex mutex;
    std::deque<Item> passed_on;
    std::vector<std::string> faults;
    Counts counts;
    std::string spoil;
    std::atomic<bool> stop{false};

    void fault(const std::string& text) {
        const std::lock_guard<std::mutex> lock(mutex);
        faults.push_back(text);
        stop = true;
    }
};

/// One thread: its blocks, and what it may do next.
class Worker {
  public:
    Worker(Shared& shared, unsigned number, unsigned seed) : shared_(shared), random_(seed * 1000003u + number) {}

    void run() {
        try {
            for (std::size_t which = 0; which < kActions; ++which) take(which);  // each once, however short the run
            while (!shared_.stop) take(weighted());
            while (!items_.empty()) {
                Item item = removed();
                verify(item);
                item.buffer.close(item.stream);
            }
        } catch (const std::exception& error) {
            shared_.fault(error.what());
        }
        const std::lock_guard<std::mutex> lock(shared_.mutex);
        for (const auto& [what, count] : counts_) shared_.counts[what] += count;
    }

  private:
    static constexpr std::size_t kActions = 9;

    void take(std::size_t which) {
        static constexpr const char* names[kActions] = {"allocate",  "verify",  "close",       "duplicate", "hand over",
                                                        "take over", "staging", "foreign use", "trim"};
        switch (which) {
            case 0:
                allocate();
                break;
            case 1:
                if (Item* item = some()) verify(*item);
                break;
            case 2:
                close();
                break;
            case 3:
                duplicate();
                break;
            case 4:
                hand_over();
                break;
            case 5:
                take_over();
                break;
            case 6:
                staging();
                break;
            case 7:
                foreign_use();
                break;
            default:
                trim();
        }
        ++counts_[names[which]];
    }

    std::size_t weighted() {
        static constexpr unsigned weights[kActions] = {40, 12, 30, 16, 10, 10, 10, 10, 1};
        unsigned drawn = below(139);
        std::size_t which = 0;
        while (drawn >= weights[which]) drawn -= weights[which++];
        return which;
    }

    // Choices at random.

    unsigned below(std::size_t bound) { return static_cast<unsigned>(random_() % bound); }
    const StreamPtr& stream() { return shared_.streams[below(shared_.streams.size())]; }
    Item* some() { return items_.empty() ? nullptr : &items_[below(items_.size())]; }
    /// Small sizes as often as large ones.
    std::size_t nbytes() {
        const double exponent = std::log(static_cast<double>(kLargest)) * (below(1000000) / 1e6);
        return std::max<std::size_t>(1, static_cast<std::size_t>(std::exp(exponent)));
    }
    std::size_t live() const {
        std::size_t total = 0;
        for (const Item& item : items_) total += item.buffer.nbytes();
        return total;
    }
    Item removed() {
        std::swap(items_[below(items_.size())], items_.back());
        Item item = std::move(items_.back());
        items_.pop_back();
        return item;
    }

    // The worker's acts.

    pm::Buffer make(std::size_t nbytes, const StreamPtr& stream) {
        const auto& [name, resource] = shared_.kinds[below(shared_.kinds.size())];
        ++counts_["allocations: " + name];
        return pm::Buffer(resource, nbytes, stream);
    }

    static const unsigned char* expected(std::size_t begin) { return pattern().data() + begin; }
    static pm::Span source(std::size_t begin, std::size_t nbytes) {
        return pm::Span::host(const_cast<unsigned char*>(expected(begin)), nbytes);
    }

    /// Orders what comes on `stream` behind all earlier work on the memory.
    static void order(Item& item, const StreamPtr& stream) {
        if (item.stream != stream) stream->wait(*item.stream);
        item.stream = stream;
    }

    void allocate() {
        const std::size_t size = nbytes();
        if (live() + size > kLivePerThread) return close();
        Item item{make(size, stream()), below(kLargest), nullptr};
        item.stream = item.buffer.stream();
        const pm::MemoryTraits& traits = item.buffer.traits();
        if (traits.host_accessible && below(2) == 0) {
            // Memory that the host reaches is the caller's at once, on every resource that is not the driver's pool.
            if (traits.kind == pm::ResourceKind::Async) item.stream->synchronize();
            std::memcpy(item.buffer.ptr(), expected(item.begin), size);
            ++counts_["written by the host"];
        } else {
            pm::copy(pm::Span::of(item.buffer), source(item.begin, size), item.stream);
        }
        items_.push_back(std::move(item));
    }

    void compare(const unsigned char* found, std::size_t begin, std::size_t nbytes, const char* where) {
        counts_["bytes verified"] += nbytes;
        if (std::memcmp(found, expected(begin), nbytes) == 0) return;
        std::size_t at = 0;
        while (found[at] == expected(begin)[at]) ++at;
        throw std::runtime_error(std::string(where) + ": of " + std::to_string(nbytes) + " bytes, number " +
                                 std::to_string(at) + " is wrong");
    }

    void verify(Item& item) {
        std::vector<unsigned char> found(item.buffer.nbytes());
        order(item, stream());
        if (shared_.spoil == "byte") {
            pm::fill(pm::Span::of(item.buffer), static_cast<unsigned char>(~*expected(item.begin)), item.stream);
        }
        pm::copy(pm::Span::host(found.data(), found.size()), pm::Span::of(item.buffer), item.stream)->synchronize();
        compare(found.data(), item.begin, found.size(), to_string(item.buffer.traits().kind));
    }

    void close() {
        if (items_.empty()) return;
        Item item = removed();
        const unsigned how = below(3);
        if (how == 0) verify(item);
        if (how == 1) order(item, stream());  // on another stream than it came from
        item.buffer.close(item.stream);
    }

    /// A copy on any stream; the first may go while it runs.
    void duplicate() {
        if (items_.empty()) return;
        const std::size_t which = below(items_.size());
        if (live() + items_[which].buffer.nbytes() > kLivePerThread) return;
        Item& item = items_[which];
        const StreamPtr on = stream();
        Item copied{make(item.buffer.nbytes(), on), item.begin, on};
        order(item, on);
        pm::copy(pm::Span::of(copied.buffer), pm::Span::of(item.buffer), on);
        if (below(3) == 0) {
            item.buffer.close();
            items_[which] = std::move(copied);
        } else {
            items_.push_back(std::move(copied));
        }
    }

    void hand_over() {
        if (items_.empty()) return;
        Item item = removed();
        std::unique_lock<std::mutex> lock(shared_.mutex);
        if (shared_.passed_on.size() < kHandedOver) {
            shared_.passed_on.push_back(std::move(item));
            return;
        }
        lock.unlock();
        items_.push_back(std::move(item));
    }

    /// Memory of another thread, to be given back by this one.
    void take_over() {
        const std::lock_guard<std::mutex> lock(shared_.mutex);
        if (shared_.passed_on.empty()) return;
        items_.push_back(std::move(shared_.passed_on.front()));
        shared_.passed_on.pop_front();
    }

    /// The host writes memory that it reaches and gives it back while the copy from it runs: a thread that gets it next
    /// and writes it too early spoils the copy.
    void staging() {
        const std::size_t size = nbytes();
        if (live() + size > kLivePerThread) return;
        const StreamPtr on = stream();
        Item item{make(size, on), below(kLargest), on};
        const Resource pinned = reached_by_the_host();
        pm::Buffer between(pinned, size, on);
        std::memcpy(between.ptr(), expected(item.begin), size);
        pm::copy(pm::Span::of(item.buffer), pm::Span::of(between), on);
        between.close();
        items_.push_back(std::move(item));
        if (shared_.spoil == "memory" && counts_["staging"] == 0) {
            (void)std::make_shared<pm::PinnedMemoryResource>(0)->allocate(size, on);
        }
    }

    Resource reached_by_the_host() {
        for (;;) {
            const Resource& resource = shared_.kinds[below(shared_.kinds.size())].second;
            if (resource->is_host_accessible() && resource->kind() != pm::ResourceKind::Async) return resource;
        }
    }

    /// Work of which portamem knows by record_stream only; the memory goes back at once behind it.
    void foreign_use() {
        if (items_.empty()) return;
        Item item = removed();
        const StreamPtr on = stream();
        order(item, on);
        const std::size_t size = item.buffer.nbytes();
        pm::Buffer between(shared_.kinds[0].second, size, on);
        pm::check(
            pm::rt::MemcpyAsync(between.ptr(), item.buffer.ptr(), size, pm::rt::MemcpyKind::Default, on->handle()),
            "MemcpyAsync");
        item.buffer.record_stream(on);
        between.record_stream(on);
        item.buffer.close();
        pm::Buffer again = make(size, stream());  // this one might get the memory too early
        pm::fill(pm::Span::of(again), 0, again.stream());
        Item copied{std::move(between), item.begin, on};
        verify(copied);
        copied.buffer.close(copied.stream);
        again.close();
    }

    void trim();

    Shared& shared_;
    std::mt19937_64 random_;
    std::vector<Item> items_;
    Counts counts_;
};

Resource pool_over(Resource upstream) { return pm::PoolMemoryResource::create(std::move(upstream)); }
std::shared_ptr<pm::PoolMemoryResource> as_pool(const Resource& resource) {
    return std::dynamic_pointer_cast<pm::PoolMemoryResource>(resource);
}

/// Gives back unused memory, while other threads allocate, and asks.
void Worker::trim() {
    const Resource& resource = shared_.kinds[below(shared_.kinds.size())].second;
    if (const auto pool = as_pool(resource)) pool->trim(below(4) == 0 ? 0 : std::size_t{8} << 20);
    (void)resource->cached();
}

/// A pool over each kind of memory that the device has, and plain resources beside them. Device memory comes first.
void make_resources(Shared& shared) {
    const pm::Capabilities capabilities = pm::query_capabilities(0);
    auto& kinds = shared.kinds;
    kinds.emplace_back("pool of device memory", pool_over(std::make_shared<pm::DeviceMemoryResource>(0)));
    kinds.emplace_back("pool of pinned memory", pool_over(std::make_shared<pm::PinnedMemoryResource>(0)));
    if (capabilities.managed_mode != pm::ManagedMode::None) {
        kinds.emplace_back("pool of managed memory", pool_over(std::make_shared<pm::ManagedMemoryResource>(0)));
    }
    kinds.emplace_back("pinned memory", std::make_shared<pm::PinnedMemoryResource>(0));
    if (capabilities.memory_pools) kinds.emplace_back("the driver's pool", pm::AsyncMemoryResource::create(0));
}

/// Streams of a program that uses the runtime itself, and keeps a promise to announce their end.
class NativeStreams {
  public:
    NativeStreams() = default;
    ~NativeStreams() {
        for (const auto& [handle, stream] : made_) {
            try {
                stream->close();
            } catch (const std::exception& error) {
                std::fprintf(stderr, "a stream would not close: %s\n", error.what());
            }
            (void)pm::rt::StreamDestroy(handle);
        }
    }
    NativeStreams(const NativeStreams&) = delete;
    NativeStreams& operator=(const NativeStreams&) = delete;

    StreamPtr wrapped(bool ends_announced) {
        pm::rt::Stream_t handle{};
        pm::check(pm::rt::StreamCreateWithPriority(&handle, pm::rt::StreamNonBlocking, 0), "StreamCreateWithPriority");
        made_.emplace_back(handle, pm::Stream::from_handle(handle, 0, nullptr, ends_announced));
        return made_.back().second;
    }

  private:
    std::vector<std::pair<pm::rt::Stream_t, StreamPtr>> made_;
};

/// Everything at once for some seconds, on resources and streams that are made before and closed after it.
void work(const Options& options, double seconds, unsigned seed, Counts& counts, std::vector<std::string>& faults) {
    NativeStreams natives;
    Shared shared;
    shared.spoil = options.spoil;
    make_resources(shared);
    for (int i = 0; i < options.streams; ++i) {
        const bool is_own = i % 4 < 2;
        shared.streams.push_back(is_own ? pm::Stream::create(0) : natives.wrapped(i % 4 == 2));
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < options.threads; ++i) {
        threads.emplace_back([&shared, seed, i] { Worker(shared, static_cast<unsigned>(i), seed).run(); });
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < deadline && !shared.stop) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    shared.stop = true;
    for (std::thread& thread : threads) thread.join();
    for (Item& item : shared.passed_on) item.buffer.close();
    for (const auto& [what, count] : shared.counts) counts[what] += count;
    faults.insert(faults.end(), shared.faults.begin(), shared.faults.end());
    if (!faults.empty()) return;
    for (const StreamPtr& stream : shared.streams) stream->synchronize();
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (auto& [name, resource] : shared.kinds) {
        while (resource->live_buffers() != 0 && std::chrono::steady_clock::now() < give_up) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));  // behind declared work
        }
        if (const auto pool = as_pool(resource)) {
            pool->trim(0);
            if (pool->cached().value_or(0) != 0) {
                faults.push_back(name + " keeps " + std::to_string(*pool->cached()) + " bytes after trim(0)");
            }
        }
        try {
            resource->close();
        } catch (const std::exception& error) {
            faults.push_back(name + ": " + error.what());
        }
    }
}

bool read(int argc, char** argv, Options& options) {
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        const char* const value = argv[i + 1];
        if (name == "--seconds") {
            options.seconds = std::atof(value);
        } else if (name == "--threads") {
            options.threads = std::atoi(value);
        } else if (name == "--streams") {
            options.streams = std::atoi(value);
        } else if (name == "--seed") {
            options.seed = static_cast<unsigned>(std::atoi(value));
        } else if (name == "--spoil" && (value == std::string("byte") || value == std::string("memory"))) {
            options.spoil = value;
        } else {
            return false;
        }
    }
    return argc % 2 == 1 && options.threads > 0 && options.streams > 0;
}

int run(const Options& options) {
    Counts counts;
    std::vector<std::string> faults;
    work(options, options.seconds / 10, options.seed, counts, faults);
    const Held before = held();
    if (faults.empty()) {
        counts.clear();
        work(options, options.seconds * 9 / 10, options.seed + 1, counts, faults);
    }
    const Held after = held();
    if (faults.empty()) faults = grown(before, after);
    for (const auto& [what, count] : counts) {
        std::printf("%16llu  %s\n", static_cast<unsigned long long>(count), what.c_str());
    }
    for (const std::string& fault : faults) std::fprintf(stderr, "%s\n", fault.c_str());
    std::printf("soak on %s: %d threads, %d streams: %s after %g s\n", pm::rt::BackendName, options.threads,
                options.streams, faults.empty() ? "all was right" : "FAILED", options.seconds);
    return faults.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (!read(argc, argv, options)) {
        std::fprintf(stderr,
                     "portamem_soak [--seconds S] [--threads N] [--streams N] [--seed N] [--spoil byte|memory]\n");
        return 2;
    }
    if (pm::device_count() == 0) {
        std::fprintf(stderr, "portamem_soak: %s has no device\n", pm::rt::BackendName);
        return 2;
    }
    return run(options);
}
