/* SPDX-License-Identifier: MIT
 * portamem/abi/address_api.h: what portamem/by_address.hpp needs beyond c_api.h, as C functions.
 *
 * The library finds the pool of an address by a map of all chunks of the process, without a lock. It asks other
 * resources one by one. This is the private side of the headers, and may change with any version. */
#ifndef PORTAMEM_ADDRESS_API_H
#define PORTAMEM_ADDRESS_API_H

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Says what a resource knows of an address. */
typedef enum portamem_address_state {
    PORTAMEM_ADDRESS_UNKNOWN = 0,
    PORTAMEM_ADDRESS_CHUNK = 1, /* in memory that the resource took of another, and in no block that is out */
    PORTAMEM_ADDRESS_BLOCK = 2  /* in the block of nbytes at base, which is out */
} portamem_address_state;
typedef struct portamem_address {
    portamem_address_state state;
    const void* base;
    size_t nbytes;
} portamem_address;

/* Holds the calls that the library makes of a resource. hold returns 0 and a reference behind the C table, or -1 for a
 * resource that ends or that no shared pointer holds. find gets the `self` of that reference. deallocate_cached
 * frees a pool's block where the pool has what that needs at hand, and returns whether it did. */
typedef struct portamem_known_ops {
    uint32_t size; /* sizeof this struct, set by the provider */
    int (*hold)(void* resource, portamem_resource* held);
    void (*find)(void* self, const void* ptr, portamem_address* found);
    int (*deallocate_cached)(void* resource, void* ptr, void* stream);
} portamem_known_ops;

/* Says what a resource's memory is taken of. */
typedef enum portamem_known_over {
    PORTAMEM_OVER_NO_POOL = 0, /* of the runtime, or of resources of which none is a pool */
    PORTAMEM_OVER_POOL = 1,    /* of a pool that portamem_pool_cover named */
    PORTAMEM_OVER_UNKNOWN = 2  /* the library cannot tell */
} portamem_known_over;

/* Add and remove a resource that is asked for its blocks. `identity` orders the resources: one that takes its memory of
 * another has a larger one. add returns 0, or -1 where there is no host memory. remove returns when no thread asks the
 * resource to be held any more. */
PORTAMEM_EXPORT int portamem_known_add(portamem_backend backend, const portamem_known_ops* ops, void* resource,
                                       uint64_t identity, portamem_known_over over);
PORTAMEM_EXPORT void portamem_known_remove(const void* resource);

/* Finds the block of an address. `inside` also finds it by an address inside of it, where its resource can tell. The
 * result is the outermost resource's, and holds a reference, which the caller releases. Returns 1, or 0 where no
 * resource knows the address. */
typedef struct portamem_known_block {
    const portamem_known_ops* ops;
    portamem_resource resource;
    const void* base;
    size_t nbytes;
} portamem_known_block;
PORTAMEM_EXPORT int portamem_find_block(portamem_backend backend, const void* ptr, int inside,
                                        portamem_known_block* block);

/* Returns the bytes that were asked for at the address of a pool's block, where no resource over the pool can have it
 * out; 0 otherwise, and portamem_find_block finds out. */
PORTAMEM_EXPORT size_t portamem_size_at_hand(portamem_backend backend, const void* ptr);

/* Returns the resource of such an address, which exists until portamem_leave_pool; null otherwise, and there is nothing
 * to leave. Between the two the thread may call that pool's functions for memory at hand, and nothing else. */
PORTAMEM_EXPORT void* portamem_enter_pool(const portamem_known_ops* ops, const void* ptr, uint32_t** entered);
static inline void portamem_leave_pool(uint32_t* entered) { __atomic_store_n(entered, 0, __ATOMIC_RELEASE); }

#ifdef __cplusplus
}
#endif

#endif
