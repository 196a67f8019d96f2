// SPDX-License-Identifier: MIT
// portamem/mr/async_memory_resource.hpp: stream-ordered memory of the driver's pools.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/detail/embedder.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/owned.hpp"
#include "portamem/mr/detail/allocating_streams.hpp"
#include "portamem/mr/detail/recycled_pools.hpp"
#include "portamem/mr/detail/runtime_memory_resource.hpp"
#include "portamem/quirks.hpp"

PORTAMEM_OPEN

/// Allocates from one pool of the driver, in stream order, by MallocFromPoolAsync and FreeAsync. `create` makes that
/// pool, which by default keeps its memory. `from_handle` takes one of the program, and the resource changes its
/// settings only when asked. deallocate lets its stream reuse the memory at once.
class AsyncMemoryResource : public RuntimeMemoryResource {
  public:
    /// Is the release threshold of a pool that keeps all its memory.
    static constexpr std::uint64_t kKeepAll = std::numeric_limits<std::uint64_t>::max();

    /// Makes a resource over a pool of its own. Throws Error (NotSupported) on a device without pools.
    /// - release_threshold: the bytes of the pool that the driver keeps when a thread synchronizes.
    /// - max_size: the most bytes of the pool; 0 means as large as the device.
    static std::shared_ptr<AsyncMemoryResource> create(int device, std::uint64_t release_threshold = kKeepAll,
                                                       std::size_t max_size = 0) {
        require_pools(device);
        const RelaxedCapture beside(device);
        const rt::MemPool_t pool = RecycledPools::instance().take(device, max_size);
        auto resource = std::shared_ptr<AsyncMemoryResource>(new AsyncMemoryResource(device, pool, true, nullptr));
        resource->max_size_ = max_size;
        resource->set(rt::MemPoolAttr::ReleaseThreshold, release_threshold);
        return resource;
    }

    /// Makes a resource over the pool that the device came with. Throws as create does.
    static std::shared_ptr<AsyncMemoryResource> default_pool(int device) {
        require_pools(device);
        rt::MemPool_t pool{};
        check(rt::DeviceGetDefaultMemPool(&pool, device), "DeviceGetDefaultMemPool");
        return std::shared_ptr<AsyncMemoryResource>(new AsyncMemoryResource(device, pool, false, nullptr));
    }

    /// Makes a resource over a pool of the program. portamem never destroys the pool, and the resource keeps `owner`
    /// alive. Throws as create does.
    static std::shared_ptr<AsyncMemoryResource> from_handle(rt::MemPool_t pool, int device,
                                                            std::shared_ptr<void> owner = nullptr) {
        require_pools(device);
        return std::shared_ptr<AsyncMemoryResource>(new AsyncMemoryResource(device, pool, false, std::move(owner)));
    }

    ~AsyncMemoryResource() override {
        if (pool_ == rt::MemPool_t{} || !runtime_usable()) return;
        detail::unlocked([this] { give_up_pool(); });
    }

    /// Returns the driver's handle of the pool. Throws std::invalid_argument if the resource is closed.
    rt::MemPool_t pool_handle() const {
        if (is_closed()) throw std::invalid_argument("the memory resource is closed");
        return pool_;
    }
    /// Returns whether portamem made the pool.
    bool owns_pool() const noexcept { return owned_; }

    /// Returns an attribute of the pool: Reuse* as 0 or 1, every other in bytes. Throws std::invalid_argument if the
    /// resource is closed, and Error if the runtime refuses.
    std::uint64_t get(rt::MemPoolAttr attr) const {
        refuse_forked();
        std::uint64_t value = 0;
        const RelaxedCapture beside(device());
        check(rt::MemPoolGetAttribute(pool_handle(), attr, &value), "MemPoolGetAttribute");
        return value;
    }
    /// Sets an attribute of the pool: Reuse* and ReleaseThreshold to any value, the high-water marks to 0 alone. Throws
    /// as get does.
    void set(rt::MemPoolAttr attr, std::uint64_t value) const {
        refuse_forked();
        const RelaxedCapture beside(device());
        check(rt::MemPoolSetAttribute(pool_handle(), attr, value), "MemPoolSetAttribute");
    }

    /// Resets both high-water marks to the current figures.
    void reset_high() const {
        set(rt::MemPoolAttr::UsedMemHigh, 0);
        set(rt::MemPoolAttr::ReservedMemHigh, 0);
    }

    /// Gives unused memory back to the driver until at most `keep` bytes are reserved. Throws as get does.
    void trim(std::size_t keep = 0) const {
        refuse_forked();
        const RelaxedCapture beside(device());
        check(rt::MemPoolTrimTo(pool_handle(), keep), "MemPoolTrimTo");
    }

