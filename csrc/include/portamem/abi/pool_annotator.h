/* SPDX-License-Identifier: MIT
 * portamem/abi/pool_annotator.h: tells a memory checker which memory of a pool is in use.
 *
 * A checker sees the chunks that a pool takes from its upstream, and not the blocks in them. A write behind the end
 * of one block falls into another block, and is no error to it. An annotator tells the checker of the blocks. */
#ifndef PORTAMEM_POOL_ANNOTATOR_H
#define PORTAMEM_POOL_ANNOTATOR_H

#include <stddef.h>
#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Holds functions of a memory checker. Any thread may call them, and none throws. */
typedef struct portamem_pool_annotator {
    uint32_t size; /* sizeof this struct */
    /* A pool has got a chunk, and no code may touch it. Its address is aligned to 256 bytes. */
    void (*chunk)(void* ptr, size_t nbytes);
    /* The chunk goes back, and the pool has nothing more to say about it. */
    void (*chunk_gone)(void* ptr, size_t nbytes);
    /* These bytes of a chunk may be touched from now on. Some of them, and of their neighbours, may be in use
     * already, for an earlier block: bytes that were not reported unused stay in use. */
    void (*used)(void* ptr, size_t nbytes);
    /* No code may touch these bytes any more, and no queued work will. The range is one as in `used`, or a part of
     * one. */
    void (*unused)(void* ptr, size_t nbytes);
} portamem_pool_annotator;

/* Returns AddressSanitizer's functions where the program runs under it and it sees the uses of that memory: memory
 * that the host can reach, and all memory of the host backend. Returns null elsewhere. portamem itself need not be
 * compiled with it. */
PORTAMEM_EXPORT const portamem_pool_annotator* portamem_address_sanitizer(portamem_backend backend,
                                                                          int is_host_accessible);

/* Tells what AddressSanitizer has been told of memory. Returns how many of the `nbytes` bytes from `ptr` on are as the
 * first one is, and sets *is_unused to 1 where no code may touch them. All bytes are in use where the program does not
 * run under it, and on backends whose work it does not see. nbytes is not 0. */
PORTAMEM_EXPORT size_t portamem_address_sanitizer_run(portamem_backend backend, const void* ptr, size_t nbytes,
                                                      int* is_unused);

#ifdef __cplusplus
}
#endif

#endif
