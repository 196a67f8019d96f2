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

/* Copies host memory to host memory with up to `threads` threads, this one among them, and returns when every byte is
 * there. The process has one set of helpers: while another call uses it, this one copies alone, and so it does in a
 * forked child, which has no helpers. The two ranges must not overlap. */
PORTAMEM_EXPORT void portamem_copy_bytes(void* dst, const void* src, size_t nbytes, int threads);

#ifdef __cplusplus
}
#endif

#endif
