/* SPDX-License-Identifier: MIT
 * portamem/abi/pool_api.h: the machinery of memory pools in libportamem, as C functions.
 *
 * A pool carves blocks out of chunks that an upstream gives, and keeps for each stream what was freed on it. It
 * knows no vendor: it asks its owner, through portamem_pool_ops, for everything that touches a runtime or the
 * upstream. portamem::PoolMemoryResource is the class over it. This header is the private side of that class, and
 * may change with any version.
 *
 * Streams are known by identities that are never reused. In these functions `stream` is how the owner's callbacks
 * know the stream of the running call; the pool keeps no such pointer.
 *
 * Every function is thread-safe, and none throws. Callbacks run without the locks that allocating and freeing take,
 * except for `drop` and `forget`. Marks are made and waited for under a lock that only some calls take, those that
 * put everything together: they have found no memory, trim, close, or obey a release policy. */
#ifndef PORTAMEM_POOL_API_H
#define PORTAMEM_POOL_API_H

#include <stddef.h>
#include <stdint.h>

#include "portamem/abi/address_api.h"
#include "portamem/abi/order_api.h"
#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct portamem_pool portamem_pool;

/* Says why a call was refused. */
typedef enum portamem_pool_status {
    PORTAMEM_POOL_OK = 0,
    PORTAMEM_POOL_THROWN = 1,        /* a callback has failed; its owner knows why */
    PORTAMEM_POOL_OUT_OF_MEMORY = 2, /* the upstream has no memory; its owner knows why */
    PORTAMEM_POOL_LIMIT = 3,         /* the pool's limit, or one that it shares, is reached */
    PORTAMEM_POOL_INVALID = 4,       /* misuse, and portamem_pool_error says which */
    PORTAMEM_POOL_HOST_MEMORY = 5,   /* no host memory for the pool's own records */
    PORTAMEM_POOL_FORKED = 6,
    PORTAMEM_POOL_BUSY = 7, /* memory is out, or another thread is inside a call; of a stream: not to be marked now */
    PORTAMEM_POOL_GONE = 8  /* the stream was destroyed unannounced, and cannot be marked any more */
} portamem_pool_status;

/* Tells the pool about a stream. */
typedef struct portamem_pool_stream {
    void* ref;              /* callbacks find the stream by it later, while it lives; given back by `forget` */
    int ends_unseen;        /* the pool is not told when it ends: everything freed on it is marked at once */
    int is_per_thread;      /* only its own thread can mark it */
    int is_marked_in_calls; /* only in calls on it, because its handle may be gone between them */
} portamem_pool_stream;

/* See `keep`. */
#define PORTAMEM_POOL_ASK_LATER (SIZE_MAX - 1)

/* Lists the functions by which a pool asks its owner; `self` is the owner. A function that returns int returns a
 * portamem_pool_status unless its comment says otherwise. An event is a mark in a stream: it stands behind all work
 * submitted before it. */
