// SPDX-License-Identifier: MIT
// core/fork.cpp: notices that the process is the child of a fork.
//
// Asking getpid() on every call would cost more than the calls themselves, so the child's flag is set once, by a
// handler that runs inside fork().
#include <pthread.h>

#include <atomic>

#include "portamem/c_api.h"

namespace {

std::atomic<int> forked{0};

const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(1, std::memory_order_relaxed); });

}  // namespace

int portamem_forked(void) {
    (void)registered;
    return forked.load(std::memory_order_relaxed);
}
