// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/main.cpp: the rows of the speed table that are C++. benchmarks/table.py builds and runs it.
//
//   portamem_table_BACKEND [ROUNDS]               every row, all contenders in turns
//   portamem_table_BACKEND memory BLOCKS BYTES    host memory for each of that many live blocks, in a fresh process
//
// It prints a line of JSON for each contender of a row: the values of all rounds. What comes of them is table.py's.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "contender.hpp"
#include "own.hpp"

namespace {

using namespace table;

#if defined(PORTAMEM_HOST)
constexpr bool kOnHost = true;
#else
constexpr bool kOnHost = false;
#endif

/// Rounds of one row, in which contenders take turns, each round with another one first.
class Rows {
  public:
    struct Row {
        std::string name;
        const char* unit;
    };

    explicit Rows(int rounds) : rounds_(rounds) {}

    /// turn(contender): the figures of one round, as many as there are names of rows.
    template <class Turn>
    void run(const std::vector<Row>& rows, const std::vector<const Contender*>& contenders, int rounds,
             Turn&& turn) const {
        const std::size_t count = contenders.size();
        std::vector<std::vector<std::vector<double>>> found(count, std::vector<std::vector<double>>(rows.size()));
        std::vector<std::string> failed(count);
        for (int round = 0; round < (rounds > 0 ? rounds : rounds_); ++round) {
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t who = (i + static_cast<std::size_t>(round)) % count;
                if (!failed[who].empty()) continue;
                try {
                    const std::vector<double> figures = turn(*contenders[who]);
                    for (std::size_t row = 0; row < rows.size(); ++row) found[who][row].push_back(figures[row]);
                } catch (const std::exception& error) {
                    failed[who] = error.what();
                }
            }
        }
        for (std::size_t row = 0; row < rows.size(); ++row) {
            for (std::size_t who = 0; who < count; ++who) {
                print(rows[row].name, rows[row].unit, contenders[who]->name(), found[who][row], failed[who]);
            }
        }
    }

    static void print(const std::string& row, const char* unit, const std::string& who,
                      const std::vector<double>& values, const std::string& failed = {}) {
        std::printf("{\"row\": \"%s\", \"unit\": \"%s\", \"who\": \"%s\", ", row.c_str(), unit, who.c_str());
        if (failed.empty()) {
            std::printf("\"values\": [");
            for (std::size_t i = 0; i < values.size(); ++i) std::printf("%s%.6g", i == 0 ? "" : ", ", values[i]);
            std::printf("]}\n");
        } else {
            std::string text;
            for (const char c : failed) text += c == '"' || c == '\\' || c == '\n' ? ' ' : c;
            std::printf("\"failed\": \"%s\"}\n", text.c_str());
        }
        std::fflush(stdout);
    }

  private:
    int rounds_;
};

std::shared_ptr<pm::MemoryResource> real() { return std::make_shared<pm::DeviceMemoryResource>(0); }
std::shared_ptr<pm::MemoryResource> host_memory() { return std::make_shared<pm::SystemMemoryResource>(0); }
std::shared_ptr<pm::MemoryResource> addresses() { return std::make_shared<AddressSpace>(0); }

std::vector<const Contender*> pointers(const Contenders& all) {
    std::vector<const Contender*> found;
    for (const auto& each : all) found.push_back(each.get());
    return found;
}

/// Whether blocks go from stream to stream while another stream is held up: nobody may wait for the device as a whole.
bool goes_on_beside_a_stream_that_is_held() {
    Own own(real());
    std::atomic<bool> open{false};
    struct Gate {
        std::atomic<bool>* open;
        std::atomic<bool> gave_up{false};
    } gate{&open};
    own.stream(kStreams - 1)
        ->launch_host_func(
            [](void* data) {
                Gate& shut = *static_cast<Gate*>(data);
                const auto give_up = Clock::now() + std::chrono::seconds(5);
                while (!shut.open->load()) {
                    if (Clock::now() > give_up) {
                        shut.gave_up = true;
                        return;
                    }
                    std::this_thread::sleep_for(std::chrono::microseconds(100));
                }
            },
            &gate);
    own.deallocate(own.allocate(64 * kKiB, 0), 64 * kKiB, 1);
    for (int i = 0; i < 2000; ++i) {
        own.deallocate(own.allocate(64 * kKiB, 2 * (i % 8)), 64 * kKiB, 2 * (i % 8) + 1);
    }
    open = true;
    own.stream(kStreams - 1)->synchronize();
    return !gate.gave_up.load();
}

