// SPDX-License-Identifier: MIT
// tests/cpp/pm_checked_regions.cpp: a memory checker of heaps and regions is told of pools' memory, byte by byte.
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "pm_support.hpp"

namespace {

using pm::detail::CheckedRegions;
using Listener = CheckedRegions::Listener;

/// A checker that takes what the vendor's does, and nothing else: regions lie in a heap, overlap no other, and are
/// resized and unregistered by where they begin.
struct Strict {
    static inline bool announced = true;
    static inline bool listens = true;
    static inline bool is_allocation = true;
    static inline int device = 0;    // of chunks to come
    static inline int current = -1;  // none
    static inline int asked = 0;
    static inline int calls = 0;
    static inline std::string log;
    static inline std::map<std::uintptr_t, std::size_t> heaps;
    static inline std::map<std::uintptr_t, int> devices;  // of the heaps
    static inline std::map<std::uintptr_t, std::size_t> regions;

    static std::uintptr_t at(const void* ptr) { return reinterpret_cast<std::uintptr_t>(ptr); }
    static bool is_free(std::uintptr_t begin, std::size_t nbytes, std::uintptr_t but) {
        for (const auto& [other, size] : regions) {
            if (other != but && other < begin + nbytes && begin < other + size) return false;
        }
        return true;
    }
    /// The vendor's checker refuses a heap unless its device is the current one.
    static bool in_heap(std::uintptr_t begin, std::size_t nbytes) {
        for (const auto& [heap, size] : heaps) {
            if (heap <= begin && begin + nbytes <= heap + size) return devices[heap] == current;
        }
        return false;
    }

    static rt::Error_t heap_register(rt::MemHeap_t* heap, const void* ptr, std::size_t nbytes) {
        ++calls;
        *heap = nullptr;
        if (!listens) return rt::Error_t::NotSupported;
        CHECK(current == device);
        CHECK(heaps.emplace(at(ptr), nbytes).second);
        devices[at(ptr)] = device;
        *heap = const_cast<void*>(ptr);
        return rt::Error_t::Success;
    }
    static rt::Error_t heap_unregister(rt::MemHeap_t heap) {
        ++calls;
        CHECK(devices[at(heap)] == current);
        CHECK(heaps.erase(at(heap)) == 1);
        return rt::Error_t::Success;
    }
    static rt::Error_t register_region(rt::MemHeap_t heap, const void* ptr, std::size_t nbytes) {
        ++calls;
        log += "+";
        CHECK(heaps.count(at(heap)) == 1);
        CHECK(in_heap(at(ptr), nbytes));
        CHECK(is_free(at(ptr), nbytes, 0));
        CHECK(nbytes > 0);
        regions[at(ptr)] = nbytes;
        return rt::Error_t::Success;
    }
    static rt::Error_t resize(const void* ptr, std::size_t nbytes) {
        ++calls;
        log += "=";
        CHECK(regions.count(at(ptr)) == 1);
        CHECK(in_heap(at(ptr), nbytes));
        CHECK(is_free(at(ptr), nbytes, at(ptr)));
        CHECK(nbytes > 0);
        regions[at(ptr)] = nbytes;
        return rt::Error_t::Success;
    }
    static rt::Error_t unregister(const void* ptr) {
        ++calls;
        log += "-";
        CHECK(in_heap(at(ptr), 1));
        CHECK(regions.erase(at(ptr)) == 1);
        return rt::Error_t::Success;
    }

    static CheckedRegions::Calls table() {
        return {[] {
                    ++asked;
                    return announced;
                },
                [](const void*, std::size_t) { return is_allocation ? std::optional<int>(device) : std::nullopt; },
                [](int wanted, rt::DeviceState_t*) {
                    current = wanted;
                    return rt::Error_t::Success;
                },
                [](rt::DeviceState_t) {
                    current = -1;
                    return rt::Error_t::Success;
                },
                heap_register,
                heap_unregister,
                register_region,
                resize,
                unregister};
    }
};

/// Chunks of 4096 bytes at made-up addresses: no code touches the memory.
struct Told {
    CheckedRegions regions;

    Told() : regions(fresh()) {}
    static CheckedRegions::Calls fresh() {
        Strict::announced = Strict::listens = Strict::is_allocation = true;
        Strict::asked = Strict::calls = Strict::device = 0;
        Strict::log.clear();
        Strict::heaps.clear();
        Strict::regions.clear();
        return Strict::table();
    }
    static void* at(std::size_t offset) { return reinterpret_cast<void*>(std::uintptr_t{0x7000000} + offset); }

    void chunk(std::size_t offset = 0) { regions.chunk(at(offset), 4096); }
    void used(std::size_t begin, std::size_t end) { regions.used(at(begin), end - begin); }
    void unused(std::size_t begin, std::size_t end) { regions.unused(at(begin), end - begin); }

