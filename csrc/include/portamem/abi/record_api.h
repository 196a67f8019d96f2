/* SPDX-License-Identifier: MIT
 * portamem/abi/record_api.h: the recorder of libportamem, as C functions.
 *
 * A recorder is told of allocations and frees. It keeps what is live, with where and when it was allocated; counts, in
 * all and by resource, tag and thread; and may write a log, one JSON object a line. One recorder may be the process's:
 * PORTAMEM_LOG and PORTAMEM_STATS ask for it, and every call on every resource goes to it. The adaptors that watch
 * memory have one each.
 *
 * Every function is thread-safe and none throws. In a child of fork() they do nothing. */
#ifndef PORTAMEM_RECORD_API_H
#define PORTAMEM_RECORD_API_H

#include <stddef.h>
#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct portamem_recorder portamem_recorder;

/* Non-zero while the process may have a recorder: resources read it, relaxed, at each call. */
PORTAMEM_EXPORT extern int portamem_record_on;

/* Recorders that want to know where in the program a call is made; read relaxed. */
PORTAMEM_EXPORT extern int portamem_record_sites;

/* What a recorder does beside counting. */
enum {
    PORTAMEM_RECORD_SITES = 1, /* notes where in the program memory was allocated */
    PORTAMEM_RECORD_REPORT = 2 /* prints to stderr what is live when it is closed, or the process exits */
};

enum { PORTAMEM_STREAM_OWN = 0, PORTAMEM_STREAM_LEGACY = 1, PORTAMEM_STREAM_PER_THREAD = 2 };

/* A resource as a recorder knows it. The texts live as long as the program. */
typedef struct portamem_record_resource {
    uint64_t identity;
    const char* type; /* the class, as typeid names it */
    const char* kind;
    portamem_backend backend;
    int device;
} portamem_record_resource;

/* One call on a resource. Of an allocation `ptr` is filled in when it has succeeded. Begin fills in the last part. */
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

/* `log`: null, or the path of a log, in which %r is the rank, %h the host's name, %p the process and %% a percent sign.
 * Null where the log cannot be written, with the reason in `why`. */
PORTAMEM_EXPORT portamem_recorder* portamem_recorder_open(unsigned flags, const char* log, char* why, size_t why_size);
/* Ends the log, reports where that is asked for, and forgets everything. Null is fine. */
PORTAMEM_EXPORT void portamem_recorder_close(portamem_recorder* recorder);
/* Ends the log: nothing is written after it. */
PORTAMEM_EXPORT void portamem_recorder_end(portamem_recorder* recorder);
/* Hands what is written so far to the system. 0, or an errno value. */
PORTAMEM_EXPORT int portamem_recorder_flush(portamem_recorder* recorder);
/* The log's path as it was opened; empty where there is none. Lives as long as the recorder. */
PORTAMEM_EXPORT const char* portamem_recorder_path(const portamem_recorder* recorder);
/* The process's recorder, or null: then nobody needs to ask again. The first call reads the environment. */
PORTAMEM_EXPORT portamem_recorder* portamem_record_process(void);
/* Reads what of the environment has to be known before the first call, and opens nothing. */
PORTAMEM_EXPORT void portamem_record_prepare(void);

/* Around an allocation: begin, and then one of the others. */
PORTAMEM_EXPORT void portamem_record_begin(portamem_recorder* recorder, portamem_record_call* call);
PORTAMEM_EXPORT void portamem_record_allocated(portamem_recorder* recorder, portamem_record_call* call);
PORTAMEM_EXPORT void portamem_record_refused(portamem_recorder* recorder, portamem_record_call* call, const char* why);

/* Around a free. Begin is called before it, so that nobody is given the address first, and says whether the memory is
 * known; freed follows, with the reason where the memory was not freed. */
enum { PORTAMEM_FREE_KNOWN = 0, PORTAMEM_FREE_UNKNOWN = 1, PORTAMEM_FREE_OTHER_SIZE = 2 };
PORTAMEM_EXPORT int portamem_record_free_begin(portamem_recorder* recorder, portamem_record_call* call);
PORTAMEM_EXPORT void portamem_record_freed(portamem_recorder* recorder, portamem_record_call* call, const char* why);

/* Memory is used on another stream from now on; a resource was closed. */
PORTAMEM_EXPORT void portamem_record_used(portamem_recorder* recorder, portamem_record_call* call);
PORTAMEM_EXPORT void portamem_record_closed(portamem_recorder* recorder, const portamem_record_resource* resource);

/* Counts of allocations and their bytes. Allocations of 0 bytes count in total_count alone. */
typedef struct portamem_record_counts {
    int64_t current_bytes, current_count; /* negative in a scope that frees more than it allocates */
    int64_t peak_bytes, peak_count;
    int64_t total_bytes, total_count;
    int64_t failed_count;
} portamem_record_counts;

/* What was counted in a scope; 0 is the recorder's life. 0, or -1 for a scope that is not open. */
PORTAMEM_EXPORT int portamem_recorder_counts(portamem_recorder* recorder, uint64_t scope,
                                             portamem_record_counts* counts);
/* A scope counts from 0, whatever thread allocates. Its number, or 0 where there is no memory for it. */
PORTAMEM_EXPORT uint64_t portamem_recorder_scope_begin(portamem_recorder* recorder);
PORTAMEM_EXPORT int portamem_recorder_scope_end(portamem_recorder* recorder, uint64_t scope);
/* Peaks start again at what is current; of scopes too. */
PORTAMEM_EXPORT void portamem_recorder_reset_peak(portamem_recorder* recorder);

/* The counts of each tag, named by `text`, or of each thread, by the system's number. With no lock held. 0, or -1 where
 * there is no memory for it. */
enum { PORTAMEM_COUNTS_BY_TAG = 0, PORTAMEM_COUNTS_BY_THREAD = 1 };
typedef void (*portamem_counts_visitor)(void* self, const char* text, uint64_t number,
                                        const portamem_record_counts* counts);
PORTAMEM_EXPORT int portamem_recorder_visit_counts(portamem_recorder* recorder, int by, portamem_counts_visitor visitor,
                                                   void* self);

/* A live allocation. Valid during the visitor's call. */
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
/* Every live allocation, the oldest first, with no lock held. 0, or -1 where there is no memory for it. */
PORTAMEM_EXPORT int portamem_recorder_visit_live(portamem_recorder* recorder, portamem_live_visitor visitor,
                                                 void* self);

/* Registers a function that says whether memory was dropped, and only waits for the work that uses it: reports and tables
 * leave such memory out. For good, once for each module of the process. */
PORTAMEM_EXPORT void portamem_record_leaving(int (*is_leaving)(const void* ptr, size_t nbytes));

/* Tags what the calling thread allocates, until popped. Within another tag it is that one's part: "solver/setup".
 * push answers the tag's number, or 0 where there is no memory for one more; pop takes that number and answers 0; 1 where
 * others that were pushed later are open, which stay as they are; -1 where it is not open on this thread. */
PORTAMEM_EXPORT uint64_t portamem_tag_push(const char* name);
PORTAMEM_EXPORT int portamem_tag_pop(uint64_t number);
/* Empty where there is none. Lives as long as the program. */
PORTAMEM_EXPORT const char* portamem_tag_current(void);

#ifdef __cplusplus
}
#endif

#endif
