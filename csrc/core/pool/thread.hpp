// SPDX-License-Identifier: MIT
// core/pool/thread.hpp: the caches of the calling thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "cache.hpp"

namespace portamem::pool {

/// The table by which a thread finds its caches: one load and two comparisons, unless two of them share a slot.
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

/// The memo of this thread; never null. The default TLS model would call a function for each access, since the library
/// may be loaded late; and thread_local would check for initialisation, hence __thread.
__attribute__((tls_model("initial-exec"))) extern __thread ThreadMemo* thread_memo;

/// Returns the thread's cache for a stream, which may have ended; null where the memo has none.
inline Cache* remembered_cache(const Pool* pool, std::uint64_t stream) noexcept {
    const ThreadMemo::Slot& slot = thread_memo->slot(pool, stream);
    return slot.pool == pool && slot.stream == stream ? slot.cache : nullptr;
}

/// Returns the same by a search through all caches of the thread.
Cache* find_cache(const Pool* pool, std::uint64_t stream) noexcept;

/// Returns the thread's cache of the same pool that has most blocks of a class, a batch at least, and on whose stream
/// the thread only frees. Null where there is none.
Cache* find_idle_cache(const Cache& own, unsigned index) noexcept;

/// Makes a cache the calling thread's. False on a thread that is about to end, which gets none.
bool adopt_cache(const std::shared_ptr<Cache>& cache);
bool thread_takes_caches() noexcept;

/// Has the thread's own streams marked a last time before the runtime takes them down. The caller makes the runtime
/// know the streams first, because the objects of a thread are destroyed in reverse order.
void watch_own_streams();
/// False after that last mark: the runtime may have given the thread another stream, which a mark would then be in.
bool thread_has_own_streams() noexcept;

/// Forgets the thread's caches of ended pools, and, where it has many caches, all that have ended.
void look_for_ended_caches() noexcept;
/// Forgets the thread's caches that have ended.
void forget_ended_caches() noexcept;
/// Says that a pool is closed. Its caches hold all its records: the calling thread lets go of them now, other threads
/// when they next make a cache.
void pool_has_ended() noexcept;

}  // namespace portamem::pool
