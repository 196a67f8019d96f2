// SPDX-License-Identifier: MIT
// portamem/allocation.hpp: one piece of memory, who uses it, and how it goes back.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN

namespace detail {

/// Told of what a destructor has met and cannot throw, with no lock held: a language that portamem is embedded in may
/// have a place for its own exceptions. Null: nobody is.
inline std::atomic<void (*)(const std::exception_ptr&) noexcept>& tell_of_lost_failure() {
    static std::atomic<void (*)(const std::exception_ptr&) noexcept> tell{nullptr};
    return tell;
}

}  // namespace detail

/// A piece of memory with the resource, device and stream it came from, all kept alive. Buffers share it.
///
/// Exports (sub-views, typed views, Python buffers, operations being submitted) are counted: close() refuses while one
/// is alive. An allocation that nobody holds any more goes back by itself, after all that was declared on it.
class Allocation {
    struct Key {
        explicit Key() = default;
    };

  public:
    /// What keeps an allocation's resource and stream alive in place of shared references: their objects in a language
    /// that portamem is embedded in, which counts references for less.
    struct Keeper {
        void (*let_go)(const Keeper&) noexcept = nullptr;  ///< null: there is nothing to let go of. On any thread.
        void* resource = nullptr;
        void* stream = nullptr;
    };

    /// For the makers below: the key is private.
    Allocation(Key, void* ptr, std::size_t nbytes, std::shared_ptr<Stream> stream)
        : ptr_(ptr), nbytes_(nbytes), stream_(&own_stream_), own_stream_(std::move(stream)), exports_(kClosed) {}

    /// Takes `nbytes` of the resource on the stream.
    static std::shared_ptr<Allocation> make(std::shared_ptr<MemoryResource> resource, std::size_t nbytes,
                                            std::shared_ptr<Stream> stream,
                                            std::size_t alignment = MemoryResource::kAlignment) {
        // Everything that can fail comes before the memory does, or is undone with it.
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

    /// Somebody else's memory: never freed here. `owner` is let go after all declared work has run.
    static std::shared_ptr<Allocation> foreign(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                               const MemoryTraits& traits, std::shared_ptr<void> owner) {
        auto allocation = std::make_shared<Allocation>(Key{}, ptr, nbytes, stream);
        allocation->own_traits_ = traits;
        allocation->traits_ = &allocation->own_traits_;
        allocation->owner_ = std::move(owner);
        allocation->exports_.store(0, std::memory_order_release);
        return allocation;
    }

    ~Allocation() {
        if (exports_.load(std::memory_order_relaxed) >= 0 && runtime_usable() && !give_back_at_hand()) {
            detail::unlocked([this] {
                try {
                    give_back(*stream_);
                } catch (...) {
                    if (const auto tell = detail::tell_of_lost_failure().load()) tell(std::current_exception());
                    give_back_later();
                }
            });
        }
        if (keeper_.let_go != nullptr) keeper_.let_go(keeper_);
    }
    Allocation(const Allocation&) = delete;
    Allocation& operator=(const Allocation&) = delete;

    void* ptr() const noexcept { return ptr_; }
    std::size_t nbytes() const noexcept { return nbytes_; }
    const std::shared_ptr<Stream>& stream() const noexcept { return *stream_; }
    /// Null for somebody else's memory.
    std::shared_ptr<MemoryResource> resource() const { return resource_ ? resource_->shared_from_this() : nullptr; }
    /// Whoever keeps foreign memory alive; null once it has been let go.
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

    /// Counts one more export; throws std::invalid_argument once closed. Pairs with end_export.
    void begin_export() {
        auto count = exports_.load(std::memory_order_relaxed);
        do {
            if (count < 0) throw std::invalid_argument("the buffer is closed");
        } while (!exports_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel));
    }
    void end_export() noexcept { exports_.fetch_sub(1, std::memory_order_acq_rel); }

