/* SPDX-License-Identifier: MIT
 * portamem/abi/debug_api.h: PORTAMEM_DEBUG=1, the part that a process has once, as C functions.
 *
 * Every allocation that a program makes of a resource gets a redzone before and behind it. This part keeps the
 * addresses that are out, their resources, and their call sites. mr/detail/debug_guards.hpp writes and reads the
 * redzones, because it knows how to reach the memory. Every function is thread-safe, and none throws. */
#ifndef PORTAMEM_DEBUG_API_H
#define PORTAMEM_DEBUG_API_H

#include <stddef.h>
#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Represents one allocation: `front` bytes from `base` to the program's address, its `nbytes`, and a redzone behind
 * them. */
typedef struct portamem_debug_block {
    uint32_t size;     /* sizeof this struct */
    const void* owner; /* the resource */
    void* base;
    size_t front;
    size_t nbytes;
    size_t total;
    int is_guarded; /* the redzones have been written */
    uint32_t site;  /* of the allocation; filled in here */
    /* Copies memory of the block to the host when the process ends; returns non-zero where that is not possible. */
    int (*read)(const struct portamem_debug_block* block, size_t offset, size_t nbytes, void* to);
} portamem_debug_block;

#define PORTAMEM_DEBUG_REDZONE 256 /* bytes, before and behind */
#define PORTAMEM_DEBUG_REDZONE_BYTE 0xFD
#define PORTAMEM_DEBUG_FRESH_BYTE 0xA5
#define PORTAMEM_DEBUG_FREED_BYTE 0xDB

/* Returns whether PORTAMEM_DEBUG=1 was set when this was asked first. */
PORTAMEM_EXPORT int portamem_debug_on(void);

/* Between enter and leave this thread is inside of a resource, and what the resource takes of other resources
 * gets no redzones. enter returns 1 on the outermost level. */
PORTAMEM_EXPORT int portamem_debug_enter(void);
PORTAMEM_EXPORT void portamem_debug_leave(void);

/* Notes an allocation, made by the caller's caller. Returns 0, or -1 where the host has no memory for that. */
PORTAMEM_EXPORT int portamem_debug_add(const portamem_debug_block* block);

/* Notes that memory without redzones is at this address now, and forgets an earlier free of the address. */
PORTAMEM_EXPORT void portamem_debug_forget(const void* ptr);

/* Returns 1 where the address is of an allocation of that resource that is out, with what is known of it; else 0. */
PORTAMEM_EXPORT int portamem_debug_find(const void* owner, const void* ptr, portamem_debug_block* block);

/* Is called when an address is being freed. Returns 1 where it is known, and takes it off the list; 0 where it is
 * not known; -1 where the free is wrong (freed twice, of another resource, of another size). Then `text` says why,
 * and nothing was changed. */
PORTAMEM_EXPORT int portamem_debug_take(const void* owner, void* ptr, size_t nbytes, portamem_debug_block* block,
                                        char* text, size_t text_size);

/* Are called when memory that take returned could not be freed, or has been freed. */
PORTAMEM_EXPORT void portamem_debug_put_back(const portamem_debug_block* block);
PORTAMEM_EXPORT void portamem_debug_freed(const portamem_debug_block* block);

/* Looks at the redzones, PORTAMEM_DEBUG_REDZONE bytes each as they were read. Returns 0 where they are whole.
 * Returns 1 where they are not: `text` says which side, how far and where the memory came from. That is printed too,
 * and counted until the end. */
PORTAMEM_EXPORT int portamem_debug_check(const portamem_debug_block* block, const unsigned char* before,
                                         const unsigned char* behind, char* text, size_t text_size);

#ifdef __cplusplus
}
#endif

#endif
