/* SPDX-License-Identifier: MIT
 * portamem/abi/host_pages.h: prefaulted pages of the host, as C functions of libportamem.
 *
 * A runtime allocates pinned memory on one thread and with small pages. Pages that are resident already, touched by
 * several threads and as huge ones, are registered in a fraction of that time.
 *
 * Every function is thread-safe, and none throws. */
#ifndef PORTAMEM_HOST_PAGES_H
#define PORTAMEM_HOST_PAGES_H

#include <stddef.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns resident pages of zeros, private to the process, for at least nbytes. They are huge where the system
 * allows it, and aligned to a huge page from the size of one on.
 * - numa_node: the pages come from that node while it has any. -1, a node that has no CPUs of its own (a GPU's
 *   memory can be one), and a node that the process may not use mean that the system chooses.
 * - A child of fork() has a copy of its own, made at the fork where devices write to the pages. Kernels before 5.12
 *   would take the pages from the parent's devices instead: there the child has no such pages, and dies where it
 *   reads them.
 * - Returns null where the system gives no addresses, or where it or a control group of the process (a container's
 *   limit) has less available than that. Nothing is left behind then. Memory that other processes take meanwhile is
 *   not noticed: the system ends a process for which there is none. */
PORTAMEM_EXPORT void* portamem_pages_map(size_t nbytes, int numa_node);

/* Gives them back; nbytes is the size that was asked for. */
PORTAMEM_EXPORT void portamem_pages_unmap(void* pages, size_t nbytes);

#ifdef __cplusplus
}
#endif

#endif
