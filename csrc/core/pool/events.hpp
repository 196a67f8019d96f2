// SPDX-License-Identifier: MIT
// core/pool/events.hpp: the order between streams: events, and the free memory behind them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "callbacks.hpp"
#include "heap.hpp"
#include "mark.hpp"

namespace portamem::pool {

/// Marks streams by events, and hands out memory behind them. Functions that call the owner throw Refused.
/// Invariant: no stream uses waiting memory before its mark has happened or the stream waits for it.
/// Memory in the common arena waits for nothing.
/// Locks: the heap's covers memory while it moves; the owner is called with no lock but the caller's.
class EventQueue {
  public:
    EventQueue(const Callbacks& callbacks, Heap& heap, bool needs_event_before_reuse)
        : callbacks_(callbacks),
          heap_(heap),
          needs_event_(needs_event_before_reuse),
          back_(std::make_shared<EventsBack>(callbacks.ops, callbacks.self)) {}

    // ---- marks ----

    /// Wraps an event of the owner's. Null stays null: there is nothing to wait for. On std::bad_alloc the event went
    /// back to the owner.
    MarkPtr make_mark(void* event);
    /// Marks the stream of the call now.
    MarkPtr mark_here(void* stream);
    /// Marks the stream of an arena now. Where the stream has ended or only its own thread can mark it, returns the
    /// latest mark; throws Refused with BUSY where there is none.
    MarkPtr mark_of(Arena& arena);
    /// Wraps the last event of a stream that has ended; null: nothing to wait for. Without host memory the CPU waits
    /// for the event instead and the function returns null; is_orphan says that this wait failed.
    MarkPtr adopt_last(void* event, bool& is_orphan);
    /// Makes later work of `stream` wait for a mark, which may be null.
    void wait(void* stream, const MarkPtr& mark);
    /// Blocks the CPU until a mark, which may be null, has happened.
    void synchronize(const MarkPtr& mark);
    /// Whether a mark, which may be null, has happened.
    bool has_happened(const MarkPtr& mark);
    /// Blocks the CPU until all work of the device has run. False where the owner cannot do that.
    bool synchronize_device();
    /// Blocks the CPU until a mark has happened, and tells the order checker that a chunk of the upstream is behind it.
    void synchronize_chunk(const MarkPtr& mark, void* ptr, std::size_t nbytes);

    // ---- what waits behind marks ----

    /// Asks for the oldest mark of a stream. True: it has happened, and the memory behind it is in the common arena.
    bool poll_one(std::uint64_t stream);
    /// Asks for the marks of `stream`, then of some other streams in turn, each until one has not happened.
    void poll(std::uint64_t stream);
    /// Asks for the marks of up to `most` streams in turn, except `own`.
    void poll_others(std::uint64_t own, std::size_t most);
    /// Moves a stream's memory behind a mark that has happened to the common arena, and tells the order checker.
    void give_happened(std::uint64_t stream, const MarkPtr& mark);
    /// Moves the memory that a stream has waiting now to the common arena, oldest first, up to the first mark that has
    /// not happened. With `waits` the CPU waits for each mark. Memory that is freed meanwhile stays: a program that
    /// frees ahead of the device would never let the call end.
    void drain(std::uint64_t stream, bool waits);

    /// Puts batches behind a mark; null puts them into the common arena.
    void put_behind(const MarkPtr& mark, Batches&& batches) noexcept;
    /// Does the same for one batch. The caller holds the heap's lock, and may have detached the batch under it: memory
    /// that is in no list while the lock is open would be missed by a thread that puts everything together.
    void put_one_behind(const MarkPtr& mark, Batches&& one) noexcept;
    /// Puts batches that no mark could order back into their arena.
    void put_back(Arena& arena, Batches&& batches) noexcept;
    /// Marks an arena's stream, and puts the arena's unmarked memory behind the mark. On Refused and std::bad_alloc the
    /// memory stays unmarked.
    void mark_unmarked(Arena& arena);
    /// Does the same in two steps, around a mark that the caller makes. The memory stays in the arena in between, where
    /// other threads find it; what becomes unmarked in between may be freed after the mark, and is left there.
    std::uint64_t latest_unmarked(const Arena& arena);
    void put_unmarked_behind(const MarkPtr& mark, Arena& arena, std::uint64_t latest) noexcept;
    /// Moves memory that is unmarked for want of host memory into the arena's bins, as far as there is host memory now.
    /// The caller holds the heap's lock.
    void retry_unmarked(Arena& arena) noexcept;

    /// Returns how many marks were made.
    std::uint64_t marks() const noexcept { return marks_.load(std::memory_order_relaxed); }
    /// Detaches the owner: marks that threads still hold no longer name it when they are dropped.
    void forget_owner() noexcept { back_->forget_owner(); }

  private:
    const Callbacks& callbacks_;
    Heap& heap_;
    const bool needs_event_;  ///< freed memory enters no arena before an event is behind it
    const std::shared_ptr<EventsBack> back_;
    std::atomic<std::uint64_t> marks_{0};
};

}  // namespace portamem::pool
