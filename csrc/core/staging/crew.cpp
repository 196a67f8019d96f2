// SPDX-License-Identifier: MIT
// core/staging/crew.cpp: threads that help with one job at a time.
#include "crew.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "../own_threads.hpp"

namespace portamem::staging {

namespace {

// A new thread inherits the CPUs of the caller that started it, which may be pinned to one.
void run_where_the_process_may() {
    cpu_set_t cpus;
    if (sched_getaffinity(getpid(), sizeof cpus, &cpus) == 0) (void)sched_setaffinity(0, sizeof cpus, &cpus);
}

}  // namespace

Crew& Crew::instance() {
    static auto* leaked = new Crew;
    return *leaked;
}

bool Crew::begin(Job& job, int helpers) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (job_ != nullptr) return false;
        start_helpers(std::min(helpers, kMostThreads - 1));
        job_ = &job;
        wanted_ = helpers;
        ++turn_;
    }
    begins_.notify_all();
    return true;
}

void Crew::end() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    wanted_ = 0;  // a helper that wakes up now is too late
    ends_.wait(lock, [this] { return inside_ == 0; });
    job_ = nullptr;
}

// Where the system has no thread to give, fewer take part.
void Crew::start_helpers(int wanted) {
    const NoSignals hidden;
    while (helpers_ < wanted) {
        try {
            std::thread([this, number = helpers_] { run(number); }).detach();
        } catch (const std::system_error&) {
            return;
        }
        ++helpers_;
    }
}

void Crew::run(int number) {
    run_where_the_process_may();
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        begins_.wait(lock, [&] { return turn_ != seen && number < wanted_; });
        seen = turn_;
        ++inside_;
        Job& job = *job_;
        lock.unlock();
        job.help();
        lock.lock();
        if (--inside_ == 0) ends_.notify_all();
    }
}

}  // namespace portamem::staging
