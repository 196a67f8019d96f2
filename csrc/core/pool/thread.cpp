// SPDX-License-Identifier: MIT
// core/pool/thread.cpp: the caches of the calling thread, and their fate when it ends.
#include "thread.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "pool.hpp"

namespace portamem::pool {
namespace {

ThreadMemo empty_memo{};  // of no pool; never written

struct Thread {
    ThreadMemo memo{};
    std::vector<std::shared_ptr<Cache>> caches;
    std::size_t most_caches = 16;  // caches at which it looks for ended ones
    std::uint64_t ends_seen = 0;   // ended pools at its latest look

    Thread() { thread_memo = &memo; }
    ~Thread();
};

// Closed pools: threads let go of their memory when they next look for a cache.
std::atomic<std::uint64_t> pools_ended{0};

thread_local bool has_ended = false;
thread_local bool own_streams_have_ended = false;

// It is behind a pointer: the library's thread storage is static (thread_memo), and other libraries need room there
// too.
Thread& this_thread() {
    static thread_local const std::unique_ptr<Thread> thread(new Thread);
    return *thread;
}

// Forgets caches, but not within another call of the thread, which may be about to use the cache that it has found.
template <class Which>
void forget_caches(const Which& which) noexcept {
    if (Pool::is_call_within_call() || has_ended || thread_memo == &empty_memo) return;
    Thread& thread = this_thread();
    // Each cache is asked once: another thread may end it at any moment, and the memo must not keep what goes here.
    const auto stays = [&which](const std::shared_ptr<Cache>& cache) { return !which(*cache); };
    const auto going = std::partition(thread.caches.begin(), thread.caches.end(), stays);
    for (ThreadMemo::Slot& slot : thread.memo.slots) {
        const auto is_it = [&slot](const std::shared_ptr<Cache>& cache) { return cache.get() == slot.cache; };
        if (std::any_of(going, thread.caches.end(), is_it)) slot = {};
    }
    thread.caches.erase(going, thread.caches.end());
}

// Forgets the caches of closed pools, and with them the rest of the pools. No call is under way in a closed pool.
void forget_caches_of_ended_pools() noexcept {
    forget_caches(
        [](const Cache& cache) { return cache.has_ended.load(std::memory_order_acquire) && cache.keep->is_closed(); });
}

// An object made after all that the runtime keeps for the thread, and so destroyed before it.
struct OwnStreams {
    ~OwnStreams() {
        if (has_ended || portamem_forked() != 0) return;
        for (const auto& cache : this_thread().caches) {
            if (cache->arena->is_per_thread) cache->keep->retire(cache);
        }
        own_streams_have_ended = true;
    }
};

// A forked child has the caches, but not the runtimes, of its parent: its calls find no cache, and are refused.
const int at_fork = pthread_atfork(nullptr, nullptr, [] {
    has_ended = true;
    thread_memo = &empty_memo;
});

Thread::~Thread() {
    has_ended = true;
    thread_memo = &empty_memo;
    if (portamem_forked() != 0) {  // a thread that the child does not have may hold the locks forever
        (void)new (std::nothrow) std::vector<std::shared_ptr<Cache>>(std::move(caches));
        return;
    }
    for (const auto& cache : caches) cache->keep->retire(cache);
}

}  // namespace

__attribute__((tls_model("initial-exec"))) __thread ThreadMemo* thread_memo = &empty_memo;

bool thread_takes_caches() noexcept { return !has_ended; }

void watch_own_streams() {
    if (has_ended) return;
    (void)this_thread();
    static thread_local const OwnStreams own;
    (void)own;
}

bool thread_has_own_streams() noexcept { return !has_ended && !own_streams_have_ended; }

Cache* find_cache(const Pool* pool, std::uint64_t stream) noexcept {
    if (has_ended) return nullptr;
    (void)at_fork;
    if (thread_memo == &empty_memo) return nullptr;  // the thread has none yet
    for (const auto& cache : this_thread().caches) {
        if (cache->pool != pool || cache->stream != stream) continue;
        thread_memo->slot(pool, stream) = {pool, stream, cache.get()};
        return cache.get();
    }
    return nullptr;
}

Cache* find_idle_cache(const Cache& own, unsigned index) noexcept {
    if (has_ended || thread_memo == &empty_memo) return nullptr;
    Cache* found = nullptr;
    std::uint32_t most = batch_of(index) - 1;
    for (const auto& cache : this_thread().caches) {
        if (cache->pool != own.pool || cache.get() == &own || cache->arena->is_marked_in_calls) continue;
        const std::uint64_t hits = cache->hits.get();
        if (hits != cache->hits_seen) {
            cache->hits_seen = hits;
            cache->looks = 0;
        } else if (cache->looks < kLooksUntilIdle) {
            ++cache->looks;
        }
        if (cache->looks < kLooksUntilIdle || !cache->lock.enter()) continue;
        const std::uint32_t count = cache->bins[index].count;
        cache->lock.leave();
        if (count <= most) continue;
        most = count;
        found = cache.get();
    }
    return found;
}

bool adopt_cache(const std::shared_ptr<Cache>& cache) {
    if (has_ended) return false;
    Thread& thread = this_thread();
    if (Pool::is_call_within_call()) {
        Pool::forget_caches_after_call();
    } else {
        look_for_ended_caches();
    }
    thread.caches.push_back(cache);
    thread.memo.slot(cache->pool, cache->stream) = {cache->pool, cache->stream, cache.get()};
    return true;
}

void look_for_ended_caches() noexcept {
    if (has_ended || thread_memo == &empty_memo) return;
    Thread& thread = this_thread();
    const std::uint64_t ends = pools_ended.load(std::memory_order_relaxed);
    if (std::exchange(thread.ends_seen, ends) != ends) forget_caches_of_ended_pools();
    if (thread.caches.size() < thread.most_caches) return;
    forget_ended_caches();  // streams come and go, and their caches with them
    thread.most_caches = std::max(2 * thread.caches.size(), std::size_t{16});
}

void forget_ended_caches() noexcept {
    forget_caches([](const Cache& cache) { return cache.has_ended.load(std::memory_order_acquire); });
}

void pool_has_ended() noexcept {
    pools_ended.fetch_add(1, std::memory_order_relaxed);
    forget_caches_of_ended_pools();
}

}  // namespace portamem::pool
