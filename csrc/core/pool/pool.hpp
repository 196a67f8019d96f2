// SPDX-License-Identifier: MIT
// core/pool/pool.hpp: a pool: a heap, the caches above it, and the order between streams.
//
// A thread takes locks in this order: reclaim_, the registry, a cache's, the heap's. The pool calls its owner with no
// lock held, with two exceptions: `drop` and `forget`, and marking streams and waiting for events under reclaim_. Only
// calls that put everything together take reclaim_: calls that have found no memory, trim, close, lend, or obey a
// release policy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "callbacks.hpp"
#include "events.hpp"
#include "heap.hpp"
#include "portamem/abi/pool_api.h"
#include "refused.hpp"
#include "release_policy.hpp"
#include "thread_caches.hpp"
#include "upstream.hpp"

namespace portamem::pool {

class Pool : public std::enable_shared_from_this<Pool> {
  public:
    Pool(const portamem_pool_ops& ops, void* self, const portamem_pool_options& options)
        : callbacks_{known_part(ops), self}, options_(known_part(options)) {
        chunk_owner_.pool = this;
    }
    ~Pool() {
        if (portamem_forked() == 0) ChunkMap::instance().remove_all(chunk_owner_);
    }

    // ---- what the caches cannot do; throw Refused and std::bad_alloc ----

    void* allocate(std::size_t nbytes, std::size_t alignment, std::uint64_t identity, void* stream);
    void deallocate(void* ptr, std::size_t nbytes, std::uint64_t identity, void* stream);

    // heap_path.cpp. These return null, false or No where they do not serve the call.
    void* allocate_with_heap(Cache& cache, std::size_t nbytes) noexcept;
    bool deallocate_with_heap(Cache& cache, void* ptr, std::size_t nbytes) noexcept;
    /// Frees memory that the host reaches. The block stays in the cache as pending until enough is pending for the
    /// stream's next event. Thrown: the runtime could not say whether the stream is captured.
    enum class Served { No, Yes, Thrown };
    Served deallocate_pending(Cache& cache, void* ptr, std::size_t nbytes, void* stream) noexcept;
    /// Allocates from the pending memory of a stream whose work has run.
    void* allocate_drained(Cache& cache, std::size_t nbytes, void* stream) noexcept;

    /// Returns the bytes that were asked for at an address that is out; 0 for any other. A block that is out is found
    /// without a lock. The heap's lock is taken for a block cut to the byte, and for one that is not out just now.
    std::size_t asked_at(const void* ptr) noexcept;
    /// Gives a block that is out another size at its address. False, with nothing done, where that cannot be.
    bool resize(void* ptr, std::size_t from, std::size_t to, std::uint64_t identity) noexcept;
    /// Returns what the pool knows of an address in the chunk at `begin`, which may be inside of a block.
    portamem_address find(const void* ptr, std::uintptr_t begin) noexcept;
    ChunkOwner& chunk_owner() noexcept { return chunk_owner_; }
    void set_limit(std::size_t limit) noexcept { upstream_.set_limit(limit); }
    std::size_t limit() const noexcept { return upstream_.limit(); }

    void trim(std::size_t keep);
    void trim_stream(std::uint64_t identity, void* stream, std::size_t keep);
    /// Gives back memory that the policy no longer wants, and memory that waited for work. True: nothing more is due.
    bool release_due();
    void call_off_due() noexcept;
    bool close();
    /// Gives back idle memory whose work has run, for another pool that finds none. Returns the bytes. It never waits:
    /// 0 where the calling thread is inside of this pool, or where another thread puts it together or lends from it.
    std::size_t lend() noexcept;
    bool is_lending() const noexcept {
        const void* const lender = lender_.load(std::memory_order_acquire);
        return lender != nullptr && lender != &calls_of_thread_;
    }
    const portamem_pool_options& options() const noexcept { return options_; }
    bool is_closed() const noexcept { return (inside_.load(std::memory_order_acquire) & kClosed) != 0; }
    void stream_ended(std::uint64_t identity, void* event);
    /// Closes the pool and gives up everything. No thread calls it any more, except threads that end.
    void shut_down() noexcept;
    /// Closes the pool as it is. Threads that end leave its memory alone.
    void abandon() noexcept { inside_.fetch_or(kClosed); }
    /// Tells the owner that a call is over. The caller holds no lock.
    void rest(int status, bool may_block) noexcept {
        if (callbacks_.ops.rest != nullptr) callbacks_.ops.rest(callbacks_.self, status, may_block ? 1 : 0);
    }
    /// Moves the memory of a cache whose thread ends to the heap.
    void retire(const std::shared_ptr<Cache>& cache) noexcept;