typedef struct portamem_pool_ops {
    uint32_t size; /* sizeof this struct */
    /* Gives a chunk, aligned to 256 bytes, that work submitted to `stream` from now on may use. */
    int (*allocate)(void* self, size_t nbytes, void* stream, void** ptr);
    /* Takes back a chunk that no work uses any more. */
    int (*deallocate)(void* self, void* ptr, size_t nbytes);
    /* Describes a stream. Refuses a stream that the pool cannot follow: closed, of another device, another thread's
     * own. */
    int (*describe)(void* self, void* stream, portamem_pool_stream* about);
    void (*forget)(void* self, void* ref);
    /* Returns 1 while the stream is captured, 0 while it is not, and -1 where it failed. */
    int (*is_captured)(void* self, void* stream);
    /* Makes a new event at the end of a stream, named by `ref`, or by `stream` where ref is null. A null event means
     * that there is nothing to wait for. Refuses a stream that cannot be marked now. */
    int (*mark)(void* self, void* ref, void* stream, void** event);
    /* Makes work submitted to `stream` later wait for the event. */
    int (*wait)(void* self, void* stream, void* event);
    /* Returns 1 when the event has happened, 0 when it has not yet, and -1 where it failed. */
    int (*query)(void* self, void* event);
    /* Waits for the event. With null it waits for all work of the device: for memory freed on a per-thread default
     * stream, which only that thread can mark. */
    int (*synchronize)(void* self, void* event);
    /* Takes back an event that the pool has no use for. It may be called under the pool's locks, so it makes no
     * runtime call and takes only a leaf lock. For a closed pool `self` is null, and no lock of the pool is held. */
    void (*drop)(void* self, void* event);
    /* Is asked after memory came back: how many of the reserved bytes to keep. SIZE_MAX keeps all.
     * PORTAMEM_POOL_ASK_LATER is no answer yet: portamem_pool_release_due asks again. A null function keeps all. */
    size_t (*keep)(void* self, size_t reserved);
    /* Is called before the upstream is asked for *nbytes. It takes room under a limit that several pools share: if
     * need be for less, but not for less than `least`, where it returns PORTAMEM_POOL_LIMIT. A null function means
     * that there is no such limit. */
    int (*claim)(void* self, size_t least, size_t* nbytes);
    /* Gives back room for bytes that are not reserved any more, or never were. */
    void (*unclaim)(void* self, size_t nbytes);
    /* Is called when a call is over, with its status and with no lock held. Objects that callbacks could not let go
     * of inside of the call may go now; unless may_block is set, on another thread. Null: nothing to do. */
    void (*rest)(void* self, int status, int may_block);
    /* Is called while order is checked: memory that was freed behind the event, which has happened, may go to any
     * stream now. Null: the owner does not check. */
    void (*happened)(void* self, void* event, const portamem_order_range* ranges, size_t count);
    /* Is called when memory that `keep` wants gone waits for work, or `keep` is to be asked later. The owner then
     * has portamem_pool_release_due called, by any thread, again and again until it returns 1. Returns a status;
     * with any but OK it will not be called. A null function means the same. */
    int (*later)(void* self);
    /* Returns 1 where all work submitted to the stream has run, and all work that an event recorded on it now would
     * wait for. Memory freed on it then waits for no event. Returns 0 where it has not, or where that cannot be told
     * now. No lock is held. Null: cannot be told. */
    int (*has_run)(void* self, void* stream);
    /* Is called when another pool's call is about to take idle memory of this one. It keeps the owner, and the
     * calling thread's failures of callbacks, until `let_go` of what it returns. A null result means that the owner
     * ends. A null function means that the owner outlives every call. */
    void* (*hold)(void* self);
    void (*let_go)(void* held);
} portamem_pool_ops;

typedef struct portamem_pool_options {
    uint32_t size;       /* sizeof this struct */
    size_t limit;        /* most bytes reserved; 0: none */
    int host_accessible; /* freed memory is handed out again only when the work before its free has run */
    int stream_ordered;  /* the upstream's memory may be used on the stream of its allocation only */
    int is_of_device;    /* the memory is on `device` of `backend`: portamem_pools_idle counts the pool */
    portamem_backend backend;
    int device;         /* -1: host memory */
    int shares_idle;    /* before others refuse a call for that memory, they have this pool give back what is idle */
    size_t granularity; /* the upstream takes memory in multiples of so many bytes; 0: of 1 */
} portamem_pool_options;

typedef struct portamem_pool_figures {
    uint32_t size;         /* sizeof this struct, set by the caller */
    uint64_t used;         /* bytes that are out, as asked for */
    uint64_t live;         /* blocks that are out */
    uint64_t reserved;     /* bytes held of the upstream */
    uint64_t peak;         /* the most that were reserved at once since reset_peak */
    uint64_t largest_free; /* bytes of the largest block that is free */
    uint64_t free_blocks;
    uint64_t free_bytes;
    uint64_t hits;     /* allocations from what the pool had */
    uint64_t misses;   /* allocations that the upstream was asked for */
    uint64_t steals;   /* times that a stream took over what was freed on another */
    uint64_t releases; /* chunks that went back to the upstream */
    uint64_t chunks;
    uint64_t marks;  /* events that were recorded */
    uint64_t arenas; /* streams that something is kept for */
} portamem_pool_figures;

/* Describes a piece of a chunk. `stream` is the stream that it was freed on; 0: no stream uses it. */
typedef enum portamem_pool_piece_state {
    PORTAMEM_POOL_PIECE_FREE = 0,
    PORTAMEM_POOL_PIECE_CACHED = 1, /* free, in a thread's cache or behind an event */
    PORTAMEM_POOL_PIECE_LIVE = 2,
    PORTAMEM_POOL_PIECE_SLAB = 3 /* small blocks of one size, `blocks` of which `live` are out */
} portamem_pool_piece_state;

