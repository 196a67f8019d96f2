/* SPDX-License-Identifier: MIT
 * portamem/abi/host_pages.h: prefaulted pages of the host, and who asks for them, as C functions of libportamem.
 *
 * What a runtime does for pinned memory, it does on one thread and with small pages. Pages that are resident already,
 * touched by several threads and as huge ones, are registered in a fraction of that time.
 *
 * Every function is thread-safe and none throws. */
#ifndef PORTAMEM_HOST_PAGES_H
#define PORTAMEM_HOST_PAGES_H

#include <stddef.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Resident pages of zeros, private to the process, for at least nbytes: huge ones where the system allows it, aligned to
 * them from one huge page on. numa_node: where they come from while that node has any; -1, a node that has no CPUs of
 * its own (a GPU's memory can be one) and one that the process may not use mean that the system chooses.
 * A child of fork() has a copy of its own, made at the fork where devices write to the pages. Kernels before 5.12 would
 * take them from the parent's devices instead: there the child has no such pages, and dies where it reads them.
 * Null where the system gives no addresses, or where it or a control group of the process (a container's limit) has less
 * available than that; nothing is left behind then. Memory that others take meanwhile is not noticed: the system ends a
 * process for which there is none. */
PORTAMEM_EXPORT void* portamem_pages_map(size_t nbytes, int numa_node);

/* Gives them back; nbytes as they were asked for. */
PORTAMEM_EXPORT void portamem_pages_unmap(void* pages, size_t nbytes);

/* Whether the calling thread asks a resource for memory that it will cut up itself: such requests are worth whole pages,
 * and each resource in between is called as always. A hint: what is given is the same to who uses it. want answers what it
 * was before. */
PORTAMEM_EXPORT int portamem_want_chunks(int wanted);
PORTAMEM_EXPORT int portamem_chunks_wanted(void);

#ifdef __cplusplus
}
#endif

#endif