    void live(std::uint64_t& blocks, std::uint64_t& nbytes);
    std::uint64_t live_bytes();
    void figures(portamem_pool_figures& figures);
    void reserved(std::uint64_t& now, std::uint64_t& peak);
    void reset_peak();
    /// Returns the pieces of all chunks in the order of their addresses, or those of the chunk at an address, without
    /// their streams.
    std::vector<portamem_pool_piece> snapshot(const void* only = nullptr);

    const PageMap& pages() const noexcept { return heap_.pages(); }

    /// Whether the calling thread is inside of a call within a call, of this pool or another. The outer call still uses
    /// the caches that it has found, so that ended caches are looked for only after it.
    static bool is_call_within_call() noexcept { return calls_of_thread_ > 1; }
    /// Whether the calling thread is inside of a call of a pool of a device's memory, or with -1 of host memory.
    static bool is_in_call_over(portamem_backend backend, int device) noexcept;
    static void forget_caches_after_call() noexcept { forgets_after_call_ = true; }

    std::shared_ptr<Pool> keeps_itself;  ///< from create to destroy

  private:
    struct Request {
        std::size_t nbytes;
        std::size_t size;  ///< bytes of the block
        unsigned index;
        std::size_t alignment;
        bool is_small() const noexcept { return index < kSmallClasses; }
        /// Returns the bytes that a chunk must have to hold the block.
        std::size_t need() const noexcept;
        std::size_t stands_in() const noexcept;  ///< bytes of a free block from which it can be cut
    };
    /// The places where a call finds its memory. It has no cache on a thread that ends, or on a stream whose end is not
    /// reported.
    struct CallContext {
        std::uint64_t identity = 0;
        void* stream = nullptr;
        Cache* cache = nullptr;
        std::shared_ptr<Arena> arena;
        bool ends_unseen = false;
    };
    class CallGuard;
    class TemporaryArena;
    class OtherPools;

    static thread_local unsigned calls_of_thread_;
    static thread_local bool forgets_after_call_;
    static void call_has_ended() noexcept;

    static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;

    // pool.cpp
    CallContext context_of(std::uint64_t identity, void* stream);
    std::shared_ptr<Arena> arena_for(std::uint64_t identity, const portamem_pool_stream& about);
    static Request request_for(std::size_t nbytes, std::size_t alignment);
    static Request whole_request_for(std::size_t nbytes, std::size_t alignment);
    static Request exact_request_for(std::size_t nbytes, std::size_t alignment);
    void* got(const CallContext& context, const Request& request, const Item* items, unsigned count, State out);
    bool is_captured(void* stream);
    void refuse_captured(void* stream, const char* what);
    static constexpr unsigned kMostItems = 128;  ///< blocks that one call takes, the most of one class in a cache

    // resize.cpp
    bool extend(Block& block, std::size_t from, std::size_t to, std::uint64_t identity) noexcept;

    // heap_path.cpp
    bool drain_pending(Cache& cache, void* stream) noexcept;
    bool put_drained(Cache& cache, std::size_t count) noexcept;

    // take.cpp
    Arena& own(Arena& arena) noexcept { return needs_event_before_reuse() ? heap_.common() : arena; }
    Arena& own(const CallContext& context) noexcept { return context.arena ? own(*context.arena) : heap_.common(); }
    bool needs_event_before_reuse() const noexcept { return options_.host_accessible != 0; }
    /// A pool with more bytes cuts slabs only from chunks for slabs, as long as there is another place (`cuts_all`).
    static constexpr std::size_t kFewBytes = std::size_t{64} << 20;
    /// The next three limit the free blocks from which smaller ones are cut: to so many bytes,
    static constexpr std::size_t kLeastCut = std::size_t{4} << 20;
    static constexpr std::size_t kCutShare = 8;   ///< or to this part of the pool,
    static constexpr std::size_t kCutTimes = 16;  ///< or to so many times the bytes needed
    std::size_t most_cut_for(const Request& request) noexcept;
    unsigned take_locked(Arena& own, const Request& request, Item* items, unsigned most, bool cuts_all = false);
    unsigned take(const CallContext& context, const Request& request, Item* items, unsigned most,
                  bool cuts_all = false);
    unsigned take_any(const CallContext& context, const Request& request, Item* items, unsigned most);
    unsigned take_with_calls(const CallContext& context, const Request& request, Item* items, unsigned most);
    unsigned merge_own(const CallContext& context, const Request& request, Item* items, unsigned most);

