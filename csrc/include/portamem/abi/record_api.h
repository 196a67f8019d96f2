/* SPDX-License-Identifier: MIT
 * portamem/abi/record_api.h: the recorder of libportamem, as C functions.
 *
 * A recorder is told of allocations and frees.
 * - It keeps what is live, with where and when it was allocated. It counts in all and by resource, tag and thread.
 *   It may write a log, one JSON object a line.
 * - One recorder may be the process's: PORTAMEM_LOG and PORTAMEM_STATS ask for it, and every call on every resource
 *   goes to it. The adaptors that watch memory have one each.
 *
 * Every function is thread-safe, and none throws. In a child of fork() they do nothing. */
#ifndef PORTAMEM_RECORD_API_H
#define PORTAMEM_RECORD_API_H

#include <stddef.h>
#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct portamem_recorder portamem_recorder;

/* Is non-zero while the process may have a recorder. Resources read it, relaxed, at each call. */
PORTAMEM_EXPORT extern int portamem_record_on;

/* Counts the recorders that want to know where in the program a call is made. It is read relaxed. */
PORTAMEM_EXPORT extern int portamem_record_sites;

/* Says what a recorder does beside counting. */
enum {
    PORTAMEM_RECORD_SITES = 1, /* notes where in the program memory was allocated */
    PORTAMEM_RECORD_REPORT = 2 /* prints to stderr what is live when it is closed, or the process exits */
};

enum { PORTAMEM_STREAM_OWN = 0, PORTAMEM_STREAM_LEGACY = 1, PORTAMEM_STREAM_PER_THREAD = 2 };

/* Represents a resource as a recorder knows it. The texts live as long as the program. */
typedef struct portamem_record_resource {
    uint64_t identity;
    const char* type; /* the class, as typeid names it */
    const char* kind;
    portamem_backend backend;
    int device;
} portamem_record_resource;

/* Represents one call on a resource. For an allocation `ptr` is filled in when it has succeeded. Begin fills in the
 * last part. */
typedef struct portamem_record_call {
    portamem_record_resource resource;
    uint64_t stream; /* its identity */
    int stream_device;
    int stream_role;
    void* ptr;
    size_t nbytes;
    size_t alignment; /* 0 where none was named */
    const char* site; /* where in the program, during the call only; null: the native caller */

    size_t live_nbytes; /* of a free: the size that was allocated */
    uint64_t started;
    uint64_t sequence;
    uint64_t taken[3];
    int64_t taken_time;
    int is_taken;
    int depth; /* calls of resources that this thread is in */
} portamem_record_call;

/* Opens a recorder. `log` is null, or the path of a log, in which %r is the rank, %h the host's name, %p the process
 * and %% a percent sign. Returns null where the log cannot be written, with the reason in `why`. */
PORTAMEM_EXPORT portamem_recorder* portamem_recorder_open(unsigned flags, const char* log, char* why, size_t why_size);
/* Ends the log, reports where that is asked for, and forgets everything. Null is accepted. */
PORTAMEM_EXPORT void portamem_recorder_close(portamem_recorder* recorder);
/* Ends the log: nothing is written after it. */
PORTAMEM_EXPORT void portamem_recorder_end(portamem_recorder* recorder);
/* Hands what is written so far to the system. Returns 0, or an errno value. */
PORTAMEM_EXPORT int portamem_recorder_flush(portamem_recorder* recorder);
/* Returns the log's path as it was opened; it is empty where there is none. It lives as long as the recorder. */
PORTAMEM_EXPORT const char* portamem_recorder_path(const portamem_recorder* recorder);
/* Returns the process's recorder, or null, and then the caller need not ask again. The first call reads the
 * environment. */
PORTAMEM_EXPORT portamem_recorder* portamem_record_process(void);
/* Reads the settings of the environment that the first call needs, and opens nothing. */
PORTAMEM_EXPORT void portamem_record_prepare(void);

/* Are called around an allocation: begin, and then one of the next two. */
PORTAMEM_EXPORT void portamem_record_begin(portamem_recorder* recorder, portamem_record_call* call);
PORTAMEM_EXPORT void portamem_record_allocated(portamem_recorder* recorder, portamem_record_call* call);
PORTAMEM_EXPORT void portamem_record_refused(portamem_recorder* recorder, portamem_record_call* call, const char* why);

/* Are called around a free. begin comes before it, so that no other thread gets the address first, and returns
 * whether the memory is known. freed follows, with the reason where the memory was not freed. */