typedef struct portamem_pool_piece {
    uint64_t chunk; /* address */
    uint64_t chunk_bytes;
    uint64_t address;
    uint64_t nbytes;
    uint64_t stream;
    uint32_t state;
    uint32_t blocks;
    uint32_t live;
    uint64_t block_bytes;
} portamem_pool_piece;

typedef void (*portamem_pool_visitor)(void* self, const portamem_pool_piece* piece);

/* Makes a pool; returns null where there is no host memory. ops must stay valid as long as the pool. */
PORTAMEM_EXPORT portamem_pool* portamem_pool_create(const portamem_pool_ops* ops, void* self,
                                                    const portamem_pool_options* options);

/* Waits until no work uses the free memory, gives it to the upstream, and ends the pool. Chunks with memory that is
 * out, or that cannot be waited for, are never given back. */
PORTAMEM_EXPORT void portamem_pool_destroy(portamem_pool* pool);

/* Closes the pool as it is, and leaks all that it has: the owner is gone and may not be called any more. */
PORTAMEM_EXPORT void portamem_pool_abandon(portamem_pool* pool);

/* Returns nbytes aligned to 256 bytes, for work submitted to the stream from now on. Returns null where nbytes is 0,
 * and on a refusal; portamem_pool_error tells which. */
PORTAMEM_EXPORT void* portamem_pool_allocate(portamem_pool* pool, size_t nbytes, uint64_t identity, void* stream);
/* Does the same for an alignment, which is a power of two. */
PORTAMEM_EXPORT void* portamem_pool_allocate_aligned(portamem_pool* pool, size_t nbytes, size_t alignment,
                                                     uint64_t identity, void* stream);
PORTAMEM_EXPORT int portamem_pool_deallocate(portamem_pool* pool, void* ptr, size_t nbytes, uint64_t identity,
                                             void* stream);

/* Do the same where the calling thread's cache serves, or, above 1 MiB, what its stream has freed: no callback runs
 * but `drop`. The call waits for no device, and at most for the lock of the pool's heap. They return null, or 0, where
 * neither serves: nothing was done, and there is no portamem_pool_error. That is so in a forked child, whose threads
 * have no caches. */
PORTAMEM_EXPORT void* portamem_pool_allocate_cached(portamem_pool* pool, size_t nbytes, uint64_t identity);
PORTAMEM_EXPORT int portamem_pool_deallocate_cached(portamem_pool* pool, void* ptr, size_t nbytes, uint64_t identity);

/* Gives a block that is out another size at the same address, for work submitted to the stream from now on: within the
 * block's unused bytes, or with free memory behind it. No callback runs. Returns 0, and has done nothing, where that
 * cannot be, or where the block is not out for `from` bytes. */
PORTAMEM_EXPORT int portamem_pool_resize(portamem_pool* pool, void* ptr, size_t from, size_t to, uint64_t identity);

/* Returns the bytes that were asked for at an address that the pool gave and that is out; 0 for any other address. It
 * takes no lock, except for a block cut to the byte under a limit, and for one that is not out. */
PORTAMEM_EXPORT size_t portamem_pool_size_of(portamem_pool* pool, const void* ptr);
/* Returns what the pool knows of an address, which may be inside of a block, as *found and its state. It goes back page
 * by page to the beginning of the block, and finds a block cut to the byte by that alone. */
PORTAMEM_EXPORT int portamem_pool_find(portamem_pool* pool, const void* ptr, portamem_address* found);

/* Set, show and forget the resource that the pool's blocks are found with (portamem/abi/address_api.h). It is set
 * before the first chunk, and shown before the program has the first block. forget waits until no thread reads it.
 * cover says that a resource of PORTAMEM_OVER_POOL stands over the pool. */
PORTAMEM_EXPORT void portamem_pool_set_resource(portamem_pool* pool, const portamem_known_ops* ops, void* resource,
                                                uint64_t identity);
PORTAMEM_EXPORT void portamem_pool_show_resource(portamem_pool* pool);
PORTAMEM_EXPORT void portamem_pool_forget_resource(portamem_pool* pool);
PORTAMEM_EXPORT void portamem_pool_cover(portamem_pool* pool);

/* Changes the most bytes that may be reserved; 0: no limit of the pool's own. Nothing goes back: a pool that has more
 * asks its upstream for no chunk until it has less. */
PORTAMEM_EXPORT void portamem_pool_set_limit(portamem_pool* pool, size_t limit);
PORTAMEM_EXPORT size_t portamem_pool_get_limit(const portamem_pool* pool);

