// SPDX-License-Identifier: MIT
// portamem/mr/memory_resource.hpp: the base class of memory resources, and its contract.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "portamem/abi/address_api.h"
#include "portamem/abi/debug_api.h"
#include "portamem/detail/owned.hpp"
#include "portamem/fwd.hpp"
#include "portamem/mr/detail/debug_guards.hpp"
#include "portamem/mr/detail/recorded.hpp"
#include "portamem/mr/memory_traits.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

/// Says how memory is asked for, beside its size.
struct AllocateOptions {
    std::size_t alignment = 256;  ///< a power of two, bytes
    bool is_chunk = false;        ///< the caller cuts the memory into blocks, and keeps it long
};

namespace detail {

// These make the C tables of a resource (mr/detail/shared_table.hpp).
const portamem_resource_ops* shared_ops();
const portamem_known_ops* known_ops();

}  // namespace detail

/// Gives memory and takes it back. Every Buffer keeps its resource alive. It is thread-safe.
class MemoryResource : public std::enable_shared_from_this<MemoryResource> {
  public:
    /// The alignment in bytes of every address, unless the caller asks for a larger one.
    static constexpr std::size_t kAlignment = 256;

    virtual ~MemoryResource() {
        if (is_listed_.load(std::memory_order_relaxed)) portamem_known_remove(this);
    }
    MemoryResource(const MemoryResource&) = delete;
    MemoryResource& operator=(const MemoryResource&) = delete;

    const MemoryTraits& traits() const noexcept { return traits_; }
    /// Returns this resource where it is a pool, or null where it is not.
    virtual PoolMemoryResource* as_pool() noexcept { return nullptr; }
    ResourceKind kind() const noexcept { return traits_.kind; }
    int device() const noexcept { return traits_.device; }
    int device_id() const noexcept { return traits_.device_id(); }
    bool is_stream_ordered() const noexcept { return traits_.stream_ordered; }
    bool is_host_accessible() const noexcept { return traits_.host_accessible; }
    bool is_device_accessible() const noexcept { return traits_.device_accessible; }
    /// Returns a number that is never reused in this process.
    std::uint64_t identity() const noexcept { return identity_; }

    /// Takes memory that work submitted to `stream` from now on may use. If the resource is not stream-ordered, work on
    /// any stream may use it at once.
    /// - 0 bytes give a null pointer, which deallocate takes back like any other.
    /// - alignment: a power of two. Resources that call the runtime for each allocation give up to kAlignment.
    /// - Where there is no memory, the call first lets go of what finished work has kept. It then waits, two seconds
    ///   at most, for memory that was dropped while work used it.
    /// - Throws OutOfMemory and Error. Throws std::invalid_argument when closed, for an alignment that it cannot give,
    ///   under capture unless the memory is at hand, and, for stream-ordered memory, for a stream of another device.
    void* allocate(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment = kAlignment) {
        return allocate(nbytes, stream, AllocateOptions{alignment, false});
    }
    /// Does the same for an adaptor, which passes on the options that it got.
    void* allocate(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) {
        if (is_watched()) return allocate_watched(nbytes, stream, options);
        return obtain(nbytes, stream, options);
    }

    /// Does allocate for a caller that cuts the memory into blocks. A resource that has a quicker way to large pieces
    /// of memory uses it, and adaptors pass the request on. deallocate takes the memory back. Throws as allocate does.
    void* allocate_chunk(std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        return allocate(nbytes, stream, AllocateOptions{kAlignment, true});
    }

    /// Takes back memory that allocate returned.
    /// - Stream-ordered memory goes back behind the work on `stream`, and the host does not wait. For other memory the
    ///   call blocks until that work has run, because no vendor promises that its Free waits.
    /// - A null pointer is accepted, even where nothing of 0 bytes is out.
    /// - nbytes: the size that was asked for; any other size is refused.
    /// - Throws Error. Throws std::invalid_argument for an address that is not the resource's, and for a captured
    ///   stream where the free would need a call of the runtime. The memory stays allocated then.
    void deallocate(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        if (is_watched()) return deallocate_watched(ptr, nbytes, stream);
        do_deallocate(ptr, nbytes, stream);
    }

