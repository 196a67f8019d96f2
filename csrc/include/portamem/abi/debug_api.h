/* SPDX-License-Identifier: MIT
 * portamem/abi/debug_api.h: PORTAMEM_DEBUG=1, the part that there is one of in a process, as C functions.
 *
 * Every allocation that a program makes of a resource gets a redzone before and behind it. Which addresses are out, of
 * whom, and from where in the program, is kept here; the redzones are written and read by mr/detail/debug_guards.hpp, which
 * knows how to reach the memory. Every function is thread-safe and none throws. */
#ifndef PORTAMEM_DEBUG_API_H
#define PORTAMEM_DEBUG_API_H

#include <stddef.h>
#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One allocation: `front` bytes from `base` to the program's address, its `nbytes`, and a redzone behind them. */
typedef struct portamem_debug_block {
    uint32_t size;     /* sizeof this struct */
    const void* owner; /* the resource */
    void* base;
    size_t front;
    size_t nbytes;
    size_t total;
    int is_guarded; /* the redzones have been written */
    uint32_t site;  /* of the allocation; filled in here */
    /* Copies memory of the block to the host when the process ends; non-zero where that is not possible. */
    int (*read)(const struct portamem_debug_block* block, size_t offset, size_t nbytes, void* to);
} portamem_debug_block;

#define PORTAMEM_DEBUG_REDZONE 256 /* bytes, before and behind */
#define PORTAMEM_DEBUG_REDZONE_BYTE 0xFD
#define PORTAMEM_DEBUG_FRESH_BYTE 0xA5
#define PORTAMEM_DEBUG_FREED_BYTE 0xDB

/* Whether PORTAMEM_DEBUG=1 was set when this was asked first. */
PORTAMEM_EXPORT int portamem_debug_on(void);

/* Between enter and leave this thread is inside of a resource: what that takes of others is its own business. enter
 * answers 1 on the outermost level. */
PORTAMEM_EXPORT int portamem_debug_enter(void);
PORTAMEM_EXPORT void portamem_debug_leave(void);

/* Notes an allocation, made by the caller's caller. 0, or -1 where the host has no memory for that. */
PORTAMEM_EXPORT int portamem_debug_add(const portamem_debug_block* block);

/* Memory without redzones is at this address now: what was known of it is history. */
PORTAMEM_EXPORT void portamem_debug_forget(const void* ptr);

/* An address is being freed. 1: it is known, and taken off the list. 0: it is not. -1: it cannot be right (freed twice,
 * of another resource, of another size), and `text` says why; nothing was changed. */
PORTAMEM_EXPORT int portamem_debug_take(const void* owner, void* ptr, size_t nbytes, portamem_debug_block* block,
                                        char* text, size_t text_size);

/* What take took could not be freed, or now has been. */
PORTAMEM_EXPORT void portamem_debug_put_back(const portamem_debug_block* block);
PORTAMEM_EXPORT void portamem_debug_freed(const portamem_debug_block* block);

/* Looks at the redzones, PORTAMEM_DEBUG_REDZONE bytes each as they were read. 0: they are whole. 1: they are not; `text`
 * says which side, how far and where the memory came from. It is printed as well, and counted until the end. */
PORTAMEM_EXPORT int portamem_debug_check(const portamem_debug_block* block, const unsigned char* before,
                                         const unsigned char* behind, char* text, size_t text_size);

#ifdef __cplusplus
}
#endif

#endif
