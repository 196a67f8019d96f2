// SPDX-License-Identifier: MIT
// core/pool/events.hpp: the order between streams: events, and what is free behind them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "callbacks.hpp"
#include "heap.hpp"
#include "mark.hpp"

namespace portamem::pool {

/// Marks streams by events, and hands out memory behind them.
///
/// Invariant: memory that stands in the heap's waiting queue is free behind its mark, and no stream uses it before the
/// mark has happened or the stream waits for it. Memory in the common arena waits for nothing.
///
/// Locks: each function takes the heap's lock for as long as it moves memory, and calls the owner with no lock, but
/// for the caller's. Functions that call the owner throw Refused with the owner's status.
class EventQueue {
  public:
    EventQueue(const Callbacks& callbacks, Heap& heap, bool needs_event_before_reuse)
        : callbacks_(callbacks),
          heap_(heap),
          needs_event_(needs_event_before_reuse),
          back_(std::make_shared<EventsBack>(callbacks.ops, callbacks.self)) {}

    // ---- marks ----

    /// Takes an event of the owner's. Null stays null: there is nothing to wait for. Throws std::bad_alloc: the event
    /// went back to the owner.
    MarkPtr make_mark(void* event);
    /// Marks the stream of the call, now.
    MarkPtr mark_here(void* stream);
    /// Marks the stream of an arena, now; where only the stream's own thread could do that, answers the latest mark.
    MarkPtr mark_of(Arena& arena);
    /// Takes the last event of a stream that has ended; null: nothing to wait for. Where host memory is missing the CPU
    /// waits for it, and the answer is null; is_orphan says that it could not.
    MarkPtr adopt_last(void* event, bool& is_orphan);
    /// Has later work of `stream` wait for a mark, which may be null.
    void wait(void* stream, const MarkPtr& mark);
    /// Waits for a mark, which may be null, on the CPU.
    void synchronize(const MarkPtr& mark);
    /// Whether a mark, which may be null, has happened.
    bool has_happened(const MarkPtr& mark);
    /// Waits on the CPU for all work of the device. False where the owner cannot.
    bool synchronize_device();
    /// Waits for a mark, and tells the order checker that a chunk of the upstream's is behind it.
    void synchronize_chunk(const MarkPtr& mark, void* ptr, std::size_t nbytes);

    // ---- what waits behind marks ----

    /// Asks for the oldest event of a stream. True: it has happened, and what was behind it is in the common arena.
    bool poll_one(std::uint64_t stream);
    /// Asks for the events of the stream, and of some other streams by turns, each until one has not happened.
    void poll(std::uint64_t stream);
    /// Asks for the events of up to `most` streams, by turns, but for `own`.
    void poll_others(std::uint64_t own, std::size_t most);
    /// Hands out what a stream has waiting behind a mark that has happened, and tells the order checker of it.
    void give_happened(std::uint64_t stream, const MarkPtr& mark);
    /// Hands out what a stream has waiting now, oldest first, up to the first mark that has not happened; with `waits`
    /// the CPU waits for each. What is freed meanwhile is left: a program that frees ahead of the device would never
    /// let the call end.
    void drain(std::uint64_t stream, bool waits);

    /// Puts batches behind a mark; null: into the common arena.
    void put_behind(const MarkPtr& mark, Batches&& batches) noexcept;
    /// Puts batches that could not be ordered back to the arena that they came from.
    void put_back(Arena& arena, Batches&& batches) noexcept;
    /// Marks an arena's stream, and puts what waits there for a mark behind it. Throws Refused and std::bad_alloc: it
    /// waits there still.
    void mark_unmarked(Arena& arena);
    /// Puts what waits in an arena for want of host memory into its bins, as far as there is host memory now. Under the
    /// heap's lock.
    void retry_unmarked(Arena& arena) noexcept;

    /// How many marks were made.
    std::uint64_t marks() const noexcept { return marks_.load(std::memory_order_relaxed); }
    /// The owner goes: marks that threads hold still are not given back to it.
    void forget_owner() noexcept { back_->forget_owner(); }

  private:
    const Callbacks& callbacks_;
    Heap& heap_;
    const bool needs_event_;  ///< freed memory is in no arena before an event is behind it
    const std::shared_ptr<EventsBack> back_;
    std::atomic<std::uint64_t> marks_{0};
};

}  // namespace portamem::pool
