// SPDX-License-Identifier: MIT
// portamem/mr/memory_resource.hpp: what every memory resource is and promises.
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

#include "portamem/abi/debug_api.h"
#include "portamem/fwd.hpp"
#include "portamem/mr/detail/debug_guards.hpp"
#include "portamem/mr/detail/recorded.hpp"
#include "portamem/mr/memory_traits.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

/// Where memory comes from and goes back to. Shared: every Buffer keeps its resource alive. Thread-safe.
class MemoryResource : public std::enable_shared_from_this<MemoryResource> {
  public:
    /// What every address is a multiple of unless more is asked for.
    static constexpr std::size_t kAlignment = 256;

    virtual ~MemoryResource() = default;
    MemoryResource(const MemoryResource&) = delete;
    MemoryResource& operator=(const MemoryResource&) = delete;

    const MemoryTraits& traits() const noexcept { return traits_; }
    /// This resource where it is a pool; null where it is not.
    virtual PoolMemoryResource* as_pool() noexcept { return nullptr; }
    ResourceKind kind() const noexcept { return traits_.kind; }
    int device() const noexcept { return traits_.device; }
    int device_id() const noexcept { return traits_.device_id(); }
    bool is_stream_ordered() const noexcept { return traits_.stream_ordered; }
    bool is_host_accessible() const noexcept { return traits_.host_accessible; }
    bool is_device_accessible() const noexcept { return traits_.device_accessible; }
    /// A number never reused in this process.
    std::uint64_t identity() const noexcept { return identity_; }

    /// Memory that work submitted to `stream` from now on may use; on a resource that is not stream-ordered, any work.
    /// 0 bytes give a null pointer, which deallocate takes back like any other. alignment: a power of two; resources
    /// that call the runtime for each allocation give up to kAlignment.
    /// Where there is no memory, what finished work has kept is let go of first, and memory that was dropped while work
    /// uses it is waited for, a few seconds at most.
    /// Throws OutOfMemory, Error; std::invalid_argument when closed, for a stream of another device or, unless the
    /// resource has the memory at hand, under capture, and for an alignment that it cannot give.
    void* allocate(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment = kAlignment) {
        if (is_watched()) return allocate_watched(nbytes, stream, alignment);
        return obtain(nbytes, stream, alignment);
    }

    /// Takes memory of allocate back. Stream-ordered: behind the work on `stream`, at once for the host. Otherwise
    /// blocks until that work has run: no vendor promises that its Free waits. Null with nothing of 0 bytes out is fine.
    /// nbytes: what was asked for; any other is refused.
    /// Throws Error, and std::invalid_argument for what cannot be the resource's: the memory is still allocated.
    void deallocate(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        if (is_watched()) return deallocate_watched(ptr, nbytes, stream);
        do_deallocate(ptr, nbytes, stream);
    }

    /// Both with a bare handle: null is the default stream of the resource's device. Stream::from_handle says by what pools
    /// know it.
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

    /// allocate, where the resource has the memory at hand: with no runtime's call, no upstream's and no user's, and no
    /// waiting, so that an embedding language's lock may be held. Null where that cannot be, for whatever reason (0
    /// bytes, a closed stream, a forked child, a recorder or redzones among them): allocate does it, or says why not.
    void* allocate_cached(std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                          std::size_t alignment = kAlignment) noexcept {
        return serves_cached_ && !is_watched() ? do_allocate_cached(nbytes, stream, alignment) : nullptr;
    }

    /// deallocate in the same way. False where that cannot be: nothing was done, and deallocate does it, or says why
    /// not. Unlike there, the stream may be closed meanwhile: its handle is not used.
    bool deallocate_cached(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) noexcept {
        return serves_cached_ && !is_watched() && do_deallocate_cached(ptr, nbytes, stream);
    }

    /// Whether the resource ever has memory at hand.
    bool serves_cached() const noexcept { return serves_cached_; }

    /// Told that memory of allocate is used on another stream from now on, which its free will wait for: those who watch
    /// want to know.
    void note_use(void* ptr, std::size_t nbytes, const Stream& stream) {
        if (detail::is_recording()) recorded(portamem_record_process(), stream, ptr, nbytes, 0).use();
        do_note_use(ptr, nbytes, stream);
    }