    /// The regions, as "begin-end begin-end".
    static std::string text() {
        std::string text;
        for (const auto& [begin, size] : Strict::regions) {
            const std::size_t offset = begin - Strict::at(at(0));
            text += (text.empty() ? "" : " ") + std::to_string(offset) + "-" + std::to_string(offset + size);
        }
        return text;
    }
    /// The calls that the checker got since the last time: + registered, = resized, - unregistered.
    static std::string calls() { return std::exchange(Strict::log, {}); }
};

}  // namespace

TEST_CASE("pm checked regions: where no checker is announced, one question is all") {
    Told told;
    Strict::announced = false;
    CHECK(told.regions.listener() == Listener::Unknown);
    told.chunk();
    CHECK(told.regions.listener() == Listener::None);
    told.used(0, 100);
    told.unused(0, 100);
    told.chunk(4096);
    told.regions.chunk_gone(Told::at(0), 4096);
    CHECK(Strict::asked == 1);
    CHECK(Strict::calls == 0);
}

TEST_CASE("pm checked regions: a tool that takes no interest is asked once") {
    Told told;
    Strict::listens = false;  // a profiler
    told.chunk();
    CHECK(told.regions.listener() == Listener::None);
    told.used(0, 100);
    told.unused(0, 100);
    told.chunk(4096);
    CHECK(Strict::calls == 1);
}

TEST_CASE("pm checked regions: a chunk that is a part of an allocation is left alone, the next is followed") {
    Told told;
    Strict::is_allocation = false;
    told.chunk();
    told.used(0, 100);
    CHECK(Strict::calls == 0);
    CHECK(told.regions.listener() == Listener::Unknown);
    Strict::is_allocation = true;
    told.chunk(8192);
    told.used(0, 100);
    told.used(8192, 8200);
    CHECK(Told::text() == "8192-8200");
}

TEST_CASE("pm checked regions: a block is a region of the bytes asked for, until it is unused") {
    Told told;
    told.chunk();
    CHECK(told.regions.listener() == Listener::Checker);
    CHECK(Told::text().empty());
    told.used(1024, 2024);
    CHECK(Told::text() == "1024-2024");
    told.used(2048, 2049);
    told.unused(1024, 2024);
    CHECK(Told::text() == "2048-2049");
    told.used(5000, 5001);  // of no chunk
    told.unused(5000, 5001);
    CHECK(Told::calls() == "++-");
    told.regions.chunk_gone(Told::at(0), 4096);
    CHECK(Told::text().empty());
    CHECK(Strict::heaps.empty());
}

TEST_CASE("pm checked regions: each device is current while the checker is told of its memory") {
    Told told;
    told.chunk();
    Strict::device = 1;
    told.chunk(8192);
    for (const std::size_t begin : {std::size_t{0}, std::size_t{8192}}) {
        told.used(begin, begin + 1000);
        told.used(begin, begin + 400);
        told.unused(begin, begin + 400);
        told.regions.chunk(Told::at(begin + 400), 100);
        told.regions.chunk_gone(Told::at(begin + 400), 100);
        told.regions.chunk_gone(Told::at(begin), 4096);
        CHECK(Strict::current == -1);
    }
    CHECK(Strict::heaps.empty());
    CHECK(Strict::calls > 12);
}

TEST_CASE("pm checked regions: a block taken over in time never goes between") {
    Told told;
    told.chunk();
    told.used(0, 1000);
    told.used(0, 1000);
    CHECK(Told::calls() == "+");
    told.used(0, 400);  // earlier uses may go on behind its end
    CHECK(Told::text() == "0-400 400-1000");
    CHECK(Told::calls() == "=+");
    told.unused(400, 1000);
    CHECK(Told::text() == "0-400");
    told.used(0, 700);
    CHECK(Told::text() == "0-700");
    CHECK(Told::calls() == "-=");
}

TEST_CASE("pm checked regions: a block cut from the middle, and one over several") {
    Told told;
    told.chunk();
    told.used(0, 1024);
    told.used(256, 556);
    CHECK(Told::text() == "0-256 256-556 556-1024");
    told.unused(0, 256);
    told.unused(556, 1024);
    CHECK(Told::text() == "256-556");
    told.used(512, 600);
    CHECK(Told::text() == "256-512 512-600");
    told.used(1024, 1100);
    told.used(300, 1050);
    CHECK(Told::text() == "256-300 300-1050 1050-1100");
    told.unused(280, 1060);
    CHECK(Told::text() == "256-280 1060-1100");
    told.used(256, 2000);  // from where one began, over another
    CHECK(Told::text() == "256-2000");
}

TEST_CASE("pm checked regions: a pool over a pool shares its heap") {
    Told told;
    told.chunk();
    told.used(1024, 3072);                     // a block of the outer one
    told.regions.chunk(Told::at(1024), 2048);  // a chunk of the inner one
    CHECK(Told::text().empty());
    CHECK(Strict::heaps.size() == 1);
    told.used(1280, 1300);
    CHECK(Told::text() == "1280-1300");
    told.regions.chunk_gone(Told::at(1024), 2048);
    CHECK(Told::text() == "1024-3072");
    told.unused(1024, 3072);
    CHECK(Told::text().empty());
}

