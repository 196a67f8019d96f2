// SPDX-License-Identifier: MIT
// tests/cpp/core_staging.cpp: how bytes move between host memory and a ring of blocks, and how many threads do it.
#include <algorithm>
#include <cstring>

#include "../../csrc/core/staging/crew.hpp"
#include "../../csrc/core/staging/host_runs.hpp"
#include "../../csrc/core/staging/passing_copy.hpp"
#include "../../csrc/core/staging/settings.hpp"
#include "forked_child.hpp"
#include "host_support.hpp"
#include "portamem/abi/staging_api.h"

using namespace host_tests;
using namespace portamem::staging;

namespace {

constexpr std::size_t kBlock = 256 * KiB - 64;
constexpr std::size_t kPlace = 256 * KiB;
constexpr std::size_t kBlocks = 3;

// Plays the device: takes each block from the ring, or fills it, as soon as its turn has come.
Bytes through_ring(Bytes& host, bool to_ring, const Bytes& of_device, int threads) {
    Bytes ring(kPlace * kBlocks), device = of_device;
    const std::size_t nbytes = host.size(), count = (nbytes + kBlock - 1) / kBlock;
    const portamem_move move{
        {host.data(), nbytes, 0, nullptr, nullptr}, ring.data(), kPlace, kBlock, kBlocks, to_ring ? 1 : 0};
    portamem_mover* const mover = portamem_move_begin(&move, threads);
    REQUIRE(mover != nullptr);
    const auto part = [&](std::size_t number) { return std::min(kBlock, nbytes - number * kBlock); };
    const auto place = [&](std::size_t number) { return ring.data() + number % kBlocks * kPlace; };
    CHECK(portamem_move_help(mover) == 0);  // nothing is allowed
    for (std::size_t allowed = 0, done = 0; done < count;) {
        if (allowed < std::min(count, done + kBlocks)) {
            if (!to_ring) std::memcpy(place(allowed), device.data() + allowed * kBlock, part(allowed));
            portamem_move_allow(mover, ++allowed);
        } else if (portamem_move_is_done(mover, done) != 0) {
            if (to_ring) std::memcpy(device.data() + done * kBlock, place(done), part(done));
            ++done;
        } else {
            (void)portamem_move_help(mover);
        }
    }
    portamem_move_end(mover);
    return device;
}

bool goes_there_and_back(std::size_t size, int threads, unsigned seed) {
    Bytes from = pattern(size, seed);
    const Bytes sent = through_ring(from, true, Bytes(size), threads);
    Bytes back(size);
    (void)through_ring(back, false, sent, threads);
    return sent == from && back == from;
}

}  // namespace

TEST_CASE("core staging: every byte goes there and back") {
    for (const int threads : {0, 1, 2, 3, 8, 64, 1000}) {
        CAPTURE(threads);
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBlock - 1, kBlock, kBlock + 1, 3 * MiB + 5}) {
            CAPTURE(size);
            CHECK(goes_there_and_back(size, threads, 7));
        }
    }
}

