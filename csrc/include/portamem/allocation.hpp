// SPDX-License-Identifier: MIT
// portamem/allocation.hpp: one piece of memory, the streams that use it, and how it goes back.
//
// The class has the short functions here, and those that run whenever memory is taken or given back. The others are
// declared here; the three headers that this one includes at its end define them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "portamem/detail/embedder.hpp"
#include "portamem/detail/latest_events.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/leaving.hpp"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN

namespace detail {
struct Embedded;
}

/// Holds a piece of memory, and keeps alive the resource, device and stream it came from. Buffers share it.
///
/// Exports (sub-views, typed views, Python buffers, operations being submitted) are counted, and close() refuses while
/// one is alive. The last holder's end gives the memory back, after the work that was declared on it.
class Allocation {
    struct Key {
        explicit Key() = default;
    };

  public:
    /// Serves the makers below: the key is private.
    Allocation(Key, void* ptr, std::size_t nbytes, std::shared_ptr<Stream> stream)
        : ptr_(ptr), nbytes_(nbytes), stream_(&own_stream_), own_stream_(std::move(stream)), exports_(kClosed) {}

    /// Takes `nbytes` of the resource, for work on `stream`, which becomes the memory's own stream. Resource and stream
    /// are not null. Throws as MemoryResource::allocate does.
    static std::shared_ptr<Allocation> make(std::shared_ptr<MemoryResource> resource, std::size_t nbytes,
                                            std::shared_ptr<Stream> stream,
                                            std::size_t alignment = MemoryResource::kAlignment) {
        MemoryResource& from = *resource;
        return make_by(std::move(resource), nbytes, std::move(stream),
                       [&](const std::shared_ptr<Stream>& on) { return from.allocate(nbytes, on, alignment); });
    }

    /// Wraps memory that the resource has given out already, for `nbytes` on `stream`. The allocation owns the memory
    /// from here on, and gives it back to the resource.
    static std::shared_ptr<Allocation> adopt(std::shared_ptr<MemoryResource> resource, void* ptr, std::size_t nbytes,
                                             std::shared_ptr<Stream> stream) {
        auto allocation = blank(ptr, nbytes, std::move(stream));
        allocation->adopt(std::move(resource));
        return allocation;
    }

    /// Wraps memory that the caller owns; portamem never frees it.
    /// - stream: the memory's own stream, not null. traits: portamem believes them.
    /// - owner: it keeps the memory alive, and portamem lets go of it after all declared work has run.
    static std::shared_ptr<Allocation> foreign(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                               const MemoryTraits& traits, std::shared_ptr<void> owner) {
        auto allocation = blank(ptr, nbytes, stream);
        allocation->own_traits_ = traits;
        allocation->traits_ = &allocation->own_traits_;
        allocation->owner_ = std::move(owner);
        if (!stream->is_default()) allocation->expose();  // the program may have queued work there itself
        allocation->exports_.store(0, std::memory_order_release);
        return allocation;
    }

    ~Allocation() {
        if (exports_.load(std::memory_order_relaxed) >= 0 && runtime_usable() && !give_back_cached()) {
            detail::unlocked([this] { drop(); });
        }
        if (refs_.let_go != nullptr) refs_.let_go(refs_);
    }
    Allocation(const Allocation&) = delete;
    Allocation& operator=(const Allocation&) = delete;