TEST_CASE("pm checked regions: a pool over a pool may have all of its heap as a chunk") {
    Told told;
    told.chunk();
    for (int round = 0; round < 2; ++round) {
        told.used(0, 4096);  // the outer one's block
        told.chunk();        // is a chunk of the inner one, and the same of a third
        told.used(0, 4096);
        told.chunk();
        told.used(256, 300);
        CHECK(Told::text() == "256-300");
        told.regions.chunk_gone(Told::at(0), 4096);
        told.regions.chunk_gone(Told::at(0), 4096);
        CHECK(Strict::heaps.size() == 1);
        CHECK(Told::text() == "0-4096");
        told.unused(0, 4096);
        CHECK(Told::text().empty());
    }
    told.regions.chunk_gone(Told::at(0), 4096);
    CHECK(Strict::heaps.empty());
}

TEST_CASE("pm checked regions: after any calls, each byte is in a region or in none as it was last said") {
    Told told;
    told.chunk();
    std::mt19937 random(7);
    std::vector<char> model(4096, 0);
    for (int i = 0; i < 20000; ++i) {
        std::size_t begin = random() % 4096;
        const std::size_t end = begin + 1 + random() % std::min<std::size_t>(4096 - begin, i % 3 == 0 ? 2000 : 90);
        const bool in_use = random() % 2 != 0;
        if (in_use) {
            told.used(begin, end);
        } else {
            told.unused(begin, end);
        }
        std::fill(model.begin() + static_cast<std::ptrdiff_t>(begin), model.begin() + static_cast<std::ptrdiff_t>(end),
                  static_cast<char>(in_use));
        if (i % 50 != 0) continue;
        std::vector<char> seen(4096, 0);
        for (const auto& [first, size] : Strict::regions) {
            std::fill_n(seen.begin() + static_cast<std::ptrdiff_t>(first - Strict::at(Told::at(0))), size, 1);
        }
        REQUIRE(seen == model);
    }
}

// Through the vendor's own header, to a stand-in for the checker that NVTX_INJECTION64_PATH names. Needs no device.
TEST_CASE("pm checked regions: a checker that has been announced is told by the vendor's means") {
    const char* path = std::getenv("NVTX_INJECTION64_PATH");
    if (!rt::HasMemChecker || path == nullptr || !contains(path, "standin_checker")) return;
    CHECK(rt::MemCheckerAnnounced());
    CheckedRegions::Calls table = Strict::table();
    table.announced = rt::MemCheckerAnnounced;
    table.heap_register = rt::MemHeapRegister;
    table.heap_unregister = rt::MemHeapUnregister;
    table.register_region = rt::MemRegionsRegister;
    table.resize = rt::MemRegionsResize;
    table.unregister = rt::MemRegionsUnregister;
    CheckedRegions regions(table);
    const auto at = [](std::size_t offset) { return Told::at(offset); };
    regions.chunk(at(0), 4096);
    REQUIRE(regions.listener() == Listener::Checker);
    regions.used(at(256), 1000);
    regions.used(at(256), 400);
    regions.unused(at(656), 600);
    regions.unused(at(256), 400);
    regions.chunk_gone(at(0), 4096);

    void* const checker = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(checker != nullptr);
    const auto log = reinterpret_cast<const char* (*)()>(dlsym(checker, "standin_checker_log"));
    REQUIRE((log != nullptr));
    CHECK(std::string(log()) ==
          "heap 7000000 4096\n"
          "region of 7000000: 7000100 1000\n"
          "resize 7000100 400\n"
          "region of 7000000: 7000290 600\n"
          "unregister 7000290\n"
          "unregister 7000100\n"
          "no heap 7000000\n");
    dlclose(checker);
}

TEST_CASE("pm checked regions: what rt is told that cannot be is refused before it is told") {
    rt::MemHeap_t heap = nullptr;
    int there = 0;
    CHECK(rt::MemHeapRegister(nullptr, &there, 4) == rt::Error_t::InvalidValue);
    CHECK(rt::MemHeapRegister(&heap, nullptr, 4) == rt::Error_t::InvalidValue);
    CHECK(rt::MemHeapRegister(&heap, &there, 0) == rt::Error_t::InvalidValue);
    CHECK(rt::MemHeapUnregister(nullptr) == rt::Error_t::InvalidValue);
    CHECK(rt::MemRegionsRegister(nullptr, &there, 4) == rt::Error_t::InvalidValue);
    CHECK(rt::MemRegionsResize(nullptr, 4) == rt::Error_t::InvalidValue);
    CHECK(rt::MemRegionsResize(&there, 0) == rt::Error_t::InvalidValue);
    CHECK(rt::MemRegionsUnregister(nullptr) == rt::Error_t::InvalidValue);
}
