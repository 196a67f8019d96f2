/* SPDX-License-Identifier: MIT
 * portamem/c_api.h: the small, frozen C ABI of libportamem, the process-wide registry.
 *
 * State that a process must have once lives behind these functions: headers are compiled into every extension
 * module, and each would get a copy of its own. A program links libportamem. A Python extension that does not want
 * to link it may take the same functions from the capsule `portamem.<backend>._c_api` (name: PORTAMEM_CAPSULE_NAME).
 *
 * The ABI is frozen: a field or function is never removed or changed. New ones are added at the end of the table,
 * whose `size` says how far it goes. Every function is thread-safe, and none throws. */
#ifndef PORTAMEM_C_API_H
#define PORTAMEM_C_API_H

#include <stddef.h>
#include <stdint.h>

#define PORTAMEM_ABI_VERSION 1
#define PORTAMEM_CAPSULE_NAME "portamem.c_api"

#if defined(__GNUC__)
#define PORTAMEM_EXPORT __attribute__((visibility("default")))
#else
#define PORTAMEM_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Names the backend that a device ordinal belongs to. */
typedef enum portamem_backend {
    PORTAMEM_BACKEND_CUDA = 0,
    PORTAMEM_BACKEND_HIP = 1,
    PORTAMEM_BACKEND_HOST = 2
} portamem_backend;

/* Represents a memory resource as other modules see it. `self` is reference counted through retain and release, which
 * any thread may call. allocate and deallocate return 0 or a native error code. They work on the resource's own device,
 * whatever device is current. `stream` is a native handle; null is the default stream. Work submitted to it after
 * allocate may use the memory, and work submitted to it before deallocate may still use it. */
typedef struct portamem_resource_ops {
    uint32_t size; /* sizeof this struct, set by the provider */
    int (*allocate)(void* self, size_t nbytes, void* stream, void** ptr);
    int (*deallocate)(void* self, void* ptr, size_t nbytes, void* stream);
    int (*is_host_accessible)(void* self);
    int (*is_device_accessible)(void* self);
    int (*device_id)(void* self); /* -1: host memory */
    void (*retain)(void* self);
    void (*release)(void* self);
    /* These two exist only where `size` reaches so far, and may be null. cached: returns the bytes that the resource
     * has reported to portamem_account and that are not out. trim: gives such bytes back until the resource holds at
     * most `keep` bytes, counting those that are out, and waits for the work that used them. It returns 0 or a native
     * error code. */
    size_t (*cached)(void* self);
    int (*trim)(void* self, size_t keep);
} portamem_resource_ops;

typedef struct portamem_resource {
    const portamem_resource_ops* ops;
    void* self;
} portamem_resource;

/* Returns the ABI that the loaded library implements: PORTAMEM_ABI_VERSION of its build. */
PORTAMEM_EXPORT uint32_t portamem_abi_version(void);

/* Returns the library's version, "major.minor.patch", in static storage. */
PORTAMEM_EXPORT const char* portamem_version(void);

/* Returns non-zero in a child of fork(): device runtimes do not survive one, and every portamem call
 * there that needs the runtime refuses. */
PORTAMEM_EXPORT int portamem_forked(void);

/* Returns a number never handed out before in this process, and never 0. Streams have such identities, because
 * vendors reuse a handle after its stream is destroyed. */
PORTAMEM_EXPORT uint64_t portamem_new_identity(void);

/* account adds to the bytes that portamem holds on a device (-1: host memory), as resources report them. held returns
 * their sum, minus the bytes that the default resource offered for the device has cached. */
PORTAMEM_EXPORT void portamem_account(portamem_backend backend, int device, int64_t delta_bytes);
PORTAMEM_EXPORT uint64_t portamem_held(portamem_backend backend, int device);

/* These keep the current resource of a device on the calling thread, as a stack.
 * - push takes one reference (retain is called), and pop gives it back. pop returns 0, or -1 when the stack is
 *   empty.
 * - end takes out the topmost entry of that self, wherever it is, and gives its reference back. It returns 0 where that
 *   was on top; 1 where it was not, and the other entries stay as they are; -1 where there is none.
 * - current returns 0 and a retained resource, which the caller releases, or -1 when no scope is open. */