    /// Returns the bytes that were asked for at an address that allocate returned and that is out; nothing for any
    /// other address. An object for a resource of another module knows only what was allocated through itself. A pool
    /// takes no lock for it.
    std::optional<std::size_t> size_of(const void* ptr) const {
        refuse_forked();
        portamem_debug_block guarded;
        if (detail::debug_on && portamem_debug_find(this, ptr, &guarded) != 0) return guarded.nbytes;
        return do_size_of(ptr);
    }

    /// Takes memory back by its address alone, for hooks of the form alloc(n), free(p). A null pointer is accepted.
    /// Throws std::invalid_argument where size_of returns nothing, and as the function with the size does.
    void deallocate(void* ptr, const std::shared_ptr<Stream>& stream) {
        if (deallocate_cached_at(ptr, stream)) return;
        if (ptr == nullptr) return deallocate(ptr, 0, stream);
        deallocate(ptr, known_size_of(ptr), stream);
    }

    /// These three do the same on a stream that the caller names by its bare handle; null is the default stream of the
    /// resource's device. Stream::from_handle says by what identity pools know the handle.
    void deallocate(void* ptr, rt::Stream_t handle) {
        if (__builtin_expect(deallocate_cached_at(ptr, handle), 1)) return;
        if (ptr == nullptr) return deallocate(ptr, 0, handle);
        deallocate(ptr, known_size_of(ptr), handle);
    }
    void* allocate(std::size_t nbytes, rt::Stream_t handle, std::size_t alignment = kAlignment) {
        if (const auto* stream = Stream::of_this_thread(handle, device())) {
            void* const ptr = allocate_cached(nbytes, *stream, alignment);
            if (__builtin_expect(ptr != nullptr, 1)) return ptr;
        }
        return allocate(nbytes, Stream::from_handle(handle, device()), alignment);
    }
    void deallocate(void* ptr, std::size_t nbytes, rt::Stream_t handle) {
        if (const auto* stream = Stream::of_this_thread(handle, device())) {
            if (__builtin_expect(deallocate_cached(ptr, nbytes, *stream), 1)) return;
        }
        deallocate(ptr, nbytes, Stream::from_handle(handle, device()));
    }

    /// Does allocate where the resource has the memory at hand: it calls no runtime, no upstream and no function of the
    /// program's, and waits for no device, so the caller may hold an embedding language's lock. Otherwise it returns
    /// null, and the caller calls allocate, which gives the memory or says why not. Reasons for null are 0 bytes, a
    /// closed stream, a forked child, a recorder and redzones, among others.
    void* allocate_cached(std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                          std::size_t alignment = kAlignment) noexcept {
        return serves_cached_ && !is_watched() ? do_allocate_cached(nbytes, stream, alignment) : nullptr;
    }

    /// Does deallocate in the same way. Where that cannot be, it returns false and does nothing, and the caller calls
    /// deallocate. Unlike for deallocate, another thread may close the stream meanwhile, because its handle is not
    /// used.
    bool deallocate_cached(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) noexcept {
        return serves_cached_ && !is_watched() && do_deallocate_cached(ptr, nbytes, stream);
    }

    /// Do the same for a block whose size the caller does not know.
    bool deallocate_cached_at(void* ptr, const std::shared_ptr<Stream>& stream) noexcept {
        return serves_cached_ && !is_watched() && do_deallocate_cached_at(ptr, stream);
    }
    bool deallocate_cached_at(void* ptr, rt::Stream_t handle) noexcept {
        try {
            const auto* stream = Stream::of_this_thread(handle, device());
            return stream != nullptr && deallocate_cached_at(ptr, *stream);
        } catch (const std::exception&) {
            return false;  // the handle is new, and there is no host memory to know it by
        }
    }

    /// Returns whether the resource ever has memory at hand, for allocate_cached.
    bool serves_cached() const noexcept { return serves_cached_; }