TEST_CASE("core staging: callers who come at once are all served") {
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (unsigned number = 0; number < 6; ++number) {
        callers.emplace_back([number, &wrong] {
            for (unsigned round = 0; round < 10; ++round) {
                if (!goes_there_and_back(2 * MiB + number, 4, number + round)) ++wrong;
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == 0);
}

TEST_CASE("core staging: a copy that is given up half-way leaves its memory alone from then on") {
    for (int round = 0; round < 20; ++round) {
        CAPTURE(round);
        Bytes host = pattern(8 * MiB, 1), ring(kPlace * kBlocks);
        const portamem_move move{
            {host.data(), host.size(), 0, nullptr, nullptr}, ring.data(), kPlace, kBlock, kBlocks, 1};
        portamem_mover* const mover = portamem_move_begin(&move, 4);
        REQUIRE(mover != nullptr);
        portamem_move_allow(mover, kBlocks);
        for (int piece = 0; piece < round % 5; ++piece) (void)portamem_move_help(mover);
        portamem_move_end(mover);
        const Bytes left = ring;
        CHECK(goes_there_and_back(MiB, 4, 2));  // wakes the helpers
        CHECK(ring == left);
    }
}

TEST_CASE("core staging: a forked child copies alone") {
    CHECK(goes_there_and_back(MiB, 4, 3));  // the helpers are the parent's
    CHECK(answer_of_forked_child([] { return goes_there_and_back(MiB, 4, 3) ? 7 : 1; }) == 7);
}

TEST_CASE("core staging: runs of bytes with strides are packed in the order of their dimensions, and unpacked") {
    // Every second element, whole rows with a gap, a transposed array, reversed rows, four dimensions, one run.
    struct Layout {
        std::size_t run;
        std::vector<std::size_t> counts;
        std::vector<std::ptrdiff_t> strides;
    };
    const Layout layouts[] = {{1, {1000, 33}, {67, 2}},
                              {3, {999}, {5}},
                              {100, {500}, {131}},
                              {4, {50, 60}, {4, 200}},
                              {8, {40, 30}, {240, -8}},
                              {2, {3, 4, 5, 6}, {1000, 200, 32, 4}},
                              {4096, {3, 50}, {-220000, 4100}},
                              {16, {300, 40}, {1280, 32}},
                              {5000, {}, {}}};
    for (const Layout& layout : layouts) {
        CAPTURE(layout.run);
        std::size_t nbytes = layout.run;
        for (const std::size_t count : layout.counts) nbytes *= count;
        const Bytes before = pattern(MiB, 9);
        Bytes memory = before;
        unsigned char* const first = memory.data() + MiB / 2;
        // Follows the dimensions one by one.
        std::vector<std::ptrdiff_t> offsets{0};
        for (std::size_t dim = 0; dim < layout.counts.size(); ++dim) {
            std::vector<std::ptrdiff_t> inner;
            for (const std::ptrdiff_t outer : offsets)
                for (std::size_t i = 0; i < layout.counts[dim]; ++i)
                    inner.push_back(outer + static_cast<std::ptrdiff_t>(i) * layout.strides[dim]);
            offsets = inner;
        }
        Bytes wanted;
        for (const std::ptrdiff_t offset : offsets)
            wanted.insert(wanted.end(), first + offset, first + offset + static_cast<std::ptrdiff_t>(layout.run));
        REQUIRE(wanted.size() == nbytes);
        const HostRuns runs({first, layout.run, layout.counts.size(), layout.counts.data(), layout.strides.data()});
        CHECK(runs.nbytes() == nbytes);
        for (const std::size_t piece : {nbytes, std::size_t{1000}, std::size_t{77}}) {
            CAPTURE(piece);
            Bytes packed(nbytes);
            for (std::size_t begin = 0; begin < nbytes; begin += piece)
                runs.pack(reinterpret_cast<char*>(packed.data()) + begin, begin, std::min(piece, nbytes - begin),
                          piece == 1000);
            CHECK(packed == wanted);
            Bytes expected = before;
            const Bytes other = pattern(nbytes, 4);
            for (std::size_t begin = 0; begin < nbytes; begin += piece)
                runs.unpack(reinterpret_cast<const char*>(other.data()) + begin, begin,
                            std::min(piece, nbytes - begin));
            for (std::size_t i = 0; i < offsets.size(); ++i)
                std::copy_n(other.data() + i * layout.run, layout.run, expected.data() + MiB / 2 + offsets[i]);
            CHECK(memory == expected);
            std::copy(before.begin(), before.end(), memory.begin());
        }
    }
}

TEST_CASE("core staging: a copy past the cache is a copy") {
    const Bytes from = pattern(2000, 5);
    const std::size_t sizes[] = {0, 1, 63, 64, 255, 256, 257, 320, 1000, 1900}, offsets[] = {0, 1, 15, 16, 63};
    for (const std::size_t size : sizes) {
        for (const std::size_t offset : offsets) {
            CAPTURE(size);
            CAPTURE(offset);
            Bytes to(2100, 0xee);
            copy_past_the_cache(to.data() + offset, from.data() + 3, size);
            CHECK(std::equal(from.begin() + 3, from.begin() + 3 + static_cast<std::ptrdiff_t>(size),
                             to.begin() + static_cast<std::ptrdiff_t>(offset)));
            const auto is_untouched = [](unsigned char byte) { return byte == 0xee; };
            CHECK(std::all_of(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(offset), is_untouched));
            CHECK(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(offset + size), to.end(), is_untouched));
        }
    }
}

TEST_CASE("core staging: what the setting says") {
    CHECK(parse_threads("off") == 0);
    CHECK(parse_threads("0") == 0);
    CHECK(parse_threads("1") == 1);
    CHECK(parse_threads("08") == 8);
    CHECK(parse_threads("64") == Crew::kMostThreads);
    for (const char* wrong :
         {"", "65", "-1", "+1", " 1", "1 ", "1.5", "on", "OFF", "100", "0x8", "18446744073709551617"})
        CHECK_FALSE(parse_threads(wrong).has_value());
}

TEST_CASE("core staging: half of the CPUs, and at least two threads or none") {
    CHECK(usual_threads(0) == 0);
    CHECK(usual_threads(3) == 0);
    CHECK(usual_threads(4) == 2);
    CHECK(usual_threads(15) == 7);
    CHECK(usual_threads(256) == 8);
}