PORTAMEM_EXPORT void portamem_scope_push(portamem_backend backend, int device, portamem_resource resource);
PORTAMEM_EXPORT int portamem_scope_pop(portamem_backend backend, int device);
PORTAMEM_EXPORT int portamem_scope_end(portamem_backend backend, int device, const void* self);
PORTAMEM_EXPORT int portamem_scope_current(portamem_backend backend, int device, portamem_resource* resource);

/* These keep the default resource of a device, which allocations take from where no scope is open. The process has one
 * for each device: the resource that set stored, or else the one that a module offered.
 * - offer stores a resource and retains it for good. It returns 1, or 0 where a module had offered one already; nothing
 *   is stored then.
 * - set stores a resource, which takes the place of the offered one. With `ops` null the offered one counts again. The
 *   library retains the new resource, and releases the one that was set before.
 * - default_resource returns 0 and a retained resource, which the caller releases, or -1 where the device has none yet:
 *   it never makes one.
 * - default_changes counts the calls of set, for all devices: the resource that default_resource returned stays the
 *   default until the count changes.
 * The library calls a resource's retain under a lock of its own, so retain must not call the library. */
PORTAMEM_EXPORT int portamem_offer_default_resource(portamem_backend backend, int device, portamem_resource resource);
PORTAMEM_EXPORT int portamem_default_resource(portamem_backend backend, int device, portamem_resource* resource);
PORTAMEM_EXPORT void portamem_set_default_resource(portamem_backend backend, int device, portamem_resource resource);
PORTAMEM_EXPORT uint64_t portamem_default_changes(void);

/* Returns the resource that an allocation on this thread takes from where none is named: the innermost scope's, or else
 * the default. Where the device has no default yet, a module of the backend makes one. It returns 0 and a retained
 * resource, which the caller releases; -1 where no module of the backend is in the process; or a native error code
 * where the device does not exist or a setting cannot be read. */
PORTAMEM_EXPORT int portamem_current_resource(portamem_backend backend, int device, portamem_resource* resource);

/* These find memory by its address alone, for hooks of the form alloc(n), free(p). They know the blocks that portamem's
 * resources have out, in any module of the backend that uses this library; the address is one that an allocation
 * returned. Where one resource takes its memory from another, the outermost counts: the one that the program called.
 * - resource_of returns 0 and a retained resource, which the caller releases.
 * - size_of returns 0 and the bytes that were asked for.
 * - deallocate takes the memory back, for work that was submitted to `stream` before. It returns 0 or a native error
 *   code, and does nothing for a null pointer.
 * For any other address, and in a child of fork(), they return -1. */
PORTAMEM_EXPORT int portamem_resource_of(portamem_backend backend, const void* ptr, portamem_resource* resource);
PORTAMEM_EXPORT int portamem_size_of(portamem_backend backend, const void* ptr, size_t* nbytes);
PORTAMEM_EXPORT int portamem_deallocate(portamem_backend backend, void* ptr, void* stream);

/* Holds the same functions as a table, for the capsule. */
typedef struct portamem_api {
    uint32_t abi_version;
    uint32_t size; /* sizeof this struct as the library was built */
    const char* (*version)(void);
    int (*forked)(void);
    uint64_t (*new_identity)(void);
    void (*account)(portamem_backend, int, int64_t);
    uint64_t (*held)(portamem_backend, int);
    void (*scope_push)(portamem_backend, int, portamem_resource);
    int (*scope_pop)(portamem_backend, int);
    int (*scope_current)(portamem_backend, int, portamem_resource*);
    int (*offer_default_resource)(portamem_backend, int, portamem_resource);
    int (*default_resource)(portamem_backend, int, portamem_resource*);
    /* This field and those below exist only where `size` reaches so far. */
    int (*scope_end)(portamem_backend, int, const void*);
    void (*set_default_resource)(portamem_backend, int, portamem_resource);
    uint64_t (*default_changes)(void);
    int (*current_resource)(portamem_backend, int, portamem_resource*);
    int (*resource_of)(portamem_backend, const void*, portamem_resource*);
    int (*size_of)(portamem_backend, const void*, size_t*);
    int (*deallocate)(portamem_backend, void*, void*);
} portamem_api;

/* Returns that table, in static storage of the library. */
PORTAMEM_EXPORT const portamem_api* portamem_get_api(void);

#ifdef __cplusplus
}
#endif

#endif
