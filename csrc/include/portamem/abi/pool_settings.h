/* SPDX-License-Identifier: MIT
 * portamem/abi/pool_settings.h: the environment's settings for every pool of the process, as C functions.
 *
 * - PORTAMEM_POOL=off: pools keep nothing. Each allocation goes straight to the upstream, where memory checkers see
 *   it.
 * - PORTAMEM_POOL_LIMIT=8GiB or 70%: the limit, on each device, of all pools of the process together that are over
 *   its memory and were made without a limit. A percentage is of the device's memory, and is shared: each process
 *   gets an equal part of it.
 *
 * Both are read once, at the first question. Every function is thread-safe, and none throws. */
#ifndef PORTAMEM_POOL_SETTINGS_H
#define PORTAMEM_POOL_SETTINGS_H

#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Means that there is no limit. */
#define PORTAMEM_POOL_UNLIMITED UINT64_MAX

/* Returns 1 where pools pass through, 0 where they pool, and -1 where a setting cannot be parsed; then
 * portamem_pool_settings_error says why. */
PORTAMEM_EXPORT int portamem_pool_passthrough(void);

/* Returns the bytes that pools of this process may reserve on the device with that uuid (text, spelled alike by all
 * processes) and with `total_bytes` of memory. Returns PORTAMEM_POOL_UNLIMITED where no limit is set. Returns 0
 * where it cannot be parsed or cannot be shared; then portamem_pool_settings_error says why. A null uuid asks
 * whether there is a limit: any other answer is yes.
 *
 * The first question about a device adds the process to those that share it: live processes of the same user and
 * machine, with one /dev/shm, to which the limit is a percentage too. So the answer changes while processes come and
 * go. It costs some system calls, and is meant for the paths on which a pool grows. It returns 0 in a child of
 * fork(). */
PORTAMEM_EXPORT uint64_t portamem_pool_limit(const char* uuid, uint64_t total_bytes);

/* Returns 1 where the limit is a percentage that processes share; 0 where it is not, or there is none, or it cannot
 * be parsed. */
PORTAMEM_EXPORT int portamem_pool_limit_is_share(void);

/* Is called before a pool reserves memory under that limit. It takes room for at most *nbytes and at least `least`
 * bytes, for all pools of the process. Returns 1 where the pool has the room, and *nbytes says how much; 0 where
 * less is left; -1 as for a limit of 0. */
PORTAMEM_EXPORT int portamem_pool_claim(const char* uuid, uint64_t total_bytes, uint64_t least, uint64_t* nbytes);
/* Gives back room that was claimed and is no longer reserved. */
PORTAMEM_EXPORT void portamem_pool_unclaim(const char* uuid, uint64_t nbytes);
/* Returns the room that pools of the process have claimed on the device. */
PORTAMEM_EXPORT uint64_t portamem_pool_claimed(const char* uuid);

/* Reads a percentage such as "12.5 %", as PORTAMEM_POOL_LIMIT takes it. Returns 1 and that share of `total`; 0 where
 * the text is no percentage; -1 where it is not above 0% and up to 100%. */
PORTAMEM_EXPORT int portamem_pool_parse_share(const char* text, uint64_t total, uint64_t* share);

/* Returns why the calling thread's last question had no answer: the variable and its allowed values. Valid until its
 * next question. */
PORTAMEM_EXPORT const char* portamem_pool_settings_error(void);

#ifdef __cplusplus
}
#endif

#endif