    /// Returns the address, for portamem itself. Buffer::ptr() is the program's: that one also does expose() and
    /// settle().
    void* ptr() const noexcept { return ptr_; }
    /// Notes that the program knows the address, and may use it by work that portamem does not see. When the memory is
    /// dropped, it then goes back behind all work on its own stream and its declared streams, not only behind
    /// portamem's own operations.
    void expose() const noexcept {
        if (!is_exposed_.load(std::memory_order_relaxed)) is_exposed_.store(true, std::memory_order_relaxed);
    }
    /// Says that the host waits for the memory's own stream once, when the program first asks for the address: every
    /// stream may use the memory from then on. portamem's own operations do not wait, because they order their streams.
    void settle_when_exposed() const noexcept { is_unsettled_.store(true, std::memory_order_release); }
    bool is_unsettled() const noexcept { return is_unsettled_.load(std::memory_order_acquire); }
    /// Does that wait, unless it was done before or settle_when_exposed() was never called. Throws as
    /// Stream::synchronize does; then the next call waits again. In a forked child it does not wait, because no work of
    /// the child can use the memory.
    void settle() const {
        if (!is_unsettled()) return;
        if (portamem_forked() == 0) (*stream_)->settle();
        is_unsettled_.store(false, std::memory_order_release);
    }
    std::size_t nbytes() const noexcept { return nbytes_; }
    const std::shared_ptr<Stream>& stream() const noexcept { return *stream_; }
    /// Returns null for foreign memory.
    std::shared_ptr<MemoryResource> resource() const { return resource_ ? resource_->shared_from_this() : nullptr; }
    /// Returns the object that keeps foreign memory alive, or null once it has been let go.
    std::shared_ptr<void> owner() const {
        std::lock_guard<std::mutex> lock(mutex_);
        return owner_;
    }
    const MemoryTraits& traits() const noexcept { return *traits_; }

    bool is_closed() const noexcept { return exports_.load(std::memory_order_acquire) < kResizing; }
    std::size_t exports() const noexcept {
        const auto count = exports_.load(std::memory_order_acquire);
        return count < 0 ? 0 : static_cast<std::size_t>(count);
    }