    // cross_stream.cpp
    bool serves(const Request& request, const Item& item) const;
    bool take_batch_of_other_stream(const CallContext& context, const Request& request, Item* items, unsigned& count);
    unsigned take_from_idle_cache(const CallContext& context, const Request& request, Item* items);
    std::shared_ptr<Arena> donor_for(const CallContext& context, const Request& request,
                                     const std::vector<const Arena*>& refused, bool& is_ordered);
    bool detach_from(Arena& donor, const CallContext& context, const Request& request, Batch& batch);
    MarkPtr wait_for_donor(Arena& donor, const CallContext& context, MarkPtr latest, Batches& taken,
                           Transfer& transfer);
    void accept(const CallContext& context, const Request& request, Batches&& taken, Batches&& left,
                const MarkPtr& mark, Item* items, unsigned& count);
    bool take_from_other_stream(const CallContext& context, const Request& request, Item* items, unsigned& count);

    // temporary_arena.cpp
    unsigned take_of_batch(Arena& arena, const Request& request, Batch& batch, Item* items);
    unsigned take_across_streams(const CallContext& context, const Request& request, Item* items, unsigned most);

    // grow.cpp
    std::size_t chunk_size(const CallContext& context, const Request& request);
    std::size_t allowance(const Request& request);
    unsigned keep_within(std::size_t allowed, std::size_t& nbytes, const CallContext& context, const Request& request,
                         Item* items, unsigned most);
    unsigned grow(const CallContext& context, const Request& request, Item* items, unsigned most);
    bool is_beyond_limit(const Request& request);
    std::uint64_t calls_so_far();
    unsigned grow_with(bool& is_asked, const CallContext& context, const Request& request, Item* items, unsigned most);
    unsigned add_chunk(void* ptr, std::size_t nbytes, Upstream::Claim& claim, const CallContext& context,
                       const Request& request, Item* items, bool is_first);
    unsigned ask_upstream(portamem_pool_status& status, bool& is_asked, std::size_t nbytes, const CallContext& context,
                          const Request& request, Item* items, bool is_first);
    unsigned take_everywhere(const CallContext& context, const Request& request, Item* items, unsigned most);
    unsigned ask_upstream_and_grow(portamem_pool_status& status, bool& is_asked, const CallContext& context,
                                   const Request& request, Item* items, unsigned most);

    // give.cpp
    void give(const CallContext& context, const Item& item, const Block& block);
    void flush(const CallContext& context, const Item& item);
    bool share(Arena& arena, const Item& item, unsigned index) noexcept;
    static bool put_if_room(Cache& cache, const Item& item, unsigned index, std::size_t most) noexcept;
    void put_with_room(Cache& cache, Arena& arena, const Item& item, unsigned index);
    void make_room(Cache& cache, Arena& arena, unsigned index);
    unsigned let_go(Cache& cache, Arena& arena, unsigned index, unsigned count);
    MarkPtr mark_of_own(const CallContext& context, bool& is_marked);
    void defer(const CallContext& context, const Item& item, std::size_t size);
    void flush_pending(const CallContext& context);

    // endings.cpp
    void end_arena(const std::shared_ptr<Arena>& arena) noexcept;

    // reclaim.cpp
    void flush_all_caches(bool for_good = false);
    void flush_own_streams();
    bool cannot_be_marked(const Arena& arena);
    bool drain_behind_mark(const std::shared_ptr<Arena>& arena, void* stream);
    void drain(const std::shared_ptr<Arena>& arena, bool waits, void* stream = nullptr);
    void drain_orphans();
    bool drain_own_streams();
    /// Puts all free memory together in the common arena. False: another thread was at it, and this call left it at
    /// that.
    bool reclaim(bool waits);
    void reclaim_behind(std::uint64_t identity, void* stream);
    void join_common();
    void drain_if_idle(const std::shared_ptr<Arena>& arena, bool is_urgent);
    bool give_idle(const CallContext& context, std::size_t keep, bool is_urgent);

    // release.cpp
    void after_free();

    // close.cpp
    void mark_all();
    void forget_owner() noexcept;

    const Callbacks callbacks_;
    const portamem_pool_options options_;