    /// Changes the size of a block that is out, from `from` bytes to `to`, at its address. Work submitted to `stream`
    /// from now on may use the block in its new size. Returns false, and does nothing, where the resource cannot do
    /// that, and always under a recorder or redzones. A pool uses memory that it has at hand; a VirtualMemoryResource
    /// asks the runtime, and waits for the stream where memory goes back. No other thread may use the block meanwhile.
    bool resize_in_place(void* ptr, std::size_t from, std::size_t to, const std::shared_ptr<Stream>& stream) noexcept {
        return !is_watched() && do_resize_in_place(ptr, from, to, stream);
    }

    /// Tells recorders that another stream uses memory that allocate returned. The caller sees to it that the free
    /// comes behind that stream's work.
    void note_use(void* ptr, std::size_t nbytes, const Stream& stream) {
        if (detail::is_recording()) recorded(portamem_record_process(), stream, ptr, nbytes, 0).use();
        // The resource itself knows the memory with its redzones.
        portamem_debug_block guarded;
        if (detail::debug_on && portamem_debug_find(this, ptr, &guarded) != 0)
            return do_note_use(guarded.base, guarded.total, stream);
        do_note_use(ptr, nbytes, stream);
    }

    /// Return how many buffers are out, and their bytes as they were asked for.
    virtual std::size_t live_buffers() const noexcept = 0;
    virtual std::size_t live_bytes() const noexcept = 0;
    virtual bool is_closed() const noexcept = 0;

    /// Returns whether the memory of this resource, or of one below it, is away now (VirtualMemoryResource::sleep).
    bool is_asleep() const noexcept {
        if (!traits_.may_sleep) return false;
        if (sleeps()) return true;
        for (std::size_t number = 0; const MemoryResource* const each = below(number); ++number) {
            if (each->is_asleep()) return true;
        }
        return false;
    }

    /// Returns the bytes that the resource holds and that are not out, or nothing where it cannot say.
    virtual std::optional<std::size_t> cached() const { return std::nullopt; }

    /// Closes the resource. Closing twice is allowed. It first waits, two seconds at most, for memory that was dropped
    /// while work used it. Throws ExportError while memory is out or a call is under way, and for a resource that is
    /// permanent.
    void close() {
        refuse_forked();
        if (permanent_.load(std::memory_order_relaxed)) {
            throw ExportError("the process's default resource stays open: others allocate from it");
        }
        if (live_buffers() > 0) wait_for_dropped();
        const bool was_closed = is_closed();
        if (try_close()) {
            if (!was_closed && detail::is_recording()) note_closed();
            return;
        }
        if (live_buffers() == 0) {
            throw ExportError(
                "a call of the resource is under way, on another thread or further out on this one (in a callback): "
                "close it when that has returned");
        }
        throw ExportError("the resource still has " + std::to_string(live_buffers()) + " live buffer(s) of " +
                          std::to_string(live_bytes()) + " bytes in all: close them first" + live_text());
    }

    /// Keeps the default resource of a process open: close() throws ExportError from now on.
    void make_permanent() noexcept { permanent_.store(true, std::memory_order_relaxed); }
    bool is_permanent() const noexcept { return permanent_.load(std::memory_order_relaxed); }

  protected:
    /// serves_cached: the resource keeps memory itself, and overrides both functions for memory at hand.
    explicit MemoryResource(const MemoryTraits& traits, bool serves_cached = false)
        : traits_(traits), serves_cached_(serves_cached) {}

    virtual void* do_allocate(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) = 0;
    virtual void do_deallocate(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) = 0;
    virtual void* do_allocate_cached(std::size_t /*nbytes*/, const std::shared_ptr<Stream>& /*stream*/,
                                     std::size_t /*alignment*/) noexcept {
        return nullptr;
    }
    virtual bool do_deallocate_cached(void* /*ptr*/, std::size_t /*nbytes*/,
                                      const std::shared_ptr<Stream>& /*stream*/) noexcept {
        return false;
    }
    virtual bool do_deallocate_cached_at(void* /*ptr*/, const std::shared_ptr<Stream>& /*stream*/) noexcept {
        return false;
    }
    virtual bool do_resize_in_place(void* /*ptr*/, std::size_t /*from*/, std::size_t /*to*/,
                                    const std::shared_ptr<Stream>& /*stream*/) noexcept {
        return false;
    }
    /// Returns whether the memory of this resource itself is away now.
    virtual bool sleeps() const noexcept { return false; }
    /// Closes the resource where nothing is out. Returns whether it is closed now, by this call or an earlier one.
    virtual bool try_close() = 0;
    virtual std::optional<std::size_t> do_size_of(const void* /*ptr*/) const { return std::nullopt; }
    /// Returns what the resource knows of an address. A resource that cuts its memory out of another's says so for
    /// every address there; one that passes memory on knows only what was allocated through it.
    virtual portamem_address do_find(const void* ptr) const {
        const auto nbytes = do_size_of(ptr);
        return nbytes ? portamem_address{PORTAMEM_ADDRESS_BLOCK, ptr, *nbytes} : portamem_address{};
    }