/// ms until the first byte of a pinned pool, of that size, can be used; and of the runtime's own call.
void pinned_start(const Rows&, std::size_t nbytes) {
    std::vector<double> pooled;
    std::vector<double> plain;
    const pm::Capabilities can = pm::query_capabilities(0);
    const bool registers = can.host_register && can.registered_pointer_is_device_pointer && can.pinned_coherent;
    const auto stream = pm::Stream::create(0);
    for (int round = 0; round < 3; ++round) {
        {
            const auto begin = Clock::now();
            const auto pool = pool_over(std::make_shared<pm::PinnedMemoryResource>(0));
            void* const ptr = pool->allocate(nbytes, stream);
            pooled.push_back(nanoseconds(Clock::now() - begin) / 1e6);
            pool->deallocate(ptr, nbytes, stream);
        }
        const auto begin = Clock::now();
        void* ptr = nullptr;
        pm::check(pm::rt::HostMalloc(&ptr, nbytes, pm::rt::HostMallocDefault, pm::rt::Coherence::Default),
                  "HostMalloc");
        plain.push_back(nanoseconds(Clock::now() - begin) / 1e6);
        pm::check(pm::rt::HostFree(ptr), "HostFree");
    }
    Rows::print("pinned start-up", "ms", kOwnName, pooled);
    Rows::print("pinned start-up", "ms", "HostMalloc", plain);
    Rows::print("pinned start-up, registered pages", "", kOwnName, {registers ? 1.0 : 0.0});
}