    /// Returns the access that a device has to the pool's memory. Throws as get does.
    rt::MemAccessFlags access(int device) const {
        refuse_forked();
        auto flags = rt::MemAccessFlags::None;
        const RelaxedCapture beside(this->device());
        check(rt::MemPoolGetAccess(&flags, pool_handle(), {rt::LocationType::Device, device}), "MemPoolGetAccess");
        return flags;
    }
    /// Sets the access that a device has to the pool's memory; the pool's own device always has it. Throws as get does:
    /// Error also means that the two devices have no path to each other.
    void set_access(int device, rt::MemAccessFlags flags) const {
        refuse_forked();
        const RelaxedCapture beside(this->device());
        check(rt::MemPoolSetAccess(pool_handle(), {rt::LocationType::Device, device}, flags), "MemPoolSetAccess");
        if (device == this->device()) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (std::find(granted_.begin(), granted_.end(), device) == granted_.end()) granted_.push_back(device);
    }

    std::optional<std::size_t> cached() const override {
        refuse_forked();
        if (is_closed()) return std::nullopt;
        const RelaxedCapture beside(device());
        std::uint64_t used = 0;
        std::uint64_t reserved = 0;
        if (rt::MemPoolGetAttribute(pool_, rt::MemPoolAttr::UsedMemCurrent, &used) != rt::Error_t::Success ||
            rt::MemPoolGetAttribute(pool_, rt::MemPoolAttr::ReservedMemCurrent, &reserved) != rt::Error_t::Success) {
            return std::nullopt;
        }
        return reserved > used ? static_cast<std::size_t>(reserved - used) : 0;
    }

  protected:
    void* call_allocate(std::size_t nbytes, Stream& stream) override {
        void* ptr = nullptr;
        if (nbytes != 0) nbytes = std::max(nbytes, least_nbytes_);
        check(rt::MallocFromPoolAsync(&ptr, nbytes, pool_, stream.handle()), "MallocFromPoolAsync");
        if (allocating_streams_) note(ptr, stream);
        return ptr;
    }
    void call_deallocate(void* ptr, std::size_t, Stream& stream) override {
        if (allocating_streams_) return allocating_streams_->free(ptr, stream);
        check(rt::FreeAsync(ptr, stream.handle()), "FreeAsync");
    }
    void at_close() override { give_up_pool(); }

  private:
    AsyncMemoryResource(int device, rt::MemPool_t pool, bool owned, std::shared_ptr<void> owner)
        : RuntimeMemoryResource(traits(device)), pool_(pool), owned_(owned), owner_(std::move(owner)) {
        const Device of(device);
        if (quirk_policy_applies(QuirkPolicy::FreeOnAllocatingStream, of)) {
            allocating_streams_ = detail::Owned(new AllocatingStreams);
        }
        if (quirk_policy_applies(QuirkPolicy::AtLeastEightBytes, of)) least_nbytes_ = 8;
    }

    // Keeps a pool of its own for the next resource, and never destroys it: recycled_pools.hpp says why.
    void give_up_pool() noexcept {
        const rt::MemPool_t pool = std::exchange(pool_, rt::MemPool_t{});
        if (owned_) RecycledPools::instance().put(device(), max_size_, pool, std::move(granted_));
    }

    void note(void* ptr, Stream& stream) {
        if (ptr == nullptr) return;
        try {
            allocating_streams_->note(ptr, stream);
        } catch (...) {
            (void)rt::FreeAsync(ptr, stream.handle());
            throw;
        }
    }

    static void require_pools(int device) {
        detail::quirk_switches().require_readable();
        if (detail::answer(rt::DeviceAttr::MemoryPoolsSupported, Device(device).ordinal())) return;
        throw Error(rt::Error_t::NotSupported, "NotSupported", "MemPoolCreate",
                    "device " + std::to_string(device) +
                        " has no memory pools (its memory_pools capability is false): use DeviceMemoryResource");
    }

    static MemoryTraits traits(int device) {
        MemoryTraits t;
        t.kind = ResourceKind::Async;
        t.device = device;
        t.stream_ordered = true;
        // It is false even where the host could reach the memory: the pool reuses it in stream order, and the host
        // follows no stream.
        t.host_accessible = false;
        return t;
    }

    rt::MemPool_t pool_;
    const bool owned_;
    std::size_t max_size_ = 0;
    mutable std::mutex mutex_;
    mutable detail::LightVector<int> granted_;  // other devices that were ever given access
    std::shared_ptr<void> owner_;
    detail::Owned<AllocatingStreams> allocating_streams_;  // null: FreeAsync takes any stream
    std::size_t least_nbytes_ = 0;
};

PORTAMEM_CLOSE
