// SPDX-License-Identifier: MIT
// portamem/mr/pinned_memory_resource.hpp: page-locked host memory.
#pragma once

#include <atomic>
#include <mutex>

#include "portamem/detail/owned.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/pinned_chunks.hpp"
#include "portamem/mr/detail/runtime_memory_resource.hpp"

PORTAMEM_OPEN

/// Gives page-locked host memory, by HostMalloc and HostFree. With this memory copies are asynchronous and fast.
/// - Allocating costs about half a millisecond a MiB.
/// - The memory is coherent with running kernels unless NonCoherent is asked for.
/// - Resources over it that cut blocks out of chunks (pools, FixedSizeMemoryResource, MonotonicMemoryResource) get
///   chunks of 1 MiB and more as PrefaultedPinnedMemoryResource makes them, in a tenth of that time where the device
///   allows it. HostMalloc makes the chunks where the resource has other flags or another coherence than the default;
///   with PORTAMEM_POOL=off a pool takes no chunks.
class PinnedMemoryResource : public RuntimeMemoryResource {
  public:
    /// flags: rt::HostMallocFlags. coherence: Default, which is Coherent, or NonCoherent. Throws std::invalid_argument
    /// for the coherences of device memory.
    explicit PinnedMemoryResource(int device, unsigned flags = detail::PinnedChunks::kFlags,
                                  rt::Coherence coherence = rt::Coherence::Default)
        : RuntimeMemoryResource(traits(device, flags)), flags_(flags), coherence_(coherence) {
        if (coherence == rt::Coherence::FineGrained || coherence == rt::Coherence::Uncached) {
            throw std::invalid_argument("coherence of pinned memory is default, coherent or non_coherent");
        }
    }

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<PinnedMemoryResource> create(int device, unsigned flags = detail::PinnedChunks::kFlags,
                                                        rt::Coherence coherence = rt::Coherence::Default) {
        return detail::shared<PinnedMemoryResource>(device, flags, coherence);
    }

    unsigned flags() const noexcept { return flags_; }
    rt::Coherence coherence() const noexcept { return coherence_; }

  protected:
    /// Selects memory of registered pages: a free unregisters them, which waits for the device on every runtime.
    struct Registered {};
    PinnedMemoryResource(int device, Registered)
        : RuntimeMemoryResource(registered(traits(device, detail::PinnedChunks::kFlags))),
          flags_(detail::PinnedChunks::kFlags),
          coherence_(rt::Coherence::Default) {}

    void* call_allocate(std::size_t nbytes, Stream&) override {
        void* ptr = nullptr;
        check(rt::HostMalloc(&ptr, nbytes, flags_, coherence_), "HostMalloc");
        return ptr;
    }

    void* call_allocate_chunk(std::size_t nbytes, Stream& stream) override {
        if (is_usual() && nbytes >= kLeastChunk) return chunks().allocate(nbytes);
        return call_allocate(nbytes, stream);
    }

    void call_deallocate(void* ptr, std::size_t nbytes, Stream&) override {
        if (has_chunks()) return chunks_->deallocate(ptr, nbytes);
        check(rt::HostFree(ptr), "HostFree");
    }

    /// Returns the chunks. The caller has checked that the flags and the coherence are the usual ones.
    detail::PinnedChunks& chunks() {
        if (has_chunks()) return *chunks_;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!chunks_)
            chunks_ = detail::Owned(new detail::PinnedChunks(device()));  // may throw; a later call tries again
        has_chunks_.store(true, std::memory_order_release);
        return *chunks_;
    }

  private:
    // Smaller chunks are not allocated faster that way, and take whole pages.
    static constexpr std::size_t kLeastChunk = std::size_t{1} << 20;

    bool is_usual() const noexcept {
        return flags_ == detail::PinnedChunks::kFlags && coherence_ == rt::Coherence::Default;
    }
    bool has_chunks() const noexcept { return has_chunks_.load(std::memory_order_acquire); }

    static MemoryTraits traits(int device, unsigned flags) {
        MemoryTraits t;
        t.kind = ResourceKind::Pinned;
        t.device = Device(device).ordinal();
        t.is_host_memory = true;
        t.host_accessible = true;
        // With unified addressing every pinned page is mapped, whether the flag asks for it or not.
        const bool unified = detail::attribute(rt::DeviceAttr::UnifiedAddressing, device) != 0;
        const bool can_map = detail::attribute(rt::DeviceAttr::CanMapHostMemory, device) != 0;
        t.device_accessible = can_map && (unified || (flags & rt::HostMallocMapped) != 0);
        return t;
    }

    static MemoryTraits registered(MemoryTraits traits) {
        traits.free_may_wait = true;
        return traits;
    }

    const unsigned flags_;
    const rt::Coherence coherence_;
    std::mutex mutex_;
    std::atomic<bool> has_chunks_{false};
    detail::Owned<detail::PinnedChunks> chunks_;
};

PORTAMEM_CLOSE