    /// Returns the resource with this number among those that this one takes its memory from. Null: there is no such
    /// number, or the resource does not know.
    virtual MemoryResource* below(std::size_t /*number*/) const noexcept { return nullptr; }
    /// Serve `cached` and `trim` of the resource's table in c_api.h. Only a pool keeps memory that these count.
    virtual std::size_t table_cached() const { return 0; }
    virtual void table_trim(std::size_t /*keep*/) {}

    /// Lists the resource among those that by_address.hpp asks, once a shared pointer holds it. A resource calls this
    /// before it gives memory. Throws std::bad_alloc.
    void list() {
        if (__builtin_expect(!is_listed_.load(std::memory_order_acquire), 0)) list_now();
    }
    /// Says what the resource takes its memory from: list() asks.
    virtual portamem_known_over over() const noexcept {
        return below(0) != nullptr ? PORTAMEM_OVER_POOL : PORTAMEM_OVER_UNKNOWN;
    }
    /// Is called when a resource above, which knows blocks of its own, is listed.
    virtual void cover() noexcept {}
    virtual void do_note_use(void* /*ptr*/, std::size_t /*nbytes*/, const Stream& /*stream*/) {}
    /// Describes the buffers that are out, as text that follows a sentence; it is empty for most resources.
    virtual std::string live_text() const { return {}; }

    /// Returns this resource as recorders know it.
    portamem_record_resource record_of() const noexcept {
#if defined(__cpp_rtti)
        const char* const type = typeid(*this).name();
#else
        const char* const type = "MemoryResource";  // without run-time type information the class has no name here
#endif
        return {identity_, type, to_string(traits_.kind), rt::BackendId, traits_.device};
    }
    detail::RecordedCall recorded(portamem_recorder* recorder, const Stream& stream, void* ptr, std::size_t nbytes,
                                  std::size_t alignment) const {
        return {recorder, record_of(), stream, ptr, nbytes, alignment};
    }

    /// Returns whether do_allocate itself waits for memory that was dropped; then its refusal is final.
    virtual bool makes_room_itself() const noexcept { return false; }

    /// Runs an allocating function. Runs it again as long as it finds no memory and some has come free meanwhile.
    template <class Function>
    auto with_room(Function&& function) {
        for (;;) {
            const std::uint64_t seen = detail::Leaving::gone();
            try {
                return function();
            } catch (const OutOfMemory&) {
                if (!make_room_since(seen)) throw;
            }
        }
    }

    /// Refuses a stream that a stream-ordered resource cannot follow.
    void refuse_stream_of_another_device(const Stream& stream) const {
        if (!traits_.stream_ordered || stream.device() == traits_.device) return;
        throw std::invalid_argument("the stream belongs to device " + std::to_string(stream.device()) +
                                    ", the resource to device " + std::to_string(traits_.device) +
                                    ": name a stream of the resource's device");
    }

  private:
    friend const portamem_resource_ops* detail::shared_ops();
    friend const portamem_known_ops* detail::known_ops();

    void list_now();
    void cover_below() noexcept {
        for (std::size_t number = 0; MemoryResource* const each = below(number); ++number) {
            each->cover();
            each->cover_below();
        }
    }

