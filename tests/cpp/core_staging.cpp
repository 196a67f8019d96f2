// SPDX-License-Identifier: MIT
// tests/cpp/core_staging.cpp: the threads that work on one job together, and the setting that says how many.
#include <algorithm>
#include <chrono>

#include "../../csrc/core/staging/crew.hpp"
#include "../../csrc/core/staging/settings.hpp"
#include "forked_child.hpp"
#include "host_support.hpp"
#include "portamem/abi/staging_api.h"

using namespace host_tests;
using namespace portamem::staging;

namespace {

/// A job of many small shares: each is to be done once.
struct Job {
    std::vector<int> done = std::vector<int>(1000);
    std::atomic<std::size_t> next{0};
    std::vector<int> calls = std::vector<int>(Crew::kMostThreads);  // by the number of the thread
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> wrong{0};

    static void work(void* context, int number) {
        Job& job = *static_cast<Job*>(context);
        if (number < 0 || number >= Crew::kMostThreads) {
            ++job.wrong;
            return;
        }
        ++job.calls[static_cast<std::size_t>(number)];
        if ((number == 0) != (std::this_thread::get_id() == job.caller)) ++job.wrong;
        for (std::size_t i = job.next++; i < job.done.size(); i = job.next++) ++job.done[i];
    }

    bool is_right(int threads) const {
        const auto most = static_cast<std::ptrdiff_t>(std::max(1, std::min(threads, Crew::kMostThreads)));
        return wrong == 0 && calls[0] == 1 &&
               std::all_of(done.begin(), done.end(), [](int times) { return times == 1; }) &&
               std::all_of(calls.begin(), calls.begin() + most, [](int times) { return times <= 1; }) &&
               std::all_of(calls.begin() + most, calls.end(), [](int times) { return times == 0; });
    }
};

}  // namespace

TEST_CASE("core staging: a job is done, and each thread has a number of its own") {
    for (int round = 0; round < 50; ++round) {
        for (const int threads : {-1, 0, 1, 2, 3, 8, 64, 1000}) {
            CAPTURE(threads);
            Job job;
            portamem_on_threads(&Job::work, &job, threads);
            CHECK(job.is_right(threads));
        }
    }
}

TEST_CASE("core staging: helpers take part") {
    struct Meeting {
        std::atomic<int> here{0};
        static void work(void* context, int) {
            std::atomic<int>& here = static_cast<Meeting*>(context)->here;
            ++here;
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (here < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        }
    } meeting;
    portamem_on_threads(&Meeting::work, &meeting, 3);
    CHECK(meeting.here == 3);
}

TEST_CASE("core staging: callers who come at once are all served") {
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int number = 0; number < 6; ++number) {
        callers.emplace_back([&wrong] {
            for (int round = 0; round < 100; ++round) {
                Job job;
                portamem_on_threads(&Job::work, &job, 4);
                if (!job.is_right(4)) ++wrong;
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == 0);
}

TEST_CASE("core staging: a forked child works alone") {
    Job job;
    portamem_on_threads(&Job::work, &job, 4);  // the helpers are the parent's
    CHECK(answer_of_forked_child([] {
              Job mine;
              portamem_on_threads(&Job::work, &mine, 4);
              return mine.is_right(1) ? 7 : 1;
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
