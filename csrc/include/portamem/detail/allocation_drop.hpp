// SPDX-License-Identifier: MIT
// portamem/detail/allocation_drop.hpp: how the memory of an Allocation goes back when its last holder drops it.
#pragma once

#include "portamem/allocation.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/abi/order_api.h"
#include "portamem/capture.hpp"
#include "portamem/detail/embedder.hpp"
#include "portamem/detail/hearing.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/error.hpp"
#include "portamem/event.hpp"
#include "portamem/kept.hpp"
#include "portamem/leaving.hpp"
#include "portamem/mr/memory_resource.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

// Lists the work that this memory is dropped behind.
struct Allocation::Work {
    bool is_known = false;  // pending_work() has answered
    detail::LightVector<std::shared_ptr<Event>> events;
    detail::LightVector<int> devices;  // of streams that only a wait for their device can answer for
};

// Returns the work to wait for. portamem's own operations have their events. Where the program knows the address, all
// work that its streams hold now counts. Marking a captured stream would harm the capture, so this throws
// std::invalid_argument while one lasts.
inline Allocation::Work Allocation::pending_work() {
    Work work;
    work.is_known = true;
    const detail::UntrackedQueries own;
    detail::LightVector<std::shared_ptr<Stream>> streams;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        operations_.for_each([&](const std::shared_ptr<Event>& done) {
            if (!done->has_happened()) work.events.push_back(done);
        });
        work.devices = borrowers_;
        if (traits_->stream_ordered) return work;  // it goes back in its stream's order
        if (is_exposed_.load(std::memory_order_relaxed)) streams = users_;
    }
    if (is_exposed_.load(std::memory_order_relaxed)) streams.push_back(*stream_);
    for (const auto& stream : streams) {
        if (stream->is_idle()) continue;
        if (stream->is_elsewhere() && !stream->is_closed()) {
            work.devices.push_back(stream->device());
            continue;
        }
        try {
            refuse_captured(*stream, "close");
            if (auto tail = stream->tail()) work.events.push_back(std::move(tail));
        } catch (const Error& e) {
            if (!is_gone(*stream, e)) throw;
            work.devices.push_back(stream->device());
        }
    }
    return work;
}

inline bool Allocation::has_borrowers() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return !borrowers_.empty();
}

// Tells the order checker that this memory is used no more. Only a caller that has asked all of that work may call it.
inline void Allocation::tell_order_checker_done() noexcept {
    if (portamem_order_is_on(rt::BackendId) == 0) return;
    try {
        detail::LightVector<std::shared_ptr<Event>> done;
        detail::LightVector<std::shared_ptr<Stream>> streams;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            operations_.for_each([&](const std::shared_ptr<Event>& each) { done.push_back(each); });
            if (is_exposed_.load(std::memory_order_relaxed)) streams = users_;
        }
        for (const auto& event : done) detail::tell_order_checker_done(*event, ptr_, nbytes_);
        if (!is_exposed_.load(std::memory_order_relaxed)) return;
        streams.push_back(*stream_);
        const portamem_order_range range{ptr_, nbytes_};
        for (const auto& stream : streams) {
            const detail::UntrackedQueries about(&range, 1);
            (void)stream->is_idle();
        }
    } catch (const std::exception&) {
        return;
    }
}

// Gives back memory that no work uses any more. If it throws, the memory is as before.
inline void Allocation::give_back_settled() {
    if (!resource_) return drop_owner();
    const bool is_exposed = is_exposed_.load(std::memory_order_relaxed);
    using Uses = detail::Settled::Uses;
    const detail::Settled settled(ptr_, is_exposed ? Uses::MaybeMore : Uses::AllAsked);
    const Stream::Use use(**stream_);
    // The handle of a foreign stream may be gone by now, and no stream is waited for here.
    const bool is_fit = use && (*stream_)->tells_its_end();
    resource_->deallocate(ptr_, nbytes_, is_fit ? *stream_ : Stream::default_stream((*stream_)->device()));
}