    // Returns what this resource knows of an address, which may be inside of a block that is out.
    portamem_address find(const void* ptr) const {
        refuse_forked();
        portamem_debug_block guarded;
        if (detail::debug_on && portamem_debug_find(this, ptr, &guarded) != 0)
            return {PORTAMEM_ADDRESS_BLOCK, ptr, guarded.nbytes};
        const portamem_address found = do_find(ptr);
        // Between redzones a block begins elsewhere than the resource itself knows.
        const bool is_known = found.state != PORTAMEM_ADDRESS_BLOCK || found.base == ptr || !detail::debug_on;
        return is_known ? found : portamem_address{PORTAMEM_ADDRESS_CHUNK, nullptr, 0};
    }

    void note_closed() const noexcept {
        const auto resource = record_of();
        portamem_record_closed(portamem_record_process(), &resource);
    }

    // Calls do_allocate, and again where memory has come free meanwhile.
    void* obtain(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) {
        if (makes_room_itself()) return do_allocate(nbytes, stream, options);
        return with_room([&] { return do_allocate(nbytes, stream, options); });
    }

    // Dropped memory goes back to the resource that gave it, and so comes free in the resources below it.
    [[gnu::cold, gnu::noinline]] bool make_room_since(std::uint64_t seen) const noexcept {
        return detail::Leaving::instance().wait_for_one(seen, [this](const detail::Leaver& leaver) {
            return leaver.resource == this ||
                   (traits_.levels == 0 && leaver.resource != nullptr && leaver.device_id == traits_.device_id());
        });
    }

    // Waits until no memory of this resource is on its way back.
    void wait_for_dropped() noexcept {
        auto& leaving = detail::Leaving::instance();
        Reaper::instance().run_once();
        const auto is_mine = [this](const detail::Leaver& leaver) { return leaver.resource == this; };
        while (live_buffers() > 0 && leaving.size() != 0 && leaving.wait_for_one(leaving.gone(), is_mine)) continue;
    }

    // The usual path has one branch, whichever watcher there is. Records show what the program sees: redzones are below
    // them.
    static bool is_watched() noexcept {
        return __builtin_expect(static_cast<int>(detail::is_recording()) | static_cast<int>(detail::debug_on), 0) != 0;
    }

    [[gnu::cold, gnu::noinline]] void* allocate_watched(std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                                        AllocateOptions options) {
        portamem_recorder* recorder = portamem_record_process();
        if (recorder == nullptr) return allocate_checked(nbytes, stream, options);
        return recorded(recorder, *stream, nullptr, nbytes, options.alignment).allocate([&] {
            return allocate_checked(nbytes, stream, options);
        });
    }
    [[gnu::cold, gnu::noinline]] void deallocate_watched(void* ptr, std::size_t nbytes,
                                                         const std::shared_ptr<Stream>& stream) {
        portamem_recorder* recorder = portamem_record_process();
        if (recorder == nullptr) return deallocate_checked(ptr, nbytes, stream);
        recorded(recorder, *stream, ptr, nbytes, 0).deallocate([&] { deallocate_checked(ptr, nbytes, stream); }, false);
    }

    void* allocate_checked(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) {
        return detail::debug_on ? allocate_guarded(nbytes, stream, options) : obtain(nbytes, stream, options);
    }
    void deallocate_checked(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        detail::debug_on ? deallocate_guarded(ptr, nbytes, stream) : do_deallocate(ptr, nbytes, stream);
    }
    // Allocates and frees with redzones (mr/detail/debug_guards.hpp).
    void* allocate_guarded(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options);
    void deallocate_guarded(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream);

    std::size_t known_size_of(const void* ptr) const {
        if (const auto nbytes = size_of(ptr)) return *nbytes;
        throw std::invalid_argument(
            "the memory resource knows no allocation at this address: it is not out, it is inside of a block, or "
            "another "
            "resource gave it");
    }

    const MemoryTraits traits_;
    const bool serves_cached_;
    const std::uint64_t identity_ = portamem_new_identity();
    std::atomic<bool> permanent_{false};
    std::atomic<bool> is_listed_{false};
};

