/* SPDX-License-Identifier: MIT
 * portamem/abi/pool_annotator.h: which memory of a pool is in use, told to a memory checker.
 *
 * A checker sees the chunks that a pool takes from its upstream, and not the blocks in them: what is written behind the
 * end of one falls into another and is no error to it. An annotator tells it. */
#ifndef PORTAMEM_POOL_ANNOTATOR_H
#define PORTAMEM_POOL_ANNOTATOR_H

#include <stddef.h>
#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions of a memory checker. Any thread may call them, and none throws. */
typedef struct portamem_pool_annotator {
    uint32_t size; /* sizeof this struct */
    /* A pool has got a chunk, and nobody may touch it. Its address is aligned to 256 bytes. */
    void (*chunk)(void* ptr, size_t nbytes);
    /* The chunk goes back: it is no business of the pool's any more. */
    void (*chunk_gone)(void* ptr, size_t nbytes);
    /* These bytes of a chunk may be touched from now on. Some of them, and of their neighbours, may be in use already,
     * of a block that went before: what was not said to be unused stays in use. */
    void (*used)(void* ptr, size_t nbytes);
    /* Nobody may touch them any more, and no work that may is on its way: a range as in `used`, or a part of one. */
    void (*unused)(void* ptr, size_t nbytes);
} portamem_pool_annotator;

/* AddressSanitizer, where the program runs under it and sees the uses of that memory: memory that the host can reach,
 * and all memory of the host backend. Null elsewhere. portamem itself need not be compiled with it. */
PORTAMEM_EXPORT const portamem_pool_annotator* portamem_address_sanitizer(portamem_backend backend,
                                                                          int is_host_accessible);

#ifdef __cplusplus
}
#endif

#endif