    /// Buffers that are out, and their bytes as they were asked for.
    virtual std::size_t live_buffers() const noexcept = 0;
    virtual std::size_t live_bytes() const noexcept = 0;
    virtual bool is_closed() const noexcept = 0;

    /// Bytes that the resource holds without anybody using them; nothing where it cannot say.
    virtual std::optional<std::size_t> cached() const { return std::nullopt; }

    /// Refuses (ExportError) while memory is out, or a call is under way; what was dropped while work uses it is waited
    /// for, a few seconds at most. Closing twice is fine.
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

    /// For the default resource of a process, which nobody may close.
    void make_permanent() noexcept { permanent_.store(true, std::memory_order_relaxed); }
    bool is_permanent() const noexcept { return permanent_.load(std::memory_order_relaxed); }

  protected:
    /// serves_cached: the resource keeps memory itself, and overrides both functions of memory at hand.
    explicit MemoryResource(const MemoryTraits& traits, bool serves_cached = false)
        : traits_(traits), serves_cached_(serves_cached) {}

    virtual void* do_allocate(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) = 0;
    virtual void do_deallocate(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) = 0;
    virtual void* do_allocate_cached(std::size_t /*nbytes*/, const std::shared_ptr<Stream>& /*stream*/,
                                     std::size_t /*alignment*/) noexcept {
        return nullptr;
    }
    virtual bool do_deallocate_cached(void* /*ptr*/, std::size_t /*nbytes*/,
                                      const std::shared_ptr<Stream>& /*stream*/) noexcept {
        return false;
    }
    /// Closes where nothing is out; false otherwise. True where it was closed before.
    virtual bool try_close() = 0;
    virtual void do_note_use(void* /*ptr*/, std::size_t /*nbytes*/, const Stream& /*stream*/) {}
    /// What is known of the buffers that are out, to follow a sentence; mostly nothing.
    virtual std::string live_text() const { return {}; }

    /// This resource as recorders know it.
    portamem_record_resource record_of() const noexcept {
#if defined(__cpp_rtti)
        const char* const type = typeid(*this).name();
#else
        const char* const type = "MemoryResource";  // the name of the class is not known
#endif
        return {identity_, type, to_string(traits_.kind), rt::BackendId, traits_.device};
    }
    detail::RecordedCall recorded(portamem_recorder* recorder, const Stream& stream, void* ptr, std::size_t nbytes,
                                  std::size_t alignment) const {
        return {recorder, record_of(), stream, ptr, nbytes, alignment};
    }

    /// Whether do_allocate itself waits for what was dropped: then its refusal is the last word.
    virtual bool makes_room_itself() const noexcept { return false; }