[[gnu::cold]] inline void* MemoryResource::allocate_guarded(std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                                            AllocateOptions options) {
    const detail::DebugScope scope;
    if (is_asleep()) throw std::invalid_argument("the memory resource sleeps: wake() it first");
    // The use keeps another thread from closing the stream between the allocation and its redzones, which are written
    // on it. Memory that is not stream-ordered takes no use: a function of the program's that allocates may wait for
    // such a close.
    detail::Owned<Stream::Use> use;
    if (traits_.stream_ordered) use = detail::Owned(new Stream::Use(*stream));
    const bool is_open = use ? static_cast<bool>(*use) : !stream->is_closed();
    if (!is_open && !stream->is_elsewhere()) throw std::invalid_argument("the stream is closed");
    const std::size_t front = std::max<std::size_t>(options.alignment, PORTAMEM_DEBUG_REDZONE);
    const std::size_t more = front + PORTAMEM_DEBUG_REDZONE;
    const bool is_sane = nbytes != 0 && options.alignment <= (std::size_t{1} << 40) &&
                         nbytes < std::numeric_limits<std::size_t>::max() - more;
    if (!scope.is_outermost() || !is_sane) {
        void* ptr = obtain(nbytes, stream, options);
        portamem_debug_forget(ptr);
        return ptr;
    }
    portamem_debug_block block{};
    block.size = sizeof block;
    block.owner = this;
    block.front = front;
    block.nbytes = nbytes;
    block.total = nbytes + more;
    block.read = traits_.is_host_memory ? &detail::DebugBlock::read_host : &detail::DebugBlock::read_device;
    block.base = obtain(block.total, stream, options);
    detail::DebugBlock guarded(block, traits_);
    try {
        guarded.write(stream);
        if (portamem_debug_add(&guarded) != 0) throw std::bad_alloc();
    } catch (...) {
        do_deallocate(block.base, block.total, stream);
        throw;
    }
    return guarded.ptr();
}

[[gnu::cold]] inline void MemoryResource::deallocate_guarded(void* ptr, std::size_t nbytes,
                                                             const std::shared_ptr<Stream>& stream) {
    const detail::DebugScope scope;
    portamem_debug_block block{};
    char text[2048];
    const int known = portamem_debug_take(this, ptr, nbytes, &block, text, sizeof text);
    if (known < 0) throw std::invalid_argument(text);
    if (known == 0) return do_deallocate(ptr, nbytes, stream);
    const detail::DebugBlock guarded(block, traits_);
    try {
        if (!is_asleep()) guarded.check_and_poison(stream);  // otherwise there are no bytes to look at
        const detail::Settled settled(ptr, block.base);
        do_deallocate(block.base, block.total, stream);
    } catch (const Error& e) {
        if (e.name() == "Corrupted") block.is_guarded = 0;  // reported once: the next free goes through
        portamem_debug_put_back(&block);
        throw;
    } catch (...) {
        portamem_debug_put_back(&block);
        throw;
    }
    portamem_debug_freed(&block);
}

namespace detail {

/// Returns a resource that another can be built on; throws std::invalid_argument where it is null or closed.
inline const std::shared_ptr<MemoryResource>& open_upstream(const std::shared_ptr<MemoryResource>& upstream,
                                                            const char* what = "upstream") {
    if (!upstream) throw std::invalid_argument("there is no " + std::string(what) + " resource");
    if (upstream->is_closed()) throw std::invalid_argument("the " + std::string(what) + " resource is closed");
    return upstream;
}

/// Limits how many resources stand one over the other: each takes some of the allocating thread's stack.
inline constexpr int kMostLevels = 256;

/// Returns the traits of a resource over another. Throws as open_upstream does, and where kMostLevels are below
/// already.
inline MemoryTraits traits_over(const std::shared_ptr<MemoryResource>& upstream, const char* what = "upstream") {
    MemoryTraits traits = open_upstream(upstream, what)->traits();
    if (++traits.levels <= kMostLevels) return traits;
    throw std::invalid_argument("there are " + std::to_string(kMostLevels) +
                                " resources below, one over the other: no more can be put over them");
}

/// Throws std::invalid_argument unless `alignment` is a power of two.
inline void refuse_alignment(std::size_t alignment) {
    if (alignment != 0 && (alignment & (alignment - 1)) == 0) return;
    throw std::invalid_argument("alignment " + std::to_string(alignment) + " is not a power of two");
}

}  // namespace detail

PORTAMEM_CLOSE
