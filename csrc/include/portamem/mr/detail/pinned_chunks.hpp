// SPDX-License-Identifier: MIT
// portamem/mr/detail/pinned_chunks.hpp: large pieces of page-locked memory that are allocated quickly.
#pragma once

#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include "portamem/abi/host_pages.h"
#include "portamem/capabilities.hpp"
#include "portamem/detail/number_map.hpp"
#include "portamem/device.hpp"
#include "portamem/kept.hpp"

PORTAMEM_OPEN
namespace detail {

/// Gives portable and mapped pinned memory in whole pages. It is thread-safe, and the device is current in every call.
/// - Where the device's capabilities say that registered memory is coherent and has one address everywhere, several
///   threads prefault the pages, which are huge where the system allows it and near the device, and the runtime
///   registers them. That takes a tenth of the time of HostMalloc.
/// - Elsewhere, or where the runtime refuses to register, HostMalloc gives the memory.
class PinnedChunks {
  public:
    explicit PinnedChunks(int device) : registers_(can_register(device)), numa_node_(node_of(device)) {}

    /// Is the rt::HostMallocFlags of all this memory.
    static constexpr unsigned kFlags = rt::HostMallocPortable | rt::HostMallocMapped;

    /// Returns whether new memory is registered pages; false means that HostMalloc gives it.
    bool registers() const noexcept { return registers_.load(std::memory_order_relaxed); }

    /// Allocates. Throws Error of HostMalloc, and std::bad_alloc.
    void* allocate(std::size_t nbytes) {
        if (nbytes == 0) return nullptr;
        if (registers()) {
            if (void* const pages = registered(nbytes)) return pages;
        }
        void* ptr = nullptr;
        check(rt::HostMalloc(&ptr, nbytes, kFlags, rt::Coherence::Default), "HostMalloc");
        (void)claim(ptr);  // forgets pages that were freed behind portamem's back
        return ptr;
    }

    /// Takes back memory of allocate, and other memory of HostMalloc. Throws Error, and the memory is still allocated.
    void deallocate(void* ptr, std::size_t nbytes) {
        auto registered = claim(ptr);
        const bool is_registered = !registered.empty();
        const rt::Error_t refused = is_registered ? unregister(ptr, nbytes) : rt::HostFree(ptr);
        if (refused != rt::Error_t::Success && is_registered) {
            const std::lock_guard<std::mutex> lock(mutex_);
            registered_.insert(std::move(registered));
        }
        check(refused, is_registered ? "HostUnregister" : "HostFree");
        if (is_registered) portamem_pages_unmap(ptr, nbytes);
    }

  private:
    static constexpr unsigned kRegisterFlags = rt::HostRegisterPortable | rt::HostRegisterMapped;

    // Counts refusals in a row, other than for want of memory. After that many nothing more is registered, because each
    // costs the time of a chunk.
    static constexpr int kMostRefusals = 4;

    using Pieces = NumberTree;  // by address; of each only the key counts

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
            return -1;  // the runtime does not say where its device is
        }
    }

    // Unregisters for a free. Runtimes wait for the device there, but none promises that, so it gives no order to other
    // memory.
    static rt::Error_t unregister(void* ptr, std::size_t nbytes) {
        const portamem_order_range memory{ptr, nbytes};
        const UntrackedQueries own(&memory, 1);
        return rt::HostUnregister(ptr);
    }

    // Returns null where the pages cannot be had, or cannot be registered.
    void* registered(std::size_t nbytes) {
        void* pages = portamem_pages_map(nbytes, numa_node_);
        if (pages == nullptr) return nullptr;
        if (!keep(pages)) {
            portamem_pages_unmap(pages, nbytes);
            return nullptr;
        }
        const rt::Error_t refused = rt::HostRegister(pages, nbytes, kRegisterFlags);
        if (refused == rt::Error_t::Success && is_device_pointer(pages)) {
            refusals_.store(0, std::memory_order_relaxed);
            return pages;
        }
        const bool is_for_good = refused == rt::Error_t::Success || refused == rt::Error_t::NotSupported;
        const bool has_memory = refused != rt::Error_t::OutOfMemory;
        if (is_for_good || (has_memory && ++refusals_ >= kMostRefusals)) registers_ = false;
        (void)claim(pages);
        if (refused == rt::Error_t::Success && unregister(pages, nbytes) != rt::Error_t::Success) return nullptr;
        portamem_pages_unmap(pages, nbytes);
        return nullptr;
    }

    // Returns whether the device has the same address, as the capability promised.
    static bool is_device_pointer(void* ptr) {
        void* seen = nullptr;
        return rt::HostGetDevicePointer(&seen, ptr) == rt::Error_t::Success && seen == ptr;
    }

    bool keep(void* pages) {
        try {
            const std::lock_guard<std::mutex> lock(mutex_);
            registered_.insert({number_of(pages), 0});
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    // Takes a piece out before it goes back, because its address may be handed out again at once. It is empty for
    // memory of HostMalloc.
    Pieces::node_type claim(void* ptr) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = registered_.find(number_of(ptr));
        return found == registered_.end() ? Pieces::node_type() : registered_.extract(found);
    }

    std::atomic<bool> registers_;
    std::atomic<int> refusals_{0};
    const int numa_node_;
    std::mutex mutex_;
    Pieces registered_;  // the pages that are out
};

}  // namespace detail
PORTAMEM_CLOSE
