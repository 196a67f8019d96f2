/* SPDX-License-Identifier: MIT
 * portamem/abi/process_api.h: what a process or a thread keeps once for the headers, as C functions of libportamem.
 *
 * Headers are compiled into every module, and each module has its own copy of their static objects. Objects that
 * must exist once live behind these functions. Modules of the same headers share them, by a key that names them
 * (portamem/process_object.hpp). This is the private side of the headers, and may change with any version. */
#ifndef PORTAMEM_PROCESS_API_H
#define PORTAMEM_PROCESS_API_H

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns null where headers of that version may use this library, or else a sentence that says what does not fit,
 * and what to do. The calling thread may read it until its next call. The first call warns on stderr where the
 * process has another libportamem besides. Every version has this function. */
PORTAMEM_EXPORT const char* portamem_check_headers(uint32_t major, uint32_t minor);

/* Returns the object of a key, which the first call makes and which is never destroyed. Threads may come at once:
 * one object stays, and `drop` destroys the rest. Returns null where `make` returns null, or host memory is short. */
PORTAMEM_EXPORT void* portamem_process_object(const char* key, void* (*make)(void), void (*drop)(void*));

/* Returns where the calling thread keeps its object of a key: null at first, for the caller to fill. The place is
 * the thread's as long as it lives. When the thread ends, `end` is called with the object, unless that is null, and
 * the place holds PORTAMEM_THREAD_ENDED from then on. It does so in a forked child too, where nothing is ended.
 * Returns null where there are too many keys, or host memory is short. */
PORTAMEM_EXPORT void** portamem_thread_place(const char* key, void (*end)(void*));
#define PORTAMEM_THREAD_ENDED ((void*)1)

/* Returns where the calling thread keeps the first of its uses of streams (portamem/stream_users.hpp), whichever
 * module began it. Null there means that the thread is within no use. */
PORTAMEM_EXPORT void** portamem_stream_uses_of_thread(void);

#ifdef __cplusplus
}
#endif

#endif
