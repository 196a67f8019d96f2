/* SPDX-License-Identifier: MIT
 * portamem/abi/order_api.h: the order checker of libportamem, as C functions.
 *
 * While a session is open, runtime calls are followed with vector clocks: uses of memory that no order covers are
 * findings. Only the host backend's runtime is followed. PORTAMEM_CHECK=1 opens a session for the whole process, which
 * prints each finding to stderr when it is found, and their number at exit where there are any.
 *
 * Every function is thread-safe and none throws. In a child of fork() there is no session. */
#ifndef PORTAMEM_ORDER_API_H
#define PORTAMEM_ORDER_API_H

#include <stddef.h>
#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Describes one of the two uses of memory in a finding. */
typedef struct portamem_order_use {
    const char* call;   /* the runtime call, without its prefix: "MemcpyAsync" */
    const char* site;   /* where it was made: "file:line" in Python, else symbol and offset */
    const char* stream; /* as text */
    uint64_t handle;    /* of the stream; 0 for default streams and for the host */
    int device;         /* of the stream; -1 for the host */
} portamem_order_use;

/* Describes a finding. It is valid during the visitor's call. */
typedef struct portamem_order_finding {
    uint32_t size;      /* sizeof this struct as the library was built */
    const char* kind;   /* "use before allocation is ordered", "free while in use", ... */
    const char* advice; /* what to do about it */
    const char* text;   /* all of it as lines of text */
    uint64_t address;   /* of the first bytes that both uses touched, when it was found first */
    uint64_t nbytes;
    uint64_t count; /* how often the same two places did it */
    portamem_order_use first, second;
} portamem_order_finding;

typedef void (*portamem_order_visitor)(void* self, const portamem_order_finding* finding);

/* Opens a session; sessions may be nested and opened by several threads. Returns its number, or 0 where the calls of
 * that backend are not followed. */
PORTAMEM_EXPORT uint64_t portamem_order_begin(portamem_backend backend);

/* Shows each finding of a session so far to the visitor, with no lock held. Returns 0, or -1 for a session that is
 * not open. */
PORTAMEM_EXPORT int portamem_order_visit(uint64_t session, portamem_order_visitor visitor, void* self);

/* Closes a session. Returns 0, or -1 for a session that is not open. */
PORTAMEM_EXPORT int portamem_order_end(uint64_t session);

/* Returns whether a session is open, PORTAMEM_CHECK's included, and the calls of that backend are followed. */
PORTAMEM_EXPORT int portamem_order_is_on(portamem_backend backend);

/* Finds where the calling thread is in a program of another language. It writes "file:line" and a null byte and
 * returns 1, or returns 0 where the thread runs no such program. It is asked before any lock is taken, never in a
 * forked child or a host function, and must not block. A null provider means that there is none. */
typedef int (*portamem_order_site_provider)(char* text, size_t size);
PORTAMEM_EXPORT void portamem_order_set_site_provider(portamem_order_site_provider provider);

/* Between begin and end, on this thread, asking an event or a stream is no news to the program: portamem asks on its
 * own behalf, and the answer depends on how fast the work runs. */
PORTAMEM_EXPORT void portamem_order_own_queries_begin(void);
PORTAMEM_EXPORT void portamem_order_own_queries_end(void);

typedef struct portamem_order_range {
    const void* ptr;
    size_t nbytes;
} portamem_order_range;

/* Has an effect between begin and end: when an event is asked from here on and has happened, the work before it uses
 * these ranges no more. portamem calls it for memory that goes to another owner, where that would not have happened
 * before the event. The order in that does not depend on how fast the work runs. The ranges are read until the end. */
PORTAMEM_EXPORT void portamem_order_own_queries_about(const portamem_order_range* ranges, size_t count);

#ifdef __cplusplus
}
#endif

#endif