    /// Runs an allocating function, again where it finds no memory and some has come free meanwhile.
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
                                    ", the resource to device " + std::to_string(traits_.device));
    }

  private:
    void note_closed() const noexcept {
        const auto resource = record_of();
        portamem_record_closed(portamem_record_process(), &resource);
    }

    // do_allocate, again where memory has come free meanwhile.
    void* obtain(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
        if (makes_room_itself()) return do_allocate(nbytes, stream, alignment);
        return with_room([&] { return do_allocate(nbytes, stream, alignment); });
    }

    // Memory that was dropped goes back to the resource that gave it, and so comes free in those below.
    [[gnu::cold, gnu::noinline]] bool make_room_since(std::uint64_t seen) const noexcept {
        return detail::Leaving::instance().wait_for_one(seen, [this](const detail::Leaver& leaver) {
            return leaver.resource == this ||
                   (traits_.levels == 0 && leaver.resource != nullptr && leaver.device_id == traits_.device_id());
        });
    }

    // Until nothing of it is on its way any more.
    void wait_for_dropped() noexcept {
        auto& leaving = detail::Leaving::instance();
        Reaper::instance().run_once();
        const auto is_mine = [this](const detail::Leaver& leaver) { return leaver.resource == this; };
        while (live_buffers() > 0 && leaving.size() != 0 && leaving.wait_for_one(leaving.gone(), is_mine)) continue;
    }

    // One branch on the usual path, whoever watches. What is recorded is what the program sees: redzones are below.
    static bool is_watched() noexcept {
        return __builtin_expect(static_cast<int>(detail::is_recording()) | static_cast<int>(detail::debug_on), 0) != 0;
    }

    [[gnu::cold, gnu::noinline]] void* allocate_watched(std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                                        std::size_t alignment) {
        portamem_recorder* recorder = portamem_record_process();
        if (recorder == nullptr) return allocate_checked(nbytes, stream, alignment);
        return recorded(recorder, *stream, nullptr, nbytes, alignment).allocate([&] {
            return allocate_checked(nbytes, stream, alignment);
        });
    }
    [[gnu::cold, gnu::noinline]] void deallocate_watched(void* ptr, std::size_t nbytes,
                                                         const std::shared_ptr<Stream>& stream) {
        portamem_recorder* recorder = portamem_record_process();
        if (recorder == nullptr) return deallocate_checked(ptr, nbytes, stream);
        recorded(recorder, *stream, ptr, nbytes, 0).deallocate([&] { deallocate_checked(ptr, nbytes, stream); }, false);
    }

    void* allocate_checked(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
        return detail::debug_on ? allocate_guarded(nbytes, stream, alignment) : obtain(nbytes, stream, alignment);
    }
    void deallocate_checked(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        detail::debug_on ? deallocate_guarded(ptr, nbytes, stream) : do_deallocate(ptr, nbytes, stream);
    }
    // With redzones (mr/detail/debug_guards.hpp).
    void* allocate_guarded(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment);
    void deallocate_guarded(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream);

    const MemoryTraits traits_;
    const bool serves_cached_;
    const std::uint64_t identity_ = portamem_new_identity();
    std::atomic<bool> permanent_{false};
};

[[gnu::cold]] inline void* MemoryResource::allocate_guarded(std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                                            std::size_t alignment) {
    const detail::DebugScope scope;
    // No other thread closes the stream between the allocation and its redzones, where these are written on it. Elsewhere
    // a function of the program's that allocates may wait for such a close.
    std::optional<Stream::Use> use;
    if (traits_.stream_ordered) use.emplace(*stream);
    const bool is_open = use ? static_cast<bool>(*use) : !stream->is_closed();
    if (!is_open && !stream->is_elsewhere()) throw std::invalid_argument("the stream is closed");
    const std::size_t front = std::max<std::size_t>(alignment, PORTAMEM_DEBUG_REDZONE);
    const std::size_t more = front + PORTAMEM_DEBUG_REDZONE;
    const bool is_sane =
        nbytes != 0 && alignment <= (std::size_t{1} << 40) && nbytes < std::numeric_limits<std::size_t>::max() - more;
    if (!scope.is_outermost() || !is_sane) {
        void* ptr = obtain(nbytes, stream, alignment);
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
    block.base = obtain(block.total, stream, alignment);
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
        guarded.check_and_poison(stream);
        const detail::Settled settled(ptr, block.base);
        do_deallocate(block.base, block.total, stream);
    } catch (const Error& e) {
        if (e.name() == "Corrupted") block.is_guarded = 0;  // said once: the next free goes through
        portamem_debug_put_back(&block);
        throw;
    } catch (...) {
        portamem_debug_put_back(&block);
        throw;
    }
    portamem_debug_freed(&block);
}

namespace detail {

/// A resource that another can be built on; throws std::invalid_argument where there is none, or it is closed.
inline const std::shared_ptr<MemoryResource>& open_upstream(const std::shared_ptr<MemoryResource>& upstream) {
    if (!upstream) throw std::invalid_argument("there is no upstream resource");
    if (upstream->is_closed()) throw std::invalid_argument("the upstream resource is closed");
    return upstream;
}

/// Most resources one over the other: each takes some of the stack of who allocates.
inline constexpr int kMostLevels = 256;

/// The traits of a resource over another. Throws as open_upstream does, and where there are too many below already.
inline MemoryTraits traits_over(const std::shared_ptr<MemoryResource>& upstream) {
    MemoryTraits traits = open_upstream(upstream)->traits();
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
