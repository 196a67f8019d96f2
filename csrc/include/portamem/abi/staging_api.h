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

enum { PORTAMEM_HOST_RUNS_MOST_DIMS = 64 };

/* Host memory as runs of bytes of one size, such as the rows of an array. Neighbours along dimension d are strides[d]
 * bytes apart, of counts[d] runs each; the outermost dimension is the first. The bytes of all runs, in this order, are
 * what a copy moves. */
typedef struct portamem_host_runs {
    void* first;
    size_t run;  /* bytes */
    size_t dims; /* up to PORTAMEM_HOST_RUNS_MOST_DIMS; 0: there is one run */
    const size_t* counts;
    const ptrdiff_t* strides;
} portamem_host_runs;

/* One copy between host memory and a ring. The copy is cut into blocks of block_bytes, the last one shorter. Block
 * `number` has the place number % places of the ring, where it may be moved once the block that was there before is
 * needed no more. */
typedef struct portamem_move {
    portamem_host_runs host; /* only read where to_ring is not 0 */
    void* ring;              /* places * place_bytes */
    size_t place_bytes;      /* from one place to the next */
    size_t block_bytes;      /* 1 to place_bytes */
    size_t places;           /* 1 to PORTAMEM_MOVE_MOST_PLACES */
    int to_ring;             /* 0: from the ring to the host */
} portamem_move;

enum { PORTAMEM_MOVE_MOST_PLACES = 16 };

typedef struct portamem_mover portamem_mover;

/* Begins to move bytes with up to `threads` threads, the caller's among them; no block may be moved yet. The process
 * has one set of helpers: while another copy uses it, the caller moves all bytes by portamem_move_help, and so it does
 * in a forked child, which has no helpers. Both memories must stay until portamem_move_end. Returns null where host
 * memory is short. */
PORTAMEM_EXPORT portamem_mover* portamem_move_begin(const portamem_move* move, int threads);

/* Lets the first `blocks` blocks be moved. What was written to them before this call, the helpers see. */
PORTAMEM_EXPORT void portamem_move_allow(portamem_mover* mover, size_t blocks);

/* Moves one piece of a block on this thread. Where there is none it waits for a moment, and returns 0. */
PORTAMEM_EXPORT int portamem_move_help(portamem_mover* mover);

/* Returns whether all bytes of a block have been moved. */
PORTAMEM_EXPORT int portamem_move_is_done(const portamem_mover* mover, size_t block);

/* Returns when no helper uses the memory any more, also where not all blocks were moved. The mover is gone then. */
PORTAMEM_EXPORT void portamem_move_end(portamem_mover* mover);

#ifdef __cplusplus
}
#endif

#endif
