// SPDX-License-Identifier: MIT
// portamem/mr/prefaulted_pinned_memory_resource.hpp: page-locked host memory that is there quickly.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "portamem/device.hpp"
#include "portamem/host_pages.h"
#include "portamem/mr/pinned_memory_resource.hpp"
#include "portamem/mr/prepared_chunk.hpp"

PORTAMEM_OPEN

/// Pinned memory in large chunks, as pools take it: pages that several threads have prefaulted, huge where the system
/// allows it and near the device, are registered with the runtime. That takes a tenth of the time of HostMalloc.
/// Where a device's capabilities do not say that registered memory is coherent and has one address everywhere, or where
/// the runtime refuses to register, the memory is HostMalloc's; then the next chunk is allocated in the background.
/// Every allocation takes whole pages: for many small ones, take a pool over it. Portable and mapped.
class PrefaultedPinnedMemoryResource : public PinnedMemoryResource {
  public:
    explicit PrefaultedPinnedMemoryResource(int device)
        : PinnedMemoryResource(device, kFlags),
          registers_(can_register(device)),
          numa_node_(node_of(device)),
          prepared_(device, kFlags) {}

    /// Whether new memory is registered pages; false: HostMalloc's.
    bool registers() const noexcept { return registers_.load(std::memory_order_relaxed); }

  protected:
    void* call_allocate(std::size_t nbytes, Stream& stream) override {
        if (nbytes == 0) return nullptr;
        void* ptr = registers() ? registered(nbytes) : nullptr;
        if (ptr == nullptr) ptr = prepared_.take(nbytes);
        if (ptr == nullptr) ptr = PinnedMemoryResource::call_allocate(nbytes, stream);
        if (!registers()) prepared_.expect_after(nbytes);
        return ptr;
    }

    void call_deallocate(void* ptr, std::size_t nbytes, Stream& stream) override {
        auto pages = claim(ptr);
        if (pages.empty()) return PinnedMemoryResource::call_deallocate(ptr, nbytes, stream);
        const rt::Error_t refused = rt::HostUnregister(ptr);
        if (refused != rt::Error_t::Success) {
            const std::lock_guard<std::mutex> lock(mutex_);
            pages_.insert(std::move(pages));
        }
        check(refused, "HostUnregister");
        portamem_pages_unmap(ptr, nbytes);
    }

    void at_close() override { prepared_.end(); }

  private:
    static constexpr unsigned kFlags = rt::HostMallocPortable | rt::HostMallocMapped;
    static constexpr unsigned kRegisterFlags = rt::HostRegisterPortable | rt::HostRegisterMapped;

    using Pages = std::map<void*, std::size_t>;  // bytes by address

    static bool can_register(int device) {
        using rt::DeviceAttr;
        return detail::answer(DeviceAttr::HostRegisterSupported, device) &&
               detail::answer(DeviceAttr::CanUseHostPointerForRegisteredMem, device) &&
               detail::answer(DeviceAttr::HostMallocCoherent, device);
    }

    static int node_of(int device) {
        try {
            return Device(device).numa_node().value_or(-1);
        } catch (const Error&) {
            return -1;  // a runtime that does not say where its device is
        }
    }

    // Null where the pages are not to be had, or not to be registered: HostMalloc is asked then, and what it answers
    // counts.
    void* registered(std::size_t nbytes) {
        void* pages = portamem_pages_map(nbytes, numa_node_);
        if (pages == nullptr) return nullptr;
        if (!keep(pages, nbytes)) {
            portamem_pages_unmap(pages, nbytes);
            return nullptr;
        }
        const rt::Error_t refused = rt::HostRegister(pages, nbytes, kRegisterFlags);
        if (refused == rt::Error_t::Success && is_device_pointer(pages)) return pages;
        if (refused == rt::Error_t::Success || refused == rt::Error_t::NotSupported) registers_ = false;
        if (refused == rt::Error_t::Success && rt::HostUnregister(pages) != rt::Error_t::Success) return nullptr;
        (void)claim(pages);
        portamem_pages_unmap(pages, nbytes);
        return nullptr;
    }

    // Whether the address is the device's too, as the capability promised.
    static bool is_device_pointer(void* ptr) {
        void* seen = nullptr;
        return rt::HostGetDevicePointer(&seen, ptr) == rt::Error_t::Success && seen == ptr;
    }

    bool keep(void* pages, std::size_t nbytes) {
        try {
            const std::lock_guard<std::mutex> lock(mutex_);
            return pages_.emplace(pages, nbytes).second;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    // Taken out before it goes back: its address may be handed out again at once. Empty for other memory.
    Pages::node_type claim(void* ptr) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = pages_.find(ptr);
        return found == pages_.end() ? Pages::node_type() : pages_.extract(found);
    }

    std::atomic<bool> registers_;
    const int numa_node_;
    detail::PreparedChunk prepared_;
    std::mutex mutex_;
    Pages pages_;  // registered, and out
};

PORTAMEM_CLOSE
