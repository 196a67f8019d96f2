// SPDX-License-Identifier: MIT
// core/staging/crew.cpp: threads that work on one job together.
#include "crew.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>
#include <thread>

namespace portamem::staging {

namespace {

// New threads inherit the mask: the program's signals go to its own threads.
class WithoutSignals {
  public:
    WithoutSignals() {
        sigset_t all;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~WithoutSignals() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    WithoutSignals(const WithoutSignals&) = delete;
    WithoutSignals& operator=(const WithoutSignals&) = delete;

  private:
    sigset_t before_;
};

}  // namespace

Crew& Crew::instance() {
    static auto* leaked = new Crew;
    return *leaked;
}

bool Crew::run(Work work, void* context, int threads) {
    const std::unique_lock<std::mutex> caller(callers_, std::try_to_lock);
    if (!caller.owns_lock()) return false;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        wanted_ = std::min(threads, kMostThreads) - 1;
        start_helpers(wanted_);
        work_ = work;
        context_ = context;
        ++turn_;
    }
    begins_.notify_all();
    work(context, 0);
    std::unique_lock<std::mutex> lock(mutex_);
    wanted_ = 0;  // a helper that wakes up now is too late
    ends_.wait(lock, [this] { return inside_ == 0; });
    return true;
}

// Where the system has no thread to give, fewer take part.
void Crew::start_helpers(int wanted) {
    const WithoutSignals masked;
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
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        begins_.wait(lock, [&] { return turn_ != seen && number < wanted_; });
        seen = turn_;
        ++inside_;
        lock.unlock();
        work_(context_, number + 1);
        lock.lock();
        if (--inside_ == 0) ends_.notify_one();
    }
}

}  // namespace portamem::staging
