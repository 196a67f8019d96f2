// SPDX-License-Identifier: MIT
// core/pool/thread.hpp: the caches of the calling thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "cache.hpp"

namespace portamem::pool {

/// What a thread finds its caches by: one load and two comparisons where two of the slots do not collide.
struct ThreadMemo {
    struct Slot {
        const Pool* pool;
        std::uint64_t stream;
        Cache* cache;
    };
    std::array<Slot, 16> slots;

    Slot& slot(const Pool* pool, std::uint64_t stream) noexcept {
        return slots[(stream + (reinterpret_cast<std::uintptr_t>(pool) >> 6)) & 15];
    }
};

/// Of this thread; never null. The library may have been loaded late, when the usual model asks a function each time.
/// (__thread and not thread_local, which would ask whether it is initialised.)
__attribute__((tls_model("initial-exec"))) extern __thread ThreadMemo* thread_memo;

/// The thread's cache for a stream, which may have ended; null where there is none.
inline Cache* remembered_cache(const Pool* pool, std::uint64_t stream) noexcept {
    const ThreadMemo::Slot& slot = thread_memo->slot(pool, stream);
    return slot.pool == pool && slot.stream == stream ? slot.cache : nullptr;
}

/// The same, found by a longer search.
Cache* find_cache(const Pool* pool, std::uint64_t stream) noexcept;

/// Of the thread's other caches of the pool, the one that has most of a class, a batch at least, on whose stream the
/// thread frees and does not allocate. Null where there is none.
Cache* find_idle_cache(const Cache& own, unsigned index) noexcept;

/// Makes a cache the thread's. False on a thread that is about to end, which gets none.
bool adopt_cache(const std::shared_ptr<Cache>& cache);
bool thread_takes_caches() noexcept;

/// To be told, and once the runtime knows of the thread's own streams: they are marked a last time before the runtime
/// takes them down. It does so with the thread's other objects, the latest first.
void watch_own_streams();
/// False once that has been: a mark might be in another stream that the runtime has given the thread instead.
bool thread_has_own_streams() noexcept;

/// Forgets the thread's caches that have ended, where there are many, and those of pools that have.
void look_for_ended_caches() noexcept;
/// Forgets the thread's caches that have ended.
void forget_ended_caches() noexcept;
/// A pool is closed: its caches, which hold all its records, go from the calling thread now, and from others when they
/// next make one.
void pool_has_ended() noexcept;

}  // namespace portamem::pool
