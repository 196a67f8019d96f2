/* SPDX-License-Identifier: MIT
 * portamem/abi/pool_settings.h: what the environment says to every pool of the process, as C functions of libportamem.
 *
 * PORTAMEM_POOL=off: pools keep nothing. Each allocation goes straight to the upstream, where memory checkers see it.
 * PORTAMEM_POOL_LIMIT=8GiB or 70%: the limit, on each device and all together, of the process's pools of its memory that
 * were made without one. A percentage is of the device's memory, and is shared: each process gets an equal part of it.
 *
 * Both are read once, at the first question. Every function is thread-safe and none throws. */
#ifndef PORTAMEM_POOL_SETTINGS_H
#define PORTAMEM_POOL_SETTINGS_H

#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* There is no limit. */
#define PORTAMEM_POOL_UNLIMITED UINT64_MAX

/* 1: pools pass through; 0: they pool; -1: a setting cannot be read, and portamem_pool_settings_error says why. */
PORTAMEM_EXPORT int portamem_pool_passthrough(void);

/* Bytes that pools of this process may reserve on the device with that uuid (text; spelled alike by all processes) and
 * with `total_bytes` of memory. PORTAMEM_POOL_UNLIMITED where no limit is set; 0 where it cannot be read, or cannot be
 * shared: portamem_pool_settings_error says why. A null uuid asks whether there is a limit: any other answer is yes.
 *
 * The first question about a device enters the process among those that share it: live processes of the same user and
 * machine, with one /dev/shm, to which the limit is a percentage too. So the answer changes while processes come and
 * go; it takes some system calls, and is for the paths on which a pool grows. In a child of fork(): 0. */
PORTAMEM_EXPORT uint64_t portamem_pool_limit(const char* uuid, uint64_t total_bytes);

/* 1: the limit is a percentage, shared among processes; 0: it is not, or there is none, or it cannot be read. */
PORTAMEM_EXPORT int portamem_pool_limit_is_share(void);

/* Before a pool reserves memory under that limit: room for at most *nbytes and at least `least` bytes is taken, for all
 * pools of the process. 1: it is the pool's, and *nbytes says how much; 0: less is left; -1: as for a limit of 0. */
PORTAMEM_EXPORT int portamem_pool_claim(const char* uuid, uint64_t total_bytes, uint64_t least, uint64_t* nbytes);
/* What was claimed is no longer reserved. */
PORTAMEM_EXPORT void portamem_pool_unclaim(const char* uuid, uint64_t nbytes);
/* What pools of the process have claimed on the device. */
PORTAMEM_EXPORT uint64_t portamem_pool_claimed(const char* uuid);

/* Why the calling thread's last question had no answer: names the variable and what it may be. Valid until its next. */
PORTAMEM_EXPORT const char* portamem_pool_settings_error(void);

#ifdef __cplusplus
}
#endif

#endif
