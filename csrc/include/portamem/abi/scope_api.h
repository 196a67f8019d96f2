/* SPDX-License-Identifier: MIT
 * portamem/abi/scope_api.h: what current_resource.hpp and default_resource.hpp need beyond c_api.h, as C functions.
 *
 * This is the private side of the headers, and may change with any version. */
#ifndef PORTAMEM_SCOPE_API_H
#define PORTAMEM_SCOPE_API_H

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An embedding language has scopes of its own, which may follow its tasks from thread to thread.
 * - source stores the function that finds the innermost of them, once for each backend. The function returns 1 and a
 *   retained resource, 0 where no scope is open, and -1 where this thread cannot tell (it does not hold the language's
 *   lock).
 * - push_embedded opens a scope of the language on this thread's stack too. Its place there tells whether scopes of C
 *   and C++ are within it, and a thread that cannot tell sees it like any other. portamem_scope_end ends it. */
typedef int (*portamem_scope_source)(int device, portamem_resource* resource);
PORTAMEM_EXPORT void portamem_set_scope_source(portamem_backend backend, portamem_scope_source source);
PORTAMEM_EXPORT void portamem_push_embedded_scope(portamem_backend backend, int device, portamem_resource resource);

/* Stores the function that makes the default resource of a device and offers it, once for each backend. The function
 * returns 0, or a native error code. */
typedef int (*portamem_default_maker)(int device);
PORTAMEM_EXPORT void portamem_set_default_maker(portamem_backend backend, portamem_default_maker maker);

/* Returns the resource that a module offered as default, whatever set stored: as portamem_default_resource does. */
PORTAMEM_EXPORT int portamem_offered_default_resource(portamem_backend backend, int device,
                                                      portamem_resource* resource);

/* Returns which resource PORTAMEM_DEFAULT asks for, as it was at the first question: a pool where it is unset. */
typedef enum portamem_default_kind {
    PORTAMEM_DEFAULT_UNREADABLE = -1, /* *text is its value */
    PORTAMEM_DEFAULT_POOL = 0,        /* a pool over plain device memory */
    PORTAMEM_DEFAULT_DRIVER = 1,      /* a memory pool of the driver */
    PORTAMEM_DEFAULT_PLAIN = 2,       /* Malloc and Free */
    PORTAMEM_DEFAULT_MANAGED = 3      /* a pool over managed memory */
} portamem_default_kind;
PORTAMEM_EXPORT portamem_default_kind portamem_default_setting(const char** text);

#ifdef __cplusplus
}
#endif

#endif