    Heap heap_;
    EventQueue events_{callbacks_, heap_, needs_event_before_reuse()};
    CacheSet caches_{*this, heap_, needs_event_before_reuse()};
    ChunkOwner chunk_owner_;
    Upstream upstream_{callbacks_, heap_, chunk_owner_, options_};
    ReleasePolicy policy_{callbacks_, heap_};

    /// The size up to which the pool may grow before idle chunks go back. Under the heap's lock.
    struct Growth {
        std::size_t most_live = 0;        ///< most bytes out at once, as seen when the upstream was asked
        unsigned vain = 0;                ///< looks for idle chunks in a row that found none
        unsigned looks_to_leave_out = 0;  ///< looks to skip because of those
    };
    Growth growth_;
    std::mutex reclaim_;                     ///< held by the call that puts everything together
    std::list<std::weak_ptr<Arena>> ended_;  ///< of ended streams; under the heap's lock

    std::atomic<std::uint64_t> inside_{0};      ///< calls under way; kClosed is the top bit
    std::atomic<const void*> lender_{nullptr};  ///< the thread that is in lend(): the address of its calls_of_thread_
    std::atomic<std::int64_t> empty_{0};        ///< live allocations of 0 bytes
    std::atomic<std::uint64_t> misses_{0};      ///< allocations for which the upstream was asked
    std::atomic<std::uint64_t> steals_{0};      ///< times that a stream took over memory freed on another
};

/// Counts a call under way. close() refuses while there is one, and destroy waits for it. Throws Refused where the pool
/// is closed.
class Pool::CallGuard {
  public:
    explicit CallGuard(Pool& pool) : pool_(pool), outer_(innermost_) {
        if ((pool.inside_.fetch_add(1) & kClosed) == 0) {
            ++calls_of_thread_;
            innermost_ = this;
            return;
        }
        pool.inside_.fetch_sub(1);
        throw Refused{PORTAMEM_POOL_INVALID, "the memory resource is closed"};
    }
    ~CallGuard() {
        innermost_ = outer_;
        if (--calls_of_thread_ == 0 && forgets_after_call_) call_has_ended();
        pool_.inside_.fetch_sub(1);
    }
    CallGuard(const CallGuard&) = delete;
    CallGuard& operator=(const CallGuard&) = delete;

    /// Whether the calling thread is inside of a pool of which `which` is true.
    template <class Which>
    static bool is_of_any(const Which& which) noexcept {
        for (const CallGuard* call = innermost_; call != nullptr; call = call->outer_) {
            if (which(call->pool_)) return true;
        }
        return false;
    }
    static bool is_of(const Pool& pool) noexcept {
        return is_of_any([&pool](const Pool& of) { return &of == &pool; });
    }

  private:
    static thread_local const CallGuard* innermost_;

    Pool& pool_;
    const CallGuard* const outer_;
};

/// The other pools of the same memory that share their idle memory. It asks them one after the other.
class Pool::OtherPools {
  public:
    explicit OtherPools(const Pool& pool);
    /// Asks pools until one has given memory back to its upstream. False where none has, or without host memory to list
    /// them.
    bool have_given_back() noexcept;
    OtherPools(const OtherPools&) = delete;
    OtherPools& operator=(const OtherPools&) = delete;

  private:
    const Pool& pool_;
    bool is_listed_ = false;
    std::vector<std::shared_ptr<Pool>> pools_;
};

// idle.cpp

/// Lists a pool among the pools of the process, if it keeps memory of a device or shares its idle memory. Throws
/// std::bad_alloc.
void enlist(const std::shared_ptr<Pool>& pool);
/// Returns the bytes that the pools of a device have reserved and that are not out. Throws std::bad_alloc.
std::uint64_t idle_bytes(portamem_backend backend, int device);
/// Returns the pools of a device's memory, or with -1 of host memory, that share their idle memory, except `asking`.
/// Throws std::bad_alloc.
std::vector<std::shared_ptr<Pool>> pools_that_help(portamem_backend backend, int device, const Pool* asking);

// lend.cpp

/// Returns the bytes that such pools have reserved and that are not out; 0 where the calling thread is inside of one of
/// that memory, which asks the others itself. Throws std::bad_alloc.
std::uint64_t lendable_bytes(portamem_backend backend, int device);
/// Has one such pool after the other give back what is idle, the newest first, until `nbytes` have gone back. Returns
/// how many have.
std::uint64_t lend_idle(portamem_backend backend, int device, std::size_t nbytes) noexcept;

}  // namespace portamem::pool
