// SPDX-License-Identifier: MIT
// core/own_threads.hpp: what threads that libportamem starts have in common.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/types.h>

#include <csignal>
#include <thread>

namespace portamem {

/// Keeps signals from threads that are made in its scope: signals are for the program's own threads. Faults stay,
/// because the threads touch the program's memory, for which the program may handle them.
class NoSignals {
  public:
    NoSignals() {
        sigset_t signals;
        (void)sigfillset(&signals);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) (void)sigdelset(&signals, fault);
        (void)pthread_sigmask(SIG_SETMASK, &signals, &before_);
    }
    ~NoSignals() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    NoSignals(const NoSignals&) = delete;
    NoSignals& operator=(const NoSignals&) = delete;

  private:
    sigset_t before_;
};

/// Returns how many CPUs a thread may use. `thread`: 0 for the calling thread, the process's number for its first one.
inline unsigned usable_cpus(pid_t thread) {
    cpu_set_t cpus;
    if (sched_getaffinity(thread, sizeof cpus, &cpus) == 0) return static_cast<unsigned>(CPU_COUNT(&cpus));
    return std::thread::hardware_concurrency();  // the machine has more CPUs than the set has places
}

}  // namespace portamem