    /// Counts one more export, and pairs with end_export. Throws std::invalid_argument once closed, and ExportError
    /// while another thread changes the size.
    void begin_export() {
        auto count = exports_.load(std::memory_order_relaxed);
        do {
            if (count == kResizing) refuse_exports(count);
            if (count < 0) throw std::invalid_argument("the buffer is closed");
        } while (!exports_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel));
    }
    void end_export() noexcept { exports_.fetch_sub(1, std::memory_order_acq_rel); }

    /// Declares that work submitted to `stream` from now on uses this memory, so that it goes back only behind that
    /// work. The first declaration of a stream other than the memory's own makes that stream wait for the work on the
    /// memory's own stream. That declaration throws std::invalid_argument if `stream` is closed, or if one of the two
    /// streams is captured.
    void use_on(const std::shared_ptr<Stream>& stream);

    /// Notes that one of portamem's own operations on this memory has run when `done` has happened, which this thread
    /// has recorded on the operation's stream. The caller has declared that stream (use_on). Stream-ordered memory
    /// notes nothing, because it goes back in its stream's order.
    void runs_until(const Stream& stream, const std::shared_ptr<Event>& done);

    /// Makes `stream` wait for the work on the memory's own stream and on all declared streams; the host does not wait.
    /// Throws std::invalid_argument if one of the streams is captured.
    void order_behind_users(Stream& stream);

    /// Hands the memory to work that the program submits to `stream` later: makes `stream` wait for all work declared
    /// so far. A default stream, or a stream that is declared already, counts as declared from here on. The program may
    /// have destroyed any other stream by the time that the memory goes back, so portamem does not ask that stream: the
    /// memory goes back behind all work of the stream's device. Throws std::invalid_argument if a stream that has to
    /// wait, or to be waited for, is captured.
    void hand_over(const std::shared_ptr<Stream>& stream);

    /// Does hand_over where that takes no call and no wait: `stream` is the memory's own and a default stream, and no
    /// other stream uses the memory. Else returns false, and does nothing.
    bool hand_over_at_once(const std::shared_ptr<Stream>& stream) noexcept {
        if (stream != *stream_ || !stream->is_default() || shared_.load(std::memory_order_acquire)) return false;
        used_.store(true, std::memory_order_release);
        note_use_here(stream->declare());
        return true;
    }

    /// Returns an open stream that is ordered behind all work declared on this memory. A consumer waits for that stream
    /// before it touches the memory.
    std::shared_ptr<Stream> exchange_stream();

    /// Blocks until all work has run on each device of a stream that hand_over gave the memory to without declaring it.
    void wait_for_borrowers();

    /// Blocks until the work on the memory's own stream and on all declared streams has run. Throws
    /// std::invalid_argument if one of them is captured.
    void synchronize_users();

    /// Returns whether any work was ever declared on this memory.
    bool is_declared() const noexcept { return used_.load(std::memory_order_acquire); }

    /// Does what synchronize_users does where work was declared, for callers that read the memory and submit nothing. A
    /// forked child cannot wait: the call returns where the parent knew before the fork that the work had run, and
    /// throws Error otherwise.
    void synchronize_declared();

    /// Gives the memory back on `stream` (null: the memory's own), behind the work there, on the memory's own stream
    /// and on every declared stream. Closing twice is allowed: the call returns false where it was closed before.
    /// Throws ExportError under an export, std::invalid_argument while a capture forbids it, and Error where the
    /// runtime refuses; the memory stays usable then.
    bool close(const std::shared_ptr<Stream>& stream);

    /// Changes the size without a change of the address, and returns whether it did. It does so only if `stream` is the
    /// memory's own, no other stream uses the memory, the address is a multiple of `alignment`, and the resource can.
    /// Work submitted to `stream` from now on may use the new bytes. Throws ExportError under an export, and
    /// std::invalid_argument once closed.
    bool resize_in_place(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment);

    /// Closes foreign memory: blocks until all declared work has run, and then lets go of the owner. A second close
    /// does nothing. Throws as close() does.
    void close_and_wait();

    /// Gives up ownership and returns the address. The caller passes it to the resource's deallocate, on a stream that
    /// is behind all work that uses the memory, because the declared streams are forgotten. Does the wait of settle()
    /// first. Throws ExportError under an export, and std::invalid_argument for foreign memory and once closed.
    void* release();

  private:
    friend struct detail::Embedded;
    friend class GrowableBuffer;

    /// Does what make does, by `take(stream)`, which has the resource give the memory.
    template <class Take>
    static std::shared_ptr<Allocation> make_by(std::shared_ptr<MemoryResource> resource, std::size_t nbytes,
                                               std::shared_ptr<Stream> stream, Take&& take) {
        // Every step that can fail comes before the memory is taken, or is undone with it.
        auto allocation = blank(nullptr, nbytes, std::move(stream));
        allocation->ptr_ = take(allocation->own_stream_);
        allocation->adopt(std::move(resource));
        return allocation;
    }

    /// Changes the size by `change`, which keeps the address. For more bytes, exports stay valid. For fewer, it throws
    /// ExportError under an export, and waits for all declared work; no export can begin meanwhile. Throws
    /// std::invalid_argument once closed, and what `change` throws; the size is as it was then. One thread at a time
    /// may change the size.
    template <class Function>
    void resize_here(std::size_t nbytes, Function&& change) {
        const bool is_less = nbytes < nbytes_;
        is_less ? begin_resize() : begin_export();
        try {
            if (is_less) {
                synchronize_users();
                wait_for_borrowers();
            }
            change();
            nbytes_ = nbytes;
        } catch (...) {
            is_less ? end_resize() : end_export();
            throw;
        }
        is_less ? end_resize() : end_export();
    }

    /// Closes for the only holder where the resource takes the memory back at hand. Returns false, and does nothing,
    /// where the resource does not, or where another stream used the memory. The caller has to let go of the refs.
    bool close_cached(detail::EmbedderRefs& refs) noexcept {
        if (exports_.load(std::memory_order_acquire) != 0 || !give_back_cached()) return false;
        exports_.store(kClosed, std::memory_order_release);
        refs = std::exchange(refs_, detail::EmbedderRefs{});
        return true;
    }

    /// Does the same where the resource needs a call. It runs outside of an embedder's lock, and may throw as close()
    /// does. No other thread can have the allocation meanwhile. Returns false where there are no refs, too.
    bool close_unshared(detail::EmbedderRefs& refs) {
        // Stream-ordered memory is not taken as settled: the resource below it may not be stream-ordered, and waits for
        // the stream.
        return close_unshared(refs, !traits_->stream_ordered && is_untouched());
    }

    /// Does the same for memory that is dropped. Returns false also where work may use it; the destructor handles that.
    bool drop_unshared(detail::EmbedderRefs& refs) {
        if (traits_->stream_ordered) return close_unshared(refs, false);
        return is_untouched() && !may_wait() && close_unshared(refs, true);
    }

    /// Makes a closed allocation without memory, which reopen() opens.
    static std::shared_ptr<Allocation> blank() { return blank(nullptr, 0, nullptr); }

    /// Returns whether it is as blank() makes it: never open, or reopened and then closed by close_cached or
    /// close_unshared.
    bool is_blank() const noexcept { return is_closed() && own_stream_ == nullptr && refs_.let_go == nullptr; }

    /// Opens a blank allocation that has no other holder, with memory that the resource has at hand. Returns false, and
    /// does nothing, where the resource has none. The refs keep the resource alive, and `stream` at its place; they are
    /// let go after the memory.
    bool reopen(MemoryResource& resource, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                std::size_t alignment, const detail::EmbedderRefs& refs) noexcept {
        void* ptr = resource.allocate_cached(nbytes, stream, alignment);
        if (ptr == nullptr) return false;
        reopen(resource, ptr, nbytes, stream, refs);
        return true;
    }

    /// Does the same with memory that the resource has given out already.
    void reopen(MemoryResource& resource, void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                const detail::EmbedderRefs& refs) noexcept {
        ptr_ = ptr;
        nbytes_ = nbytes;
        resource_ = &resource;
        stream_ = &stream;
        traits_ = &resource.traits();
        refs_ = refs;
        used_.store(false, std::memory_order_relaxed);
        latest_use_here_.store(0, std::memory_order_relaxed);
        is_exposed_.store(traits_->is_known_elsewhere, std::memory_order_relaxed);
        is_unsettled_.store(false, std::memory_order_relaxed);
        exports_.store(0, std::memory_order_release);
    }

    static std::shared_ptr<Allocation> blank(void* ptr, std::size_t nbytes, std::shared_ptr<Stream> stream) {
        return std::make_shared<Allocation>(Key{}, ptr, nbytes, std::move(stream));
    }

    static constexpr std::int64_t kClosed = -(std::int64_t{1} << 62);
    static constexpr std::int64_t kResizing = -1;  // open, without exports, and none can begin

    // Returns whether no work can use the memory.
    bool is_untouched() const noexcept { return !is_exposed_.load(std::memory_order_relaxed) && operations_.empty(); }

    bool close_unshared(detail::EmbedderRefs& refs, bool is_settled) {
        if (refs_.let_go == nullptr || shared_.load(std::memory_order_acquire)) return false;
        if (!(*stream_)->tells_its_end()) return false;  // give_back handles a handle that is gone
        if (exports_.load(std::memory_order_acquire) != 0) return false;
        const Stream::Use use(**stream_);
        if (!use) return false;
        const detail::Settled none_pending(is_settled ? ptr_ : nullptr, detail::Settled::Uses::AllAsked);
        resource_->deallocate(ptr_, nbytes_, *stream_);
        operations_.clear();
        exports_.store(kClosed, std::memory_order_release);
        refs = std::exchange(refs_, detail::EmbedderRefs{});
        return true;
    }

    void adopt(std::shared_ptr<MemoryResource> resource) noexcept {
        traits_ = &resource->traits();
        resource_ = resource.get();
        own_resource_ = std::move(resource);
        is_exposed_.store(traits_->is_known_elsewhere, std::memory_order_relaxed);
        exports_.store(0, std::memory_order_release);
    }

    // Two threads may declare in either order, and so the smaller number may come last.
    void note_use_here(std::uint64_t number) noexcept {
        auto known = latest_use_here_.load(std::memory_order_relaxed);
        while (known < number && !latest_use_here_.compare_exchange_weak(known, number, std::memory_order_relaxed)) {
        }
    }
    static void raise_to(std::uint64_t& latest, std::uint64_t number) noexcept { latest = std::max(latest, number); }
    // The caller holds the lock for this function and the next.
    std::uint64_t& latest_use(std::shared_ptr<Stream>* user) noexcept {
        return latest_uses_[static_cast<std::size_t>(user - users_.begin())];
    }
    void add_user(const std::shared_ptr<Stream>& stream, std::uint64_t number);

    // Marking a captured stream would draw every stream that waits for the mark into the capture. A closed stream has
    // its mark.
    static void refuse_captured(const Stream& stream, const char* what) { stream.refuse_capture_if_open(what); }

    // Returns whether this thread may submit to the stream.
    static bool is_open(const Stream& stream) noexcept { return !stream.is_closed() && !stream.is_elsewhere(); }

    // Takes the usual path with a pool: no stream to wait for, and no question to the runtime.
    bool give_back_cached() noexcept {
        return !shared_.load(std::memory_order_acquire) && resource_ != nullptr &&
               resource_->deallocate_cached(ptr_, nbytes_, *stream_);
    }

    // Returns whether giving back may wait for work that has nothing to do with this memory.
    bool may_wait() const noexcept {
        if (resource_ == nullptr) return traits_->kind == ResourceKind::Registered;
        if (traits_->stream_ordered) return false;
        return traits_->free_may_wait || (rt::FreeMayWait && is_exposed_.load(std::memory_order_relaxed));
    }

    // detail/allocation_users.hpp has these: the streams that use the memory.
    bool has_run_declared() const;
    void declare_for(const std::shared_ptr<Stream>& user);
    detail::LightVector<std::shared_ptr<Stream>> users();
    detail::LightVector<std::shared_ptr<Stream>> all_users();
    static std::shared_ptr<Stream> stand_in(Stream& stream);

    // detail/allocation_close.hpp has these: memory that its holder closes. Dropped memory goes back by them too.
    bool begin_close();
    void begin_resize();
    void end_resize() noexcept;
    [[noreturn]] static void refuse_exports(std::int64_t count);
    void give_back(const std::shared_ptr<Stream>& named);
    static bool is_gone(const Stream& stream, const Error& e) noexcept;
    static void order_behind(Stream& stream, Stream& user);
    void give_back_behind(const std::shared_ptr<Stream>& named);
    void let_go(Stream& stream);
    void drop_owner();

    // detail/allocation_drop.hpp has these: memory whose last holder has ended without closing it.
    struct Work;
    class Dropped;
    Work pending_work();
    bool has_borrowers() const;
    void tell_order_checker_done() noexcept;
    void give_back_settled();
    void drop() noexcept;
    void drop_later(Work work, bool was_told) noexcept;

    void* ptr_;
    std::size_t nbytes_;
    MemoryResource* resource_ = nullptr;  // null: foreign
    const MemoryTraits* traits_ = nullptr;
    // Points to the reference here, or to one in an object that the refs keep alive.
    const std::shared_ptr<Stream>* stream_;
    detail::EmbedderRefs refs_;
    std::shared_ptr<MemoryResource> own_resource_;
    const std::shared_ptr<Stream> own_stream_;
    MemoryTraits own_traits_;  // for foreign memory, or memory that was put off
    std::shared_ptr<void> owner_;
    mutable std::mutex mutex_;  // guards users_, borrowers_, operations_, and owner_ once it may be dropped
    detail::LightVector<std::shared_ptr<Stream>> users_;  // streams declared beside the allocation's own
    detail::LightVector<std::uint64_t> latest_uses_;      // of each user, in their order
    detail::LightVector<int> borrowers_;                  // devices of streams that were handed the memory, undeclared
    detail::LatestEvents operations_;                     // portamem's own
    mutable std::atomic<bool> is_exposed_{false};
    mutable std::atomic<bool> is_unsettled_{false};  // the wait of settle() is still to be done
    std::atomic<bool> shared_{false};                // another stream or a borrower uses the memory
    std::atomic<bool> used_{false};                  // work was declared on the allocation's stream or another
    std::atomic<std::uint64_t> latest_use_here_{0};  // on the allocation's own stream; 0: none
    std::atomic<std::int64_t> exports_;              // or kResizing; kClosed once closed, or not yet open
};

PORTAMEM_CLOSE

#include "portamem/detail/allocation_close.hpp"
#include "portamem/detail/allocation_drop.hpp"
#include "portamem/detail/allocation_users.hpp"
