// SPDX-License-Identifier: MIT
// portamem/mr/detail/pinned_chunks.hpp: large pieces of page-locked memory that are there quickly.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "portamem/abi/host_pages.h"
#include "portamem/capabilities.hpp"
#include "portamem/device.hpp"
#include "portamem/kept.hpp"
#include "portamem/mr/detail/prepared_chunk.hpp"

PORTAMEM_OPEN
namespace detail {

/// Portable and mapped pinned memory in whole pages. Where the device's capabilities say that registered memory is coherent
/// and has one address everywhere, pages that several threads have prefaulted, huge where the system allows it and near
/// the device, are registered with the runtime: a tenth of the time of HostMalloc. Elsewhere, or where the runtime refuses
/// to register, HostMalloc's, of which the next piece (of 1 to 256 MiB) is allocated in the background while there are
/// others: it goes back with the last of them, and where HostMalloc has no more. Thread-safe; the device is current in
/// every call.
class PinnedChunks {
  public:
    explicit PinnedChunks(int device)
        : registers_(can_register(device)), numa_node_(node_of(device)), prepared_(device, kFlags) {}

    /// rt::HostMallocFlags of all of it.
    static constexpr unsigned kFlags = rt::HostMallocPortable | rt::HostMallocMapped;

    /// Whether new memory is registered pages; false: HostMalloc's.
    bool registers() const noexcept { return registers_.load(std::memory_order_relaxed); }

    /// Throws Error of HostMalloc.
    void* allocate(std::size_t nbytes) {
        if (nbytes == 0) return nullptr;
        if (registers()) {
            if (void* const pages = registered(nbytes)) return pages;
        }
        void* ptr = prepared_.take(nbytes);
        if (ptr == nullptr) ptr = host_malloc(nbytes);
        if (!keep(ptr, {})) {
            (void)rt::HostFree(ptr);
            throw std::bad_alloc();
        }
        if (!registers()) prepared_.expect_after(nbytes);
        return ptr;
    }

    /// HostMalloc, before which nothing that was prepared for others stands in the way.
    void* host_malloc(std::size_t nbytes) {
        void* ptr = nullptr;
        rt::Error_t answer = rt::HostMalloc(&ptr, nbytes, kFlags, rt::Coherence::Default);
        if (answer == rt::Error_t::OutOfMemory && prepared_.drop()) {
            answer = rt::HostMalloc(&ptr, nbytes, kFlags, rt::Coherence::Default);
        }
        check(answer, "HostMalloc");
        return ptr;
    }

    /// Takes back memory of both. Throws Error, and it is still allocated.
    void deallocate(void* ptr, std::size_t nbytes) {
        auto piece = claim(ptr);
        const bool is_registered = !piece.empty() && piece.mapped().is_registered;
        const rt::Error_t refused = is_registered ? unregister(ptr, nbytes) : rt::HostFree(ptr);
        if (refused != rt::Error_t::Success && !piece.empty()) {
            const std::lock_guard<std::mutex> lock(mutex_);
            pieces_.insert(std::move(piece));
        }
        check(refused, is_registered ? "HostUnregister" : "HostFree");
        if (is_registered) portamem_pages_unmap(ptr, nbytes);
        if (!piece.empty() && is_empty()) (void)prepared_.drop();
    }

    /// Nothing is prepared from here on.
    void end() noexcept { prepared_.end(); }

  private:
    static constexpr unsigned kRegisterFlags = rt::HostRegisterPortable | rt::HostRegisterMapped;

    // Refusals in a row, for no want of memory, after which nothing more is registered: each costs the time of a chunk.
    static constexpr int kMostRefusals = 4;

    struct Piece {
        bool is_registered = false;
    };
    using Pieces = std::map<void*, Piece>;  // by address

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

    // Runtimes wait for the device there, which none promises: to the program it is a free, and no order of anything else.
    static rt::Error_t unregister(void* ptr, std::size_t nbytes) {
        const portamem_order_range memory{ptr, nbytes};
        const UntrackedQueries own(&memory, 1);
        return rt::HostUnregister(ptr);
    }

    // Null where the pages are not to be had, or not to be registered.
    void* registered(std::size_t nbytes) {
        void* pages = portamem_pages_map(nbytes, numa_node_);
        if (pages == nullptr) return nullptr;
        if (!keep(pages, {true})) {
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

    // Whether the address is the device's too, as the capability promised.
    static bool is_device_pointer(void* ptr) {
        void* seen = nullptr;
        return rt::HostGetDevicePointer(&seen, ptr) == rt::Error_t::Success && seen == ptr;
    }

    bool keep(void* ptr, Piece piece) {
        try {
            const std::lock_guard<std::mutex> lock(mutex_);
            pieces_.insert_or_assign(ptr, piece);  // one that somebody freed behind portamem's back is there no more
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    // Taken out before it goes back: its address may be handed out again at once. Empty for memory of host_malloc.
    Pieces::node_type claim(void* ptr) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = pieces_.find(ptr);
        return found == pieces_.end() ? Pieces::node_type() : pieces_.extract(found);
    }

    bool is_empty() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return pieces_.empty();
    }

    std::atomic<bool> registers_;
    std::atomic<int> refusals_{0};
    const int numa_node_;
    PreparedChunk prepared_;
    std::mutex mutex_;
    Pieces pieces_;  // out, of allocate
};

}  // namespace detail
PORTAMEM_CLOSE