enum { PORTAMEM_FREE_KNOWN = 0, PORTAMEM_FREE_UNKNOWN = 1, PORTAMEM_FREE_OTHER_SIZE = 2 };
PORTAMEM_EXPORT int portamem_record_free_begin(portamem_recorder* recorder, portamem_record_call* call);
PORTAMEM_EXPORT void portamem_record_freed(portamem_recorder* recorder, portamem_record_call* call, const char* why);

/* used: another stream uses memory from now on. closed: a resource was closed. */
PORTAMEM_EXPORT void portamem_record_used(portamem_recorder* recorder, portamem_record_call* call);
PORTAMEM_EXPORT void portamem_record_closed(portamem_recorder* recorder, const portamem_record_resource* resource);

/* Counts allocations and their bytes. Allocations of 0 bytes count in total_count alone. */
typedef struct portamem_record_counts {
    int64_t current_bytes, current_count; /* negative in a scope that frees more than it allocates */
    int64_t peak_bytes, peak_count;
    int64_t total_bytes, total_count;
    int64_t failed_count;
} portamem_record_counts;

/* Gives the counts of a scope; scope 0 is the recorder's life. Returns 0, or -1 for a scope that is not open. */
PORTAMEM_EXPORT int portamem_recorder_counts(portamem_recorder* recorder, uint64_t scope,
                                             portamem_record_counts* counts);
/* Opens a scope, which counts from 0 on every thread. Returns its number, or 0 where there is no memory for it. */
PORTAMEM_EXPORT uint64_t portamem_recorder_scope_begin(portamem_recorder* recorder);
PORTAMEM_EXPORT int portamem_recorder_scope_end(portamem_recorder* recorder, uint64_t scope);
/* Starts the peaks again at the current figures, in scopes too. */
PORTAMEM_EXPORT void portamem_recorder_reset_peak(portamem_recorder* recorder);

/* Shows the counts of each tag, named by `text`, or of each thread, by the system's number, with no lock held.
 * Returns 0, or -1 where there is no memory for it. */
enum { PORTAMEM_COUNTS_BY_TAG = 0, PORTAMEM_COUNTS_BY_THREAD = 1 };
typedef void (*portamem_counts_visitor)(void* self, const char* text, uint64_t number,
                                        const portamem_record_counts* counts);
PORTAMEM_EXPORT int portamem_recorder_visit_counts(portamem_recorder* recorder, int by, portamem_counts_visitor visitor,
                                                   void* self);

/* Represents a live allocation. It is valid during the visitor's call. */
typedef struct portamem_record_live {
    void* ptr;
    size_t nbytes;
    uint64_t stream; /* its identity */
    int stream_device;
    int64_t time;    /* nanoseconds since 1970 */
    uint64_t thread; /* the system's number */
    const char* tag;
    const char* site; /* empty where it was not noted */
} portamem_record_live;
typedef void (*portamem_live_visitor)(void* self, const portamem_record_live* live);
/* Shows every live allocation, the oldest first, with no lock held. Returns 0, or -1 where there is no memory for
 * it. */
PORTAMEM_EXPORT int portamem_recorder_visit_live(portamem_recorder* recorder, portamem_live_visitor visitor,
                                                 void* self);

/* Returns the bytes of the live allocation of a resource at an address; 0 where there is none. */
PORTAMEM_EXPORT size_t portamem_recorder_size_of(portamem_recorder* recorder, uint64_t resource, const void* ptr);

/* Registers a function that says whether memory was dropped and only waits for the work that uses it. Reports and
 * tables leave such memory out. It stays for good, and each module of the process calls this once. */
PORTAMEM_EXPORT void portamem_record_leaving(int (*is_leaving)(const void* ptr, size_t nbytes));

/* push tags what the calling thread allocates, until pop. Within another tag it becomes a part of that one:
 * "solver/setup". push returns the tag's number, or 0 where there is no memory for one more. pop takes that number.
 * It returns 0; 1 where tags that were pushed later are open, which stay as they are; -1 where the tag is not open
 * on this thread. */
PORTAMEM_EXPORT uint64_t portamem_tag_push(const char* name);
PORTAMEM_EXPORT int portamem_tag_pop(uint64_t number);
/* Returns the thread's tag; it is empty where there is none. It lives as long as the program. */
PORTAMEM_EXPORT const char* portamem_tag_current(void);

#ifdef __cplusplus
}
#endif

#endif