std::size_t resident() {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Bytes of host memory for each live block of that size. The memory itself is addresses only.
double memory_per_block(std::size_t count, std::size_t nbytes) {
    Own own(addresses());
    own.deallocate(own.allocate(nbytes, 0), nbytes, 0);
    std::vector<void*> blocks(count, &own);  // its pages are there before
    const std::size_t before = resident();
    for (void*& block : blocks) block = own.allocate(nbytes, 0);
    const std::size_t after = resident();
    for (void* block : blocks) own.deallocate(block, nbytes, 0);
    return static_cast<double>(after > before ? after - before : 0) / static_cast<double>(count);
}

void every_row(int given) {
    const Rows rows(given);
    Contenders all;
    all.push_back(contender(kOwnName, [] { return std::make_unique<Own>(real()); }));
    Contenders reachable;
    reachable.push_back(contender(kOwnName, [] { return std::make_unique<Own>(host_memory()); }));
    if (kOnHost) {
        all.push_back(contender("malloc", [] { return std::make_unique<Malloc>(); }));
        all.push_back(
            contender("std::pmr::synchronized_pool_resource", [] { return std::make_unique<Synchronized>(); }));
    }
#if defined(TABLE_WITH_RMM)
    add_rmm(all);
#endif
#if defined(TABLE_WITH_TORCH)
    add_torch(all);
#endif
#if defined(TABLE_WITH_UMPIRE)
    add_umpire(all, kOnHost ? "HOST" : "DEVICE");
    add_umpire(reachable, "HOST");
#endif
    const auto everybody = pointers(all);
    const auto own_addresses = contender(kOwnName, [] { return std::make_unique<Own>(addresses()); });
    const auto thread_private = contender("malloc", [] { return std::make_unique<Malloc>(); });

    for (const auto& [name, nbytes] : {std::pair<const char*, std::size_t>{"256 B", 256},
                                       {"64 KiB", 64 * kKiB},
                                       {"1 MiB", kMiB},
                                       {"64 MiB", 64 * kMiB}}) {
        rows.run({{std::string("pair ") + name, "ns"}}, everybody, 0,
                 [nbytes = nbytes](const Contender& who) { return std::vector<double>{who.pair(nbytes, 5000)}; });
    }
    for (const auto& [name, nbytes] : {std::pair<const char*, std::size_t>{"256 KiB", 256 * kKiB},
                                       {"1 MiB", kMiB},
                                       {"16 MiB", 16 * kMiB},
                                       {"64 MiB", 64 * kMiB}}) {
        rows.run(
            {{std::string("reachable ") + name, "ns"}}, pointers(reachable), 0,
            [nbytes = nbytes](const Contender& who) { return std::vector<double>{who.random_pair(nbytes, 5000)}; });
    }
    const auto live = [](std::size_t most) {
        return [most](const Contender& who) {
            const Live found = who.live(100000, 256, most);
            return std::vector<double>{found.per_op, found.reserved_over};
        };
    };
    // On the CPU such an amount is addresses only, and the C library's are asked for less in a row of their own.
    rows.run({{"live 4 MiB", "ns"}, {"live 4 MiB, reserved", "x"}},
             kOnHost ? std::vector<const Contender*>{own_addresses.get()} : everybody, 3, live(4 * kMiB));
    if (kOnHost) rows.run({{"live 16 KiB", "ns"}, {"live 16 KiB, reserved", "x"}}, everybody, 3, live(16 * kKiB));
    rows.run({{"other thread", "ns"}}, everybody, 0,
             [](const Contender& who) { return std::vector<double>{who.other_thread(64 * kKiB, 20)}; });
    auto with_malloc = everybody;
    if (!kOnHost) with_malloc.push_back(thread_private.get());
    for (const int count : {1, 4, 16}) {
        rows.run({{"threads " + std::to_string(count), "Mops/s"}}, with_malloc, 0, [count](const Contender& who) {
            // malloc's own are of a size that its threads keep to themselves: what nothing shared costs on this machine.
            return std::vector<double>{who.threads(count, who.name() == "malloc" ? 512 : 64 * kKiB, 0.05)};
        });
    }
    rows.run({{"stream pairs", "Mops/s"}}, everybody, 0,
             [](const Contender& who) { return std::vector<double>{who.stream_pairs(64 * kKiB, 0.05)}; });
    Rows::print("stream pairs, nobody waits for the device", "", kOwnName,
                {goes_on_beside_a_stream_that_is_held() ? 1.0 : 0.0});
    auto mixed = everybody;
    if (kOnHost) mixed[0] = own_addresses.get();
    rows.run({{"mixed p50", "ns"}, {"mixed p99.9", "ns"}}, mixed, 5, [](const Contender& who) {
        const Latency found = who.mixed(200000);
        return std::vector<double>{found.middle, found.highest};
    });
    pinned_start(rows, kOnHost ? 256 * kMiB : 4096 * kMiB);
}

}  // namespace

int main(int argc, char** argv) {
    if (pm::device_count() == 0) {
        std::fprintf(stderr, "portamem_table: %s has no device\n", pm::rt::BackendName);
        return 2;
    }
    if (argc == 4 && std::strcmp(argv[1], "memory") == 0) {
        const std::size_t count = std::strtoull(argv[2], nullptr, 10);
        const std::size_t nbytes = std::strtoull(argv[3], nullptr, 10);
        const std::string row = "host memory, " + std::string(argv[2]) + " blocks of " + argv[3];
        try {
            Rows::print(row, "B", kOwnName, {memory_per_block(count, nbytes)});
        } catch (const std::exception& error) {
            Rows::print(row, "B", kOwnName, {}, error.what());
        }
        return 0;
    }
    every_row(argc > 1 ? std::atoi(argv[1]) : 11);
    return 0;
}
