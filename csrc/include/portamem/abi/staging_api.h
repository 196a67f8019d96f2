/* SPDX-License-Identifier: MIT
 * portamem/abi/staging_api.h: the threads that carry large copies of host memory, as C functions of libportamem.
 *
 * Every function is thread-safe, and none throws. */
#ifndef PORTAMEM_STAGING_API_H
#define PORTAMEM_STAGING_API_H

#include <stddef.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns how many threads carry a large copy, by PORTAMEM_COPY_THREADS: 0 means that the runtime's own call does it.
 * Without the setting it is 0 where `by_default` is 0, and else half of the CPUs that the process may use, up to 8; one
 * thread alone is no gain, so 1 becomes 0 there. Returns -1 where the setting cannot be read, and then *unreadable is
 * its text. The setting is read once. */
PORTAMEM_EXPORT int portamem_copy_threads(int by_default, const char** unreadable);

/* Calls work(context, number) on up to `threads` threads at once, this one among them, and returns when all have
 * returned. Each number, from 0 on, is given to one thread at most, and 0 to this one: how many threads take part is
 * not certain, so `work` takes its share of a job until nothing is left of it. `work` must not throw. The process has
 * one set of helpers: while another call uses it, this thread works alone, and so it does in a forked child. */
PORTAMEM_EXPORT void portamem_on_threads(void (*work)(void* context, int number), void* context, int threads);

#ifdef __cplusplus
}
#endif

#endif