/* Does what portamem_pool_deallocate_cached does for a block that is known by its address alone. */
PORTAMEM_EXPORT int portamem_pool_deallocate_at(portamem_pool* pool, void* ptr, uint64_t identity);

/* Tells that the stream has ended, behind an event that becomes the pool's (null: nothing to wait for). */
PORTAMEM_EXPORT void portamem_pool_stream_ended(portamem_pool* pool, uint64_t identity, void* event);

/* Gives to the upstream the memory that `keep` wanted gone and work has kept until now. It waits for nothing and
 * marks no stream. Returns 1 when nothing more is due. */
PORTAMEM_EXPORT int portamem_pool_release_due(portamem_pool* pool);
/* Makes nothing due any more. It does not wait for a thread that is inside of portamem_pool_release_due. */
PORTAMEM_EXPORT void portamem_pool_call_off_due(portamem_pool* pool);
/* Gives whole chunks to the upstream until at most `keep` bytes are reserved. */
PORTAMEM_EXPORT int portamem_pool_trim(portamem_pool* pool, size_t keep);
/* Does the same, but waits for the work of one stream only, as far as the upstream waits for none. What is free on
 * other streams goes too where its work has run, and stays at hand there where it has not. stream: null for one that is
 * closed, or another thread's own. */
PORTAMEM_EXPORT int portamem_pool_trim_stream(portamem_pool* pool, uint64_t identity, void* stream, size_t keep);
/* Does trim(0) for good, where nothing is out; returns PORTAMEM_POOL_BUSY otherwise. Closing twice is allowed. */
PORTAMEM_EXPORT int portamem_pool_close(portamem_pool* pool);
PORTAMEM_EXPORT int portamem_pool_is_closed(const portamem_pool* pool);
/* Returns 1 while a call of another pool, on another thread, gives back what is idle here. portamem_pool_close
 * returns BUSY for so long. */
PORTAMEM_EXPORT int portamem_pool_is_lending(const portamem_pool* pool);

PORTAMEM_EXPORT void portamem_pool_stats(portamem_pool* pool, portamem_pool_figures* figures);
/* Gives the blocks and bytes that are out: a part of stats that costs little. */
PORTAMEM_EXPORT void portamem_pool_live(portamem_pool* pool, uint64_t* blocks, uint64_t* nbytes);
/* Gives the bytes that are reserved now, and at most; it costs little too. */
PORTAMEM_EXPORT void portamem_pool_reserved(portamem_pool* pool, uint64_t* reserved, uint64_t* peak);
/* Returns the bytes of a device that the pools of the process have reserved and that are not out. */
PORTAMEM_EXPORT uint64_t portamem_pools_idle(portamem_backend backend, int device);
/* Returns those of the pools that share their idle memory; device -1: of host memory. It is 0 on a thread that is in a
 * call of a pool of that memory, because that pool asks the others itself. */
PORTAMEM_EXPORT uint64_t portamem_pools_lendable(portamem_backend backend, int device);
/* Has these pools give back what is idle, one after the other, until nbytes have gone back, and waits for nothing.
 * Returns how many have. */
PORTAMEM_EXPORT uint64_t portamem_pools_lend(portamem_backend backend, int device, size_t nbytes);
PORTAMEM_EXPORT void portamem_pool_reset_peak(portamem_pool* pool);
/* Shows every piece of every chunk, by address, as it was at one moment, with no lock held. Returns 0, or
 * PORTAMEM_POOL_HOST_MEMORY. */
PORTAMEM_EXPORT int portamem_pool_snapshot(portamem_pool* pool, portamem_pool_visitor visitor, void* self);

/* Visits the pieces of one chunk that are out, and slabs with blocks that are out, in the order of their addresses.
 * Returns 0 where no pool of the backend has just these bytes as a chunk, and where there is no host memory: the caller
 * then takes all of them for used. A smaller chunk at the same address is another pool's, over a resource that cuts the
 * memory up. */
PORTAMEM_EXPORT int portamem_pool_used_parts(portamem_backend backend, const void* chunk, size_t nbytes,
                                             portamem_pool_visitor visitor, void* self);

/* Returns the status of the latest call on this thread that was refused. The text is valid until the next such call. */
PORTAMEM_EXPORT int portamem_pool_error(const char** text);

#ifdef __cplusplus
}
#endif

#endif
