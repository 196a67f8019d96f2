// SPDX-License-Identifier: MIT
// portamem/mr/pinned_chunks.hpp: large pieces of page-locked memory that are there quickly.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "portamem/capabilities.hpp"
#include "portamem/device.hpp"
#include "portamem/host_pages.h"
#include "portamem/kept.hpp"
#include "portamem/mr/prepared_chunk.hpp"

PORTAMEM_OPEN
namespace detail {

/// Portable and mapped pinned memory in whole pages. Where the device's capabilities say that registered memory is coherent
/// and has one address everywhere, pages that several threads have prefaulted, huge where the system allows it and near
/// the device, are registered with the runtime: a tenth of the time of HostMalloc. Elsewhere, or where the runtime refuses
/// to register, HostMalloc's, of which the next piece is allocated in the background. Thread-safe; the device is current in
/// every call.
class PinnedChunks {
  public:
    explicit PinnedChunks(int device)
        : registers_(can_register(device)), numa_node_(node_of(device)), prepared_(device, kFlags) {}

    /// rt::HostMallocFlags of all of it.
    static constexpr unsigned kFlags = rt::HostMallocPortable | rt::HostMallocMapped;

    /// Whether new memory is registered pages; false: HostMalloc's.
    bool registers() const noexcept { return registers_.load(std::memory_order_relaxed); }

    /// Null where HostMalloc has to be asked: what it answers counts. nbytes: not 0.
    void* allocate(std::size_t nbytes) {
        void* const ptr = registers() ? registered(nbytes) : nullptr;
        return ptr != nullptr ? ptr : prepared_.take(nbytes);
    }

    /// To be told of each chunk that somebody has got, by allocate or by HostMalloc.
    void given(std::size_t nbytes) {
        if (!registers()) prepared_.expect_after(nbytes);
    }

    /// False for memory that HostFree takes back. Throws Error, and the memory is still allocated.
    bool deallocate(void* ptr, std::size_t nbytes) {
        auto pages = claim(ptr);
        if (pages.empty()) return false;
        const rt::Error_t refused = unregister(ptr, nbytes);
        if (refused != rt::Error_t::Success) {
            const std::lock_guard<std::mutex> lock(mutex_);
            pages_.insert(std::move(pages));
        }
        check(refused, "HostUnregister");
        portamem_pages_unmap(ptr, nbytes);
        return true;
    }

    /// Nothing is prepared from here on.
    void end() noexcept { prepared_.end(); }

  private:
    static constexpr unsigned kRegisterFlags = rt::HostRegisterPortable | rt::HostRegisterMapped;

    using Pages = std::map<void*, std::size_t>;  // bytes by address

    static bool can_register(int device) {
        using rt::DeviceAttr;
        return answer(DeviceAttr::HostRegisterSupported, device) &&
               answer(DeviceAttr::CanUseHostPointerForRegisteredMem, device) &&
               answer(DeviceAttr::HostMallocCoherent, device);
    }

    static int node_of(int device) {
        try {
            return Device(device).numa_node().value_or(-1);
        } catch (const Error&) {
            return -1;  // a runtime that does not say where its device is
        }
    }

    // Runtimes wait for the device there, which none promises: to the program it is no order of anything else.
    static rt::Error_t unregister(void* ptr, std::size_t nbytes) {
        const portamem_order_range memory{ptr, nbytes};
        const OwnQueries own(&memory, 1);
        return rt::HostUnregister(ptr);
    }

    // Null where the pages are not to be had, or not to be registered.
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
        if (refused == rt::Error_t::Success && unregister(pages, nbytes) != rt::Error_t::Success) return nullptr;
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
    PreparedChunk prepared_;
    std::mutex mutex_;
    Pages pages_;  // registered, and out
};

}  // namespace detail
PORTAMEM_CLOSE
