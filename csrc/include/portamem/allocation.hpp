// SPDX-License-Identifier: MIT
// portamem/allocation.hpp: one piece of memory, the streams that use it, and how it goes back.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "portamem/detail/hearing.hpp"
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

    /// Takes `nbytes` of the resource on the stream.
    static std::shared_ptr<Allocation> make(std::shared_ptr<MemoryResource> resource, std::size_t nbytes,
                                            std::shared_ptr<Stream> stream,
                                            std::size_t alignment = MemoryResource::kAlignment) {
        // Every step that can fail comes before the memory is taken, or is undone with it.
        auto allocation = std::make_shared<Allocation>(Key{}, nullptr, nbytes, std::move(stream));
        allocation->ptr_ = resource->allocate(nbytes, allocation->own_stream_, alignment);
        allocation->adopt(std::move(resource));
        return allocation;
    }

    /// Wraps memory that the resource has given out already.
    static std::shared_ptr<Allocation> adopt(std::shared_ptr<MemoryResource> resource, void* ptr, std::size_t nbytes,
                                             std::shared_ptr<Stream> stream) {
        auto allocation = std::make_shared<Allocation>(Key{}, ptr, nbytes, std::move(stream));
        allocation->adopt(std::move(resource));
        return allocation;
    }

    /// Wraps memory that the caller owns: it is never freed here. `owner` is let go after all declared work has run.
    static std::shared_ptr<Allocation> foreign(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                               const MemoryTraits& traits, std::shared_ptr<void> owner) {
        auto allocation = std::make_shared<Allocation>(Key{}, ptr, nbytes, stream);
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

    void* ptr() const noexcept { return ptr_; }
    /// Notes that the program knows the address, and may use it by work that portamem does not see. From here on all
    /// work that its streams hold when it is dropped counts as work on this memory, not only portamem's own operations.
    void expose() const noexcept {
        if (!is_exposed_.load(std::memory_order_relaxed)) is_exposed_.store(true, std::memory_order_relaxed);
    }
    /// Puts the wait for the memory's own stream off until the program asks for the address, for memory that every
    /// stream may use at once. portamem's own operations need no wait, because they order their streams.
    void settle_when_exposed() const noexcept { is_unsettled_.store(true, std::memory_order_release); }
    bool is_unsettled() const noexcept { return is_unsettled_.load(std::memory_order_acquire); }
    /// Does that wait, where it was put off and not done yet. Throws as Stream::synchronize does; then the next call
    /// waits again. In a forked child it waits for nothing, because no work of the child can use the memory.
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

    bool is_closed() const noexcept { return exports_.load(std::memory_order_acquire) < 0; }
    std::size_t exports() const noexcept {
        const auto count = exports_.load(std::memory_order_acquire);
        return count < 0 ? 0 : static_cast<std::size_t>(count);
    }

    /// Counts one more export, and pairs with end_export. Throws std::invalid_argument once closed.
    void begin_export() {
        auto count = exports_.load(std::memory_order_relaxed);
        do {
            if (count < 0) throw std::invalid_argument("the buffer is closed");
        } while (!exports_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel));
    }
    void end_export() noexcept { exports_.fetch_sub(1, std::memory_order_acq_rel); }

    /// Declares that work submitted to `stream` from now on uses this memory, so that it goes back only behind that
    /// work. The first declaration also orders the stream behind the allocation itself.
    void use_on(const std::shared_ptr<Stream>& stream) {
        used_.store(true, std::memory_order_release);
        const std::uint64_t number = stream->declare();
        if (stream == *stream_) return note_use_here(number);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            const auto user = std::find(users_.begin(), users_.end(), stream);
            if (user != users_.end()) return raise_to(latest_use(user), number);
        }
        stream->refuse_capture("declaring a use of memory");
        refuse_captured(**stream_, "using memory on another stream");
        stream->wait(**stream_);
        shared_.store(true, std::memory_order_release);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            add_user(stream, number);
        }
        if (resource_) resource_->note_use(ptr_, nbytes_, *stream);
    }

    /// Notes that one of portamem's own operations on this memory has run when `done` has happened. The operation's
    /// stream was declared before. Stream-ordered memory notes nothing, because it goes back in its stream's order.
    void runs_until(const std::shared_ptr<Event>& done) {
        if (traits_->stream_ordered) return;
        done->rely();
        std::lock_guard<std::mutex> lock(mutex_);
        if (operations_.size() >= kFewOperations && operations_.size() == operations_.capacity()) {
            const detail::UntrackedQueries own;
            const auto has_happened = [](const std::shared_ptr<Event>& event) { return event->has_happened(); };
            operations_.erase(std::remove_if(operations_.begin(), operations_.end(), has_happened), operations_.end());
            operations_.reserve(std::max(2 * operations_.size(), kFewOperations));
        }
        operations_.push_back(done);
    }

    /// Makes `stream` wait for all work declared on this memory.
    void order_behind_users(Stream& stream) {
        const auto users = all_users();
        if (users.size() > 1) stream.refuse_capture("using memory on another stream");
        for (const auto& user : users) {
            refuse_captured(*user, "using memory on another stream");
            stream.wait(*user);
        }
    }

    /// Hands the memory to work that the program submits to `stream` later: makes that wait for all work declared so
    /// far. A default stream, or a stream that is declared already, counts as declared from here on. Any other stream
    /// may be gone when the memory goes back, so it is not marked then: the memory goes back behind all work of its
    /// device instead.
    void hand_over(const std::shared_ptr<Stream>& stream) {
        if (hand_over_at_once(stream)) return;
        used_.store(true, std::memory_order_release);
        const std::uint64_t number = stream->declare();
        const auto before = all_users();
        const auto same = std::find_if(before.begin(), before.end(), [&](const std::shared_ptr<Stream>& user) {
            return is_open(*user) && user->has_handle_of(*stream);
        });
        bool refused = false;  // only a stream that waits needs the check
        for (const auto& user : before) {
            if (same != before.end() && user == *same) continue;
            if (!refused) stream->refuse_capture("handing memory over");
            refused = true;
            refuse_captured(*user, "handing memory over");
            stream->wait(*user);
        }
        if (same != before.end()) return declare_for(*same);
        shared_.store(true, std::memory_order_release);
        std::lock_guard<std::mutex> lock(mutex_);
        if (stream->is_default()) {
            add_user(stream, number);
        } else if (std::find(borrowers_.begin(), borrowers_.end(), stream->device()) == borrowers_.end()) {
            borrowers_.push_back(stream->device());
        }
    }

    /// Does hand_over where that takes no call and no wait, because the memory is used on this stream alone; else
    /// returns false.
    bool hand_over_at_once(const std::shared_ptr<Stream>& stream) noexcept {
        if (stream != *stream_ || !stream->is_default() || shared_.load(std::memory_order_acquire)) return false;
        used_.store(true, std::memory_order_release);
        note_use_here(stream->declare());
        return true;
    }

    /// Returns an open stream that is ordered behind all work declared on this memory. A consumer waits for that stream
    /// before it touches the memory.
    std::shared_ptr<Stream> exchange_stream() {
        const Stream::Use use(**stream_);  // another thread may close it meanwhile
        auto stream = use ? *stream_ : stand_in(**stream_);
        const auto declared = users();
        if (!declared.empty()) stream->refuse_capture("handing memory over");
        for (const auto& user : declared) {
            refuse_captured(*user, "handing memory over");
            stream->wait(*user);
        }
        return stream;
    }

    /// Blocks until all work declared on this memory has run.
    void synchronize_users() {
        for (const auto& user : all_users()) {
            refuse_captured(*user, "waiting for the users of memory");
            const detail::DeclaredSoFar so_far = user->declared_so_far();
            if (const auto tail = user->tail()) tail->wait();
            so_far.note_run();
        }
    }

    /// Returns whether any work was ever declared on this memory.
    bool is_declared() const noexcept { return used_.load(std::memory_order_acquire); }

    /// Does what synchronize_users does where work was declared, for readers that submit nothing. A forked child can
    /// wait for nothing: it may read where the work is known to have run, and gets Error otherwise.
    void synchronize_declared() {
        if (!used_.load(std::memory_order_acquire)) return;
        if (portamem_forked() == 0) return synchronize_users();
        if (!has_run_declared()) {
            detail::raise(rt::Error_t::InitializationError, "fork",
                          "this memory can be read here if its work had run before the fork");
        }
    }

    /// Gives the memory back, behind the work on `stream` (null: the allocation's stream) and on every declared stream.
    /// Closing twice is allowed. Throws ExportError under an export, and Error where the runtime refuses; the memory
    /// stays usable then.
    void close(const std::shared_ptr<Stream>& stream) {
        refuse_forked();
        if (!begin_close()) return;
        try {
            give_back(stream ? stream : *stream_);
        } catch (...) {
            exports_.store(0, std::memory_order_release);
            throw;
        }
    }

    /// Closes foreign memory so that it has been let go on return: it waits for all declared work first.
    void close_and_wait() {
        refuse_forked();
        if (!begin_close()) return;
        try {
            synchronize_users();
            wait_for_borrowers();
        } catch (...) {
            exports_.store(0, std::memory_order_release);
            throw;
        }
        drop_owner();
    }

    /// Gives up ownership: the caller hands ptr() to the resource's deallocate, on a stream behind all work that uses
    /// the memory. The declarations on it are forgotten here.
    void* release() {
        if (!resource_) throw std::invalid_argument("the memory is not owned by this buffer: nothing to release");
        settle();
        if (!begin_close()) throw std::invalid_argument("the buffer is closed");
        return ptr_;
    }

  private:
    friend struct detail::Embedded;

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
    static std::shared_ptr<Allocation> blank() { return std::make_shared<Allocation>(Key{}, nullptr, 0, nullptr); }

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

    static constexpr std::int64_t kClosed = -(std::int64_t{1} << 62);
    static constexpr std::size_t kFewOperations = 8;

    // Closes to new exports; returns false where it was closed before. Throws ExportError under an export.
    bool begin_close() {
        std::int64_t none = 0;
        if (exports_.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel)) return true;
        if (none < 0) return false;
        refuse_exports(none);
    }

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

    [[noreturn]] static void refuse_exports(std::int64_t count) {
        throw ExportError("the buffer is in use by " + std::to_string(count) +
                          " export(s) (sub-views, views, memoryviews, DLPack tensors or a running copy): "
                          "close those first");
    }

    // Waits for no lock, because a thread of the parent may have held it at the fork.
    bool has_run_declared() const {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock() || !borrowers_.empty()) return false;
        if (!(*stream_)->has_run(latest_use_here_.load(std::memory_order_relaxed))) return false;
        for (std::size_t i = 0; i < users_.size(); ++i) {
            if (!users_[i]->has_run(latest_uses_[i])) return false;
        }
        return true;
    }

    // Two threads may declare in either order, and so the smaller number may come last.
    void note_use_here(std::uint64_t number) noexcept {
        auto known = latest_use_here_.load(std::memory_order_relaxed);
        while (known < number && !latest_use_here_.compare_exchange_weak(known, number, std::memory_order_relaxed)) {
        }
    }
    static void raise_to(std::uint64_t& latest, std::uint64_t number) noexcept { latest = std::max(latest, number); }
    // The caller holds the lock for this function and the next.
    std::uint64_t& latest_use(std::vector<std::shared_ptr<Stream>>::iterator user) noexcept {
        return latest_uses_[static_cast<std::size_t>(user - users_.begin())];
    }
    void add_user(const std::shared_ptr<Stream>& stream, std::uint64_t number) {
        latest_uses_.reserve(users_.size() + 1);
        users_.push_back(stream);
        latest_uses_.push_back(number);
    }
    // Declares a use on a stream that is declared already.
    void declare_for(const std::shared_ptr<Stream>& user) {
        const std::uint64_t number = user->declare();
        if (user == *stream_) return note_use_here(number);
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = std::find(users_.begin(), users_.end(), user);
        if (found != users_.end()) raise_to(latest_use(found), number);
    }

    std::vector<std::shared_ptr<Stream>> users() {
        std::lock_guard<std::mutex> lock(mutex_);
        return users_;
    }
    std::vector<std::shared_ptr<Stream>> all_users() {
        auto all = users();
        all.push_back(*stream_);
        return all;
    }

    // Marking a captured stream would draw every stream that waits for the mark into the capture. A closed stream has
    // its mark.
    static void refuse_captured(const Stream& stream, const char* what) { stream.refuse_capture_if_open(what); }

    // Returns whether this thread may submit to the stream.
    static bool is_open(const Stream& stream) noexcept { return !stream.is_closed() && !stream.is_elsewhere(); }

    // Returns an open stream of this device that stands for `stream`, which may have been closed with work still in it.
    static std::shared_ptr<Stream> stand_in(Stream& stream) {
        auto stands_in = Stream::default_stream(stream.device());
        stands_in->wait(stream);
        return stands_in;
    }

    // Takes the usual path with a pool: no stream to wait for, and no question to the runtime.
    bool give_back_cached() noexcept {
        return !shared_.load(std::memory_order_acquire) && resource_ != nullptr &&
               resource_->deallocate_cached(ptr_, nbytes_, *stream_);
    }

    // A foreign handle may be gone unnoticed by now, while the work that was submitted by it still runs.
    void give_back(const std::shared_ptr<Stream>& named) {
        try {
            give_back_behind(named);
        } catch (const Error& e) {
            if (!is_gone(*named, e)) throw;
            Device(named->device()).synchronize();
            give_back_behind(Stream::default_stream((*stream_)->device()));
        }
    }

    // Returns whether a call was refused because the handle no longer exists, for a stream whose end no caller had to
    // announce.
    static bool is_gone(const Stream& stream, const Error& e) noexcept {
        // CUDA answers either code for a stream that was destroyed.
        const bool is_no_stream = e.code() == rt::Error_t::InvalidHandle || e.code() == rt::Error_t::InvalidContext;
        return !stream.tells_its_end() && is_no_stream;
    }

    static void order_behind(Stream& stream, Stream& user) {
        try {
            refuse_captured(user, "close");
            stream.wait(user);
        } catch (const Error& e) {
            if (!is_gone(user, e)) throw;
            Device(user.device()).synchronize();
        }
    }

    void give_back_behind(const std::shared_ptr<Stream>& named) {
        if (named == *stream_ && give_back_cached()) return;
        // Another thread may close the stream meanwhile, without knowing of this memory.
        const Stream::Use use(*named);
        if (use && !shared_.load(std::memory_order_acquire) && named == *stream_ && resource_) {
            resource_->deallocate(ptr_, nbytes_, named);  // the usual case
            return;
        }
        auto behind = users();
        const RelaxedCapture beside((*stream_)->device());
        const auto stream = use ? named : stand_in(*named);
        if (named != *stream_) behind.push_back(*stream_);
        if (!resource_ && !owner_) return;
        wait_for_borrowers();
        // Marking a captured stream would harm the capture. It is refused here, and a drop that no caller asked for
        // tries again later.
        if (!behind.empty() || !resource_) stream->refuse_capture("close");
        for (const auto& user : behind) order_behind(*stream, *user);
        if (!resource_) {
            let_go(*stream);
            return;
        }
        resource_->deallocate(ptr_, nbytes_, stream);
    }

    // Waits for the devices on which undeclared streams may still use the memory.
    void wait_for_borrowers() {
        std::vector<int> devices;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            devices = borrowers_;
        }
        for (const int device : devices) Device(device).synchronize();
    }

    // Lets go of the owner after the work that was declared on its memory.
    void let_go(Stream& stream) {
        auto tail = stream.tail();
        bool has_run = tail == nullptr;
        if (tail) {
            const detail::UntrackedQueries own;
            has_run = tail->has_happened();
        }
        if (!has_run) stream.keep(std::move(tail), {owner_, nullptr});
        drop_owner();
    }

    // The owner's end may run the program's code, so it comes after the lock.
    void drop_owner() {
        std::shared_ptr<void> dropped;
        std::lock_guard<std::mutex> lock(mutex_);
        dropped.swap(owner_);
    }

    // Lists the work that this memory is dropped behind.
    struct Work {
        std::vector<std::shared_ptr<Event>> events;
        std::vector<int> devices;  // of streams that only a wait for their device can answer for
    };

    // Returns the work to wait for. portamem's own operations have their events. Where the program knows the address,
    // all work that its streams hold now counts. Marking a captured stream would harm the capture, so this throws
    // std::invalid_argument while one lasts.
    Work pending_work() {
        Work work;
        const detail::UntrackedQueries own;
        std::vector<std::shared_ptr<Stream>> streams;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            for (const auto& done : operations_) {
                if (!done->has_happened()) work.events.push_back(done);
            }
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

    bool has_borrowers() const {
        std::lock_guard<std::mutex> lock(mutex_);
        return !borrowers_.empty();
    }

    // Tells the order checker that this memory is used no more. Only a caller that has asked all of that work may call
    // it.
    void tell_order_checker_done() noexcept {
        if (portamem_order_is_on(rt::BackendId) == 0) return;
        try {
            std::vector<std::shared_ptr<Event>> done;
            std::vector<std::shared_ptr<Stream>> streams;
            {
                std::lock_guard<std::mutex> lock(mutex_);
                done = operations_;
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
    void give_back_settled() {
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
    void drop() noexcept {
        const detail::HearingScope at_once(detail::Hearing::AtOnce);  // a wait is left for later
        std::optional<Work> work;
        bool was_told = false;
        try {
            if (!detail::InHostFunction::here()) {
                if (traits_->stream_ordered && !has_borrowers()) return give_back(*stream_);
                work = pending_work();
                if (work->events.empty() && work->devices.empty() && !may_wait()) {
                    tell_order_checker_done();
                    return give_back_settled();
                }
            }
        } catch (const detail::WaitLeft&) {
            work.reset();
        } catch (...) {
            if (const auto tell = detail::embedder().lost_failure.load()) tell(std::current_exception());
            was_told = true;
            work.reset();
        }
        const bool is_reapers = work && may_wait();
        drop_later(std::move(work), was_told);
        if (is_reapers) (void)detail::Leaving::instance().let_go(detail::Leaving::Caller::Drops);
    }

    // Returns whether giving back may wait for work that has nothing to do with this memory.
    bool may_wait() const noexcept {
        if (resource_ == nullptr) return traits_->kind == ResourceKind::Registered;
        if (traits_->stream_ordered) return false;
        return traits_->free_may_wait || (rt::FreeMayWait && is_exposed_.load(std::memory_order_relaxed));
    }

    // Represents dropped memory on its way back.
    class Dropped : public detail::Leaver {
      public:
        Dropped(std::shared_ptr<Allocation> memory, std::optional<Work> work, bool was_told)
            : memory_(std::move(memory)), work_(std::move(work)), was_told_(was_told) {
            const MemoryTraits& traits = *memory_->traits_;
            resource = memory_->resource_;
            device_id = traits.device_id();
            ptr = memory_->ptr_;
            nbytes = memory_->nbytes_;
        }

        bool has_run() noexcept override {
            try {
                if (!work_) work_ = memory_->pending_work();
                const detail::UntrackedQueries own;
                auto& events = work_->events;
                while (!events.empty() && events.back()->has_happened()) {
                    happened_.push_back(std::move(events.back()));
                    events.pop_back();
                }
                return events.empty() && work_->devices.empty();
            } catch (...) {
                return false;  // a capture is in the way, or the runtime is out of resources
            }
        }
        bool needs_device() const noexcept override { return work_ && !work_->devices.empty(); }
        void wait_for_device() noexcept override {
            try {
                while (needs_device()) {
                    detail::refuse_in_capture("synchronizing the device");
                    const detail::UntrackedQueries own;
                    const RelaxedCapture beside(work_->devices.back());
                    check(rt::DeviceSynchronize(), "DeviceSynchronize");
                    work_->devices.pop_back();
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
        std::optional<Work> work_;                      // none: not known yet
        std::vector<std::shared_ptr<Event>> happened_;  // taken from work_
        bool was_told_;                                 // whether a failure was reported
    };

    // Puts off what cannot go back now: work uses it, a capture is in the way, or the runtime is out of resources.
    void drop_later(std::optional<Work> work, bool was_told) noexcept {
        try {
            auto again = std::make_shared<Allocation>(Key{}, ptr_, nbytes_, *stream_);
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
            detail::Leaving::instance().add(std::make_shared<Dropped>(std::move(again), std::move(work), was_told));
        } catch (...) {
            // Host memory has run out too. The memory is lost to this process, which the counters keep showing.
        }
    }

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
    std::vector<std::shared_ptr<Stream>> users_;      // streams declared beside the allocation's own
    std::vector<std::uint64_t> latest_uses_;          // of each user, in their order
    std::vector<int> borrowers_;                      // devices of streams that were handed the memory, undeclared
    std::vector<std::shared_ptr<Event>> operations_;  // portamem's own, the latest at least
    mutable std::atomic<bool> is_exposed_{false};
    mutable std::atomic<bool> is_unsettled_{false};  // the wait of settle() is still to be done
    std::atomic<bool> shared_{false};                // another stream or a borrower uses the memory
    std::atomic<bool> used_{false};                  // work was declared on the allocation's stream or another
    std::atomic<std::uint64_t> latest_use_here_{0};  // on the allocation's own stream; 0: none
    std::atomic<std::int64_t> exports_;              // negative once closed, or not yet open
};

PORTAMEM_CLOSE
