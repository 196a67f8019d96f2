// SPDX-License-Identifier: MIT
// tests/cpp/core_staging.cpp: the threads that copy host memory together, and the setting that says how many.
#include <algorithm>

#include "../../csrc/core/staging/crew.hpp"
#include "../../csrc/core/staging/settings.hpp"
#include "forked_child.hpp"
#include "host_support.hpp"
#include "portamem/abi/staging_api.h"

using namespace host_tests;
using namespace portamem::staging;

TEST_CASE("core staging: every byte is copied, and none beside them") {
    for (const int threads : {0, 1, 2, 3, 8, 64, 1000}) {
        CAPTURE(threads);
        for (const std::size_t size :
             {std::size_t{0}, std::size_t{1}, 256 * KiB - 1, 256 * KiB, 256 * KiB + 1, 3 * MiB + 5}) {
            CAPTURE(size);
            const Bytes from = pattern(size, 7);
            Bytes to(size + 2, 0xee);
            portamem_copy_bytes(to.data() + 1, from.data(), size, threads);
            CHECK(to.front() == 0xee);
            CHECK(to.back() == 0xee);
            CHECK(std::equal(from.begin(), from.end(), to.begin() + 1));
        }
    }
}

TEST_CASE("core staging: callers who come at once are all served") {
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (unsigned number = 0; number < 6; ++number) {
        callers.emplace_back([number, &wrong] {
            const Bytes from = pattern(2 * MiB + number, number);
            for (int round = 0; round < 20; ++round) {
                Bytes to(from.size());
                portamem_copy_bytes(to.data(), from.data(), from.size(), 4);
                if (to != from) ++wrong;
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == 0);
}

TEST_CASE("core staging: a forked child copies alone") {
    const Bytes from = pattern(MiB, 3);
    Bytes to(MiB);
    portamem_copy_bytes(to.data(), from.data(), MiB, 4);  // the helpers are the parent's
    CHECK(answer_of_forked_child([&] {
              Bytes mine(MiB);
              portamem_copy_bytes(mine.data(), from.data(), MiB, 4);
              return mine == from ? 7 : 1;
          }) == 7);
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
