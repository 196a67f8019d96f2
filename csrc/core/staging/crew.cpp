// SPDX-License-Identifier: MIT
// core/staging/crew.cpp: threads that copy host memory together.
#include "crew.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "../own_threads.hpp"

namespace portamem::staging {

namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr auto kLookOut = std::chrono::microseconds(100);

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

bool Crew::copy(char* dst, const char* src, std::size_t nbytes, int threads) {
    const std::unique_lock<std::mutex> caller(callers_, std::try_to_lock);
    if (!caller.owns_lock()) return false;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto pieces = static_cast<int>(std::min<std::size_t>((nbytes + kPiece - 1) / kPiece, kMostThreads));
        wanted_ = std::min({threads, pieces, kMostThreads}) - 1;
        start_helpers(wanted_);
        dst_ = dst;
        src_ = src;
        nbytes_ = nbytes;
        next_.store(0, std::memory_order_relaxed);
        turn_.fetch_add(1, std::memory_order_relaxed);
    }
    work_.notify_all();
    take_pieces();
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        wanted_ = 0;  // a helper that comes now is too late
    }
    // Each helper has one piece at most, so the wait is shorter than a sleep.
    while (inside_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
    return true;
}

// Where the system has no thread to give, fewer take part.
void Crew::start_helpers(int wanted) {
    const NoSignals hidden;
    while (helpers_ < wanted) {
        try {
            std::thread([this, number = helpers_] { help(number); }).detach();
        } catch (const std::system_error&) {
            return;
        }
        ++helpers_;
    }
}

void Crew::help(int number) {
    run_where_the_process_may();
    std::uint64_t seen = 0;
    for (;;) {
        look_out(seen);
        {
            std::unique_lock<std::mutex> lock(mutex_);
            work_.wait(lock, [&] { return turn_.load(std::memory_order_relaxed) != seen && number < wanted_; });
            seen = turn_.load(std::memory_order_relaxed);
            inside_.fetch_add(1, std::memory_order_relaxed);
        }
        take_pieces();
        inside_.fetch_sub(1, std::memory_order_release);
    }
}

void Crew::look_out(std::uint64_t seen) const {
    const auto end = std::chrono::steady_clock::now() + kLookOut;
    while (turn_.load(std::memory_order_relaxed) == seen && std::chrono::steady_clock::now() < end) {
    }
}

void Crew::take_pieces() {
    for (;;) {
        const std::size_t begin = next_.fetch_add(kPiece, std::memory_order_relaxed);
        if (begin >= nbytes_) return;
        std::memcpy(dst_ + begin, src_ + begin, std::min(kPiece, nbytes_ - begin));
    }
}

}  // namespace portamem::staging