// Gives back memory that has no holder any more. It waits for nothing but the runtime's own Free, and only where no
// work uses the memory.
inline void Allocation::drop() noexcept {
    const detail::HearingScope at_once(detail::Hearing::AtOnce);  // a wait is left for later
    Work work;
    bool was_told = false;
    try {
        if (!detail::InHostFunction::here()) {
            if (traits_->stream_ordered && !has_borrowers()) return give_back(*stream_);
            work = pending_work();
            if (work.events.empty() && work.devices.empty() && !may_wait()) {
                tell_order_checker_done();
                return give_back_settled();
            }
        }
    } catch (const detail::WaitLeft&) {
        work = {};
    } catch (...) {
        if (const auto tell = detail::embedder().lost_failure.load()) tell(std::current_exception());
        was_told = true;
        work = {};
    }
    const bool is_reapers = work.is_known && may_wait();
    drop_later(std::move(work), was_told);
    if (is_reapers) (void)detail::Leaving::instance().let_go(detail::Leaving::Caller::Drops);
}

// Represents dropped memory on its way back.
class Allocation::Dropped : public detail::Leaver {
  public:
    Dropped(std::shared_ptr<Allocation> memory, Work work, bool was_told)
        : memory_(std::move(memory)), work_(std::move(work)), was_told_(was_told) {
        const MemoryTraits& traits = *memory_->traits_;
        resource = memory_->resource_;
        device_id = traits.device_id();
        ptr = memory_->ptr_;
        nbytes = memory_->nbytes_;
    }

    bool has_run() noexcept override {
        try {
            if (!work_.is_known) work_ = memory_->pending_work();
            const detail::UntrackedQueries own;
            auto& events = work_.events;
            while (!events.empty() && events.back()->has_happened()) {
                happened_.push_back(std::move(events.back()));
                events.pop_back();
            }
            return events.empty() && work_.devices.empty();
        } catch (...) {
            return false;  // a capture is in the way, or the runtime is out of resources
        }
    }
    bool needs_device() const noexcept override { return !work_.devices.empty(); }
    void wait_for_device() noexcept override {
        try {
            while (needs_device()) {
                detail::refuse_in_capture("synchronizing the device");
                const detail::UntrackedQueries own;
                const RelaxedCapture beside(work_.devices.back());
                check(rt::DeviceSynchronize(), "DeviceSynchronize");
                work_.devices.pop_back();
            }
            const std::lock_guard<std::mutex> lock(memory_->mutex_);
            memory_->borrowers_.clear();
        } catch (...) {
            return;  // a later round tries again
        }
    }
    bool go() noexcept override {
        if (!has_run()) return false;
        const detail::HearingScope at_once(detail::Hearing::AtOnce);
        try {
            for (const auto& event : happened_) detail::tell_order_checker_done(*event, ptr, nbytes);
            happened_.clear();
            memory_->tell_order_checker_done();
            if (memory_->traits_->stream_ordered) {
                memory_->give_back(*memory_->stream_);
            } else {
                memory_->give_back_settled();
            }
            return true;
        } catch (const detail::WaitLeft&) {
            return false;
        } catch (...) {
            was_refused.store(true);
            if (!was_told_) {
                was_told_ = true;
                if (const auto tell = detail::embedder().lost_failure.load()) tell(std::current_exception());
            }
            return false;
        }
    }
    bool may_wait() const noexcept override { return memory_->may_wait(); }

  private:
    const std::shared_ptr<Allocation> memory_;
    Work work_;                                             // go() and has_run() ask for it where it is not known
    detail::LightVector<std::shared_ptr<Event>> happened_;  // taken from work_
    bool was_told_;                                         // whether a failure was reported
};

// Puts off what cannot go back now: work uses it, a capture is in the way, or the runtime is out of resources.
inline void Allocation::drop_later(Work work, bool was_told) noexcept {
    try {
        auto again = blank(ptr_, nbytes_, *stream_);
        again->own_traits_ = *traits_;
        again->traits_ = &again->own_traits_;
        again->resource_ = resource_;
        again->own_resource_ = resource();
        again->owner_ = owner_;
        again->users_ = std::move(users_);
        again->latest_uses_ = std::move(latest_uses_);
        again->borrowers_ = std::move(borrowers_);
        again->operations_ = std::move(operations_);
        again->is_exposed_.store(is_exposed_.load(std::memory_order_relaxed), std::memory_order_relaxed);
        again->shared_.store(true, std::memory_order_relaxed);
        detail::Leaving::instance().add(
            std::shared_ptr<detail::Leaver>(new Dropped(std::move(again), std::move(work), was_told)));
    } catch (...) {
        // Host memory has run out too. The memory is lost to this process, which the counters keep showing.
    }
}

PORTAMEM_CLOSE
