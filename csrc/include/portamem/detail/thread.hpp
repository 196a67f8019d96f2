// SPDX-License-Identifier: MIT
// portamem/detail/thread.hpp: threads of portamem's own.
#pragma once

#include <pthread.h>

#include <system_error>

#include "portamem/backend.hpp"

PORTAMEM_OPEN
namespace detail {

/// Starts a detached thread, as std::thread does. `run` must not throw. Throws std::system_error where the system has
/// no thread to give. A std::thread costs more than ten milliseconds of compile time for each function that it runs.
inline void start_thread(void* (*run)(void* argument), void* argument) {
    pthread_t thread{};
    const int refused = pthread_create(&thread, nullptr, run, argument);
    if (refused != 0) throw std::system_error(refused, std::generic_category(), "pthread_create");
    (void)pthread_detach(thread);
}

}  // namespace detail
PORTAMEM_CLOSE
