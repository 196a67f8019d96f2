/* SPDX-License-Identifier: MIT
 * portamem/abi/process_api.h: what the headers keep once in a process, or once in a thread, as C functions of libportamem.
 *
 * Headers are compiled into every module, and a static object of theirs exists in each. What has to be one lives behind
 * these functions: modules of the same headers share it, by a key that names them (portamem/process_object.hpp). It is the
 * private side of the headers, and may change with any version. */
#ifndef PORTAMEM_PROCESS_API_H
#define PORTAMEM_PROCESS_API_H

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Null where headers of that version may use this library; else a sentence that says what does not fit, and what to do. It
 * is the caller's thread's until its next call. The first call warns, on stderr, where the process has another libportamem
 * besides. Every version has this function. */
PORTAMEM_EXPORT const char* portamem_check_headers(uint32_t major, uint32_t minor);

/* The object of a key, which the first call makes; it is never taken down. Threads may come at once: one's object stays, and
 * `drop` takes the others'. Null where `make` answers null, or host memory is short. */
PORTAMEM_EXPORT void* portamem_process_object(const char* key, void* (*make)(void), void (*drop)(void*));

/* Where the calling thread keeps its object of a key: null at first, for the caller to fill. The place itself is the
 * thread's as long as it lives. When the thread ends, `end` is called with what is there, unless that is null, and the
 * place holds PORTAMEM_THREAD_ENDED from then on; so it does in a forked child, where nothing is ended. Null where there are too many keys, or host memory is short. */
PORTAMEM_EXPORT void** portamem_thread_place(const char* key, void (*end)(void*));
#define PORTAMEM_THREAD_ENDED ((void*)1)

/* Where the calling thread keeps the first of its uses of streams (portamem/stream_users.hpp), whichever module began it;
 * null there: it is within none. */
PORTAMEM_EXPORT void** portamem_stream_uses_of_thread(void);

#ifdef __cplusplus
}
#endif

#endif