    /// Declares that work submitted to `stream` from now on uses this memory: it goes back only behind that work. The
    /// first time, the stream is also ordered behind the allocation itself.
    void use_on(const std::shared_ptr<Stream>& stream) {
        used_.store(true, std::memory_order_release);
        if (stream == *stream_) return;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (std::find(users_.begin(), users_.end(), stream) != users_.end()) return;
        }
        stream->refuse_capture("declaring a use of memory");
        refuse_captured(**stream_, "using memory on another stream");
        stream->wait(**stream_);
        shared_.store(true, std::memory_order_release);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            users_.push_back(stream);
        }
        if (resource_) resource_->note_use(ptr_, nbytes_, *stream);
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

    /// Hands the memory to work that others will submit to `stream`: makes that wait for all work declared so far. A
    /// default stream, or one that is declared already, counts as declared from here on. Any other may be gone when the
    /// memory goes back, so it is not marked then: the memory goes back behind all work of its device instead.
    void hand_over(const std::shared_ptr<Stream>& stream) {
        if (hand_over_at_once(stream)) return;
        used_.store(true, std::memory_order_release);
        const auto before = all_users();
        const auto same = std::find_if(before.begin(), before.end(), [&](const std::shared_ptr<Stream>& user) {
            // The device too: default streams have one handle on all of them.
            return is_open(*user) && user->device() == stream->device() && user->handle() == stream->handle();
        });
        bool refused = false;  // asking is for those who wait
        for (const auto& user : before) {
            if (same != before.end() && user == *same) continue;
            if (!refused) stream->refuse_capture("handing memory over");
            refused = true;
            refuse_captured(*user, "handing memory over");
            stream->wait(*user);
        }
        if (same != before.end()) return;
        shared_.store(true, std::memory_order_release);
        std::lock_guard<std::mutex> lock(mutex_);
        if (stream->is_default()) {
            users_.push_back(stream);
        } else if (std::find(borrowers_.begin(), borrowers_.end(), stream->device()) == borrowers_.end()) {
            borrowers_.push_back(stream->device());
        }
    }

    /// hand_over where that takes no call and no waiting: the memory is used on this stream alone. False otherwise.
    bool hand_over_at_once(const std::shared_ptr<Stream>& stream) noexcept {
        if (stream != *stream_ || !stream->is_default() || shared_.load(std::memory_order_acquire)) return false;
        used_.store(true, std::memory_order_release);
        return true;
    }

    /// An open stream behind which all work declared on this memory is: what others wait for before they touch it.
    std::shared_ptr<Stream> exchange_stream() {
        auto stream = open_stream(*stream_);
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
            if (const auto tail = user->tail()) tail->synchronize();
        }
    }

    /// Whether any work was ever declared on this memory.
    bool is_declared() const noexcept { return used_.load(std::memory_order_acquire); }

    /// The same where something was declared at all; for readers that submit nothing themselves.
    void synchronize_declared() {
        if (used_.load(std::memory_order_acquire)) synchronize_users();
    }

    /// Gives the memory back, behind the work on `stream` (null: the one of the allocation) and on every stream
    /// declared. Closing twice is fine. Throws ExportError under an export, Error where the runtime refuses; the memory
    /// is usable as before.
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

    /// close() by the only holder, where the resource takes the memory back at hand. False where it does not, or where
    /// others used the memory: nothing was done. The keeper is the caller's to let go of.
    bool close_at_hand(Keeper& keeper) noexcept {
        if (exports_.load(std::memory_order_acquire) != 0 || !give_back_at_hand()) return false;
        exports_.store(kClosed, std::memory_order_release);
        keeper = std::exchange(keeper_, Keeper{});
        return true;
    }

    /// The same for what takes a call of the resource: outside of an embedder's lock, and it may throw as close() does.
    /// Nobody else can have the allocation meanwhile. False too where there is no keeper.
    bool close_in_place(Keeper& keeper) {
        if (keeper_.let_go == nullptr || shared_.load(std::memory_order_acquire)) return false;
        if (!(*stream_)->tells_its_end()) return false;  // give_back knows what to do where it is gone
        if (exports_.load(std::memory_order_acquire) != 0) return false;
        const Stream::Use use(**stream_);
        if (!use) return false;
        resource_->deallocate(ptr_, nbytes_, *stream_);
        exports_.store(kClosed, std::memory_order_release);
        keeper = std::exchange(keeper_, Keeper{});
        return true;
    }

    /// Of no memory, closed: to be reopened.
    static std::shared_ptr<Allocation> blank() { return std::make_shared<Allocation>(Key{}, nullptr, 0, nullptr); }

    /// Whether it is as blank() makes it: closed at hand or in place after reopen, or never open.
    bool is_blank() const noexcept { return is_closed() && own_stream_ == nullptr && keeper_.let_go == nullptr; }

    /// Opens a blank allocation that nobody else holds, with memory that the resource has at hand. False where it has
    /// none, and nothing was done. The keeper, which is let go of after the memory, keeps the resource alive, and
    /// `stream` at its place.
    bool reopen(MemoryResource& resource, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                std::size_t alignment, const Keeper& keeper) noexcept {
        void* ptr = resource.allocate_at_hand(nbytes, stream, alignment);
        if (ptr == nullptr) return false;
        reopen(resource, ptr, nbytes, stream, keeper);
        return true;
    }

    /// The same with memory that the resource has given out already.
    void reopen(MemoryResource& resource, void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                const Keeper& keeper) noexcept {
        ptr_ = ptr;
        nbytes_ = nbytes;
        resource_ = &resource;
        stream_ = &stream;
        traits_ = &resource.traits();
        keeper_ = keeper;
        used_.store(false, std::memory_order_relaxed);
        exports_.store(0, std::memory_order_release);
    }

    /// close() of foreign memory that has been let go on return: waits for all declared work first.
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

    /// Gives up ownership: the caller hands ptr() to the resource's deallocate.
    void* release() {
        if (!resource_) throw std::invalid_argument("the memory is not owned by this buffer: nothing to release");
        if (!begin_close()) throw std::invalid_argument("the buffer is closed");
        return ptr_;
    }

  private:
    static constexpr std::int64_t kClosed = -(std::int64_t{1} << 62);

    // Closes to new exports; false where it was closed before. Throws ExportError under an export.
    bool begin_close() {
        std::int64_t none = 0;
        if (exports_.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel)) return true;
        if (none < 0) return false;
        refuse_exports(none);
    }

    void adopt(std::shared_ptr<MemoryResource> resource) noexcept {
        traits_ = &resource->traits();
        resource_ = resource.get();
        own_resource_ = std::move(resource);
        exports_.store(0, std::memory_order_release);
    }

    [[noreturn]] static void refuse_exports(std::int64_t count) {
        throw ExportError("the buffer is in use by " + std::to_string(count) +
                          " export(s) (sub-views, views, memoryviews, DLPack tensors or a running copy): "
                          "close those first");
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

    // Marking a captured stream would draw whoever waits for the mark into the capture. A closed one has its mark.
    static void refuse_captured(const Stream& stream, const char* what) { stream.refuse_capture_if_open(what); }

    // Whether this thread may submit to it.
    static bool is_open(const Stream& stream) noexcept { return !stream.is_closed() && !stream.is_elsewhere(); }

    // An open stream of this device that stands for `stream`, which may have been closed with work still in it.
    std::shared_ptr<Stream> open_stream(const std::shared_ptr<Stream>& stream) const {
        if (is_open(*stream)) return stream;
        return stand_in(*stream);
    }
    static std::shared_ptr<Stream> stand_in(Stream& stream) {
        auto stands_in = Stream::default_stream(stream.device());
        stands_in->wait(stream);
        return stands_in;
    }

    // As nearly always with a pool: nothing to wait for, and nobody to ask.
    bool give_back_at_hand() noexcept {
        return !shared_.load(std::memory_order_acquire) && resource_ != nullptr &&
               resource_->deallocate_at_hand(ptr_, nbytes_, *stream_);
    }

    // A foreign handle may be gone by now, as nobody had to tell: the work that was submitted by it may still run.
    void give_back(const std::shared_ptr<Stream>& named) {
        try {
            give_back_behind(named);
        } catch (const Error& e) {
            if (!is_gone(*named, e)) throw;
            Device(named->device()).synchronize();
            give_back_behind(Stream::default_stream((*stream_)->device()));
        }
    }

    // Whether a call was refused since the handle of a stream, whose end nobody had to tell, is none any more.
    static bool is_gone(const Stream& stream, const Error& e) noexcept {
        return !stream.tells_its_end() && e.code() == rt::Error_t::InvalidHandle;
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
        if (named == *stream_ && give_back_at_hand()) return;
        // Another thread may close the stream meanwhile, and not know of this memory.
        const Stream::Use use(*named);
        if (use && !shared_.load(std::memory_order_acquire) && named == *stream_ && resource_) {
            resource_->deallocate(ptr_, nbytes_, named);  // as nearly always
            return;
        }
        auto behind = users();
        const RelaxedCapture beside((*stream_)->device());
        const auto stream = use ? named : stand_in(*named);
        if (named != *stream_) behind.push_back(*stream_);
        if (!resource_ && !owner_) return;
        wait_for_borrowers();
        // Marking a captured stream would harm the capture: refused here, and tried again later where nobody asked.
        if (!behind.empty() || !resource_) stream->refuse_capture("close");
        for (const auto& user : behind) order_behind(*stream, *user);
        if (!resource_) {
            let_go(*stream);
            return;
        }
        resource_->deallocate(ptr_, nbytes_, stream);
    }

    // Devices on which streams that nobody declared may still use the memory.
    void wait_for_borrowers() {
        std::vector<int> devices;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            devices = borrowers_;
        }
        for (const int device : devices) Device(device).synchronize();
    }

    // The owner outlives the work that was declared on its memory.
    void let_go(Stream& stream) {
        auto tail = stream.tail();
        bool has_run = tail == nullptr;
        if (tail) {
            const detail::OwnQueries own;
            has_run = tail->query();
        }
        if (!has_run) stream.keep(std::move(tail), {owner_, nullptr});
        drop_owner();
    }

    // With no lock held: that may run anybody's code.
    void drop_owner() {
        std::shared_ptr<void> dropped;
        std::lock_guard<std::mutex> lock(mutex_);
        dropped.swap(owner_);
    }

    // What could not go back now (a capture in the way, a runtime out of resources) is tried again, never lost.
    void give_back_later() noexcept {
        try {
            auto again = std::make_shared<Allocation>(Key{}, ptr_, nbytes_, *stream_);
            again->own_traits_ = *traits_;
            again->traits_ = &again->own_traits_;
            again->resource_ = resource_;
            again->own_resource_ = resource();
            again->owner_ = owner_;
            again->users_ = std::move(users_);
            again->borrowers_ = std::move(borrowers_);
            again->shared_.store(true, std::memory_order_relaxed);
            Reaper::instance().add([again] {
                try {
                    again->give_back(again->own_stream_);
                    return true;
                } catch (...) {
                    return false;
                }
            });
        } catch (...) {
            // Out of host memory as well: the memory is lost to this process, which the counters keep showing.
        }
    }

    void* ptr_;
    std::size_t nbytes_;
    MemoryResource* resource_ = nullptr;  // null: foreign
    const MemoryTraits* traits_ = nullptr;
    // Where the reference is: here, or in an object that the keeper keeps.
    const std::shared_ptr<Stream>* stream_;
    Keeper keeper_;
    std::shared_ptr<MemoryResource> own_resource_;
    const std::shared_ptr<Stream> own_stream_;
    MemoryTraits own_traits_;  // of foreign memory
    std::shared_ptr<void> owner_;
    mutable std::mutex mutex_;                    // guards users_ and borrowers_, and owner_ once it may be dropped
    std::vector<std::shared_ptr<Stream>> users_;  // streams declared beside the allocation's own
    std::vector<int> borrowers_;                  // devices of streams that were handed the memory, undeclared
    std::atomic<bool> shared_{false};             // one of both has something in it
    std::atomic<bool> used_{false};               // work was declared on the allocation's stream or another
    std::atomic<std::int64_t> exports_;           // negative once closed, or not yet open
};

/// A counted export: keeps the allocation alive and open.
class Export {
  public:
    Export() = default;
    explicit Export(std::shared_ptr<Allocation> allocation) {
        allocation->begin_export();
        allocation_ = std::move(allocation);
    }
    ~Export() { reset(); }
    Export(Export&& other) noexcept : allocation_(std::move(other.allocation_)) {}
    Export& operator=(Export&& other) noexcept {
        reset();
        allocation_ = std::move(other.allocation_);
        return *this;
    }

    void reset() noexcept {
        if (allocation_) allocation_->end_export();
        allocation_.reset();
    }
    explicit operator bool() const noexcept { return allocation_ != nullptr; }

  private:
    std::shared_ptr<Allocation> allocation_;
};

PORTAMEM_CLOSE
