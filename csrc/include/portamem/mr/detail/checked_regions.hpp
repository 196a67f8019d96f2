// SPDX-License-Identifier: MIT
// portamem/mr/detail/checked_regions.hpp: tells the vendor's memory checker which bytes of pools' chunks are in use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "portamem/abi/pool_annotator.h"
#include "portamem/capture.hpp"
#include "portamem/detail/number_map.hpp"
#include "portamem/mr/memory_resource.hpp"
#include "portamem/rt/checker.hpp"

PORTAMEM_OPEN
namespace detail {

/// Implements a pool annotator (portamem/abi/pool_annotator.h) for checkers that know heaps and regions
/// (rt/api/checker.hpp). A chunk is a heap, and its bytes in use are regions, which never overlap. It is thread-safe.
/// - The first chunk shows whether a checker listens, because one may announce itself only once the runtime is used. If
///   none does, nothing is told or kept from then on.
/// - The checker's functions follow no stream, but the caller does: `unused` comes when an event at the free has
///   happened (PoolAnnotations). So nothing relies on when kernels run, or on whether the checker makes launches wait.
/// - A region that begins where one began is resized, and never absent in between; the order relies on that.
/// - There is one gap. Where a block is cut, at another address, from one that was freed and whose work may still run,
///   the bytes behind the cut are in no region between two calls of the host. A kernel that touches them in that moment
///   could be reported.
class CheckedRegions {
  public:
    /// Lists how the checker is told: by the runtime's functions, or by a test's.
    struct Calls {
        bool (*announced)() = nullptr;
        std::optional<int> (*device_of)(const void* ptr, std::size_t nbytes) = nullptr;  // none: not an allocation
        rt::Error_t (*push_device)(int device, rt::DeviceState_t* saved) = nullptr;
        rt::Error_t (*pop_device)(rt::DeviceState_t saved) = nullptr;
        rt::Error_t (*heap_register)(rt::MemHeap_t* heap, const void* ptr, std::size_t nbytes) = nullptr;
        rt::Error_t (*heap_unregister)(rt::MemHeap_t heap) = nullptr;
        rt::Error_t (*register_region)(rt::MemHeap_t heap, const void* ptr, std::size_t nbytes) = nullptr;
        rt::Error_t (*resize)(const void* ptr, std::size_t nbytes) = nullptr;
        rt::Error_t (*unregister)(const void* ptr) = nullptr;
    };

    enum class Listener { Unknown, None, Checker };

    explicit CheckedRegions(const Calls& calls) : calls_(calls) {}

    /// Returns the object of the process, for this backend.
    static CheckedRegions& instance() {
        static auto* const leaked = new CheckedRegions({
            rt::MemCheckerAnnounced,
            device_of,
            rt::PushDevice,
            rt::PopDevice,
            rt::MemHeapRegister,
            rt::MemHeapUnregister,
            rt::MemRegionsRegister,
            rt::MemRegionsResize,
            rt::MemRegionsUnregister,
        });
        return *leaked;
    }

    /// Returns the annotator of instance().
    static const portamem_pool_annotator& annotator() {
        static const portamem_pool_annotator table = {
            sizeof(portamem_pool_annotator),
            [](void* ptr, std::size_t nbytes) { instance().chunk(ptr, nbytes); },
            [](void* ptr, std::size_t nbytes) { instance().chunk_gone(ptr, nbytes); },
            [](void* ptr, std::size_t nbytes) { instance().used(ptr, nbytes); },
            [](void* ptr, std::size_t nbytes) { instance().unused(ptr, nbytes); },
        };
        return table;
    }

    /// Returns Unknown until a chunk has shown it. None stays for good.
    Listener listener() const noexcept { return listener_.load(std::memory_order_acquire); }

    void chunk(void* ptr, std::size_t nbytes) noexcept {
        if (listener() == Listener::None) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        const std::uintptr_t begin = address(ptr);
        guarded([&] {
            if (Heap* outer = heap_of(begin, begin + nbytes)) {
                const OnDevice current(calls_, outer->device);
                if (is_all_of(*outer, begin, nbytes)) ++outer->chunks_within;
                return exclude(*outer, begin, begin + nbytes);
            }
            if (listener() == Listener::Unknown && !calls_.announced()) return decide(Listener::None);
            const auto device = calls_.device_of(ptr, nbytes);
            if (!device) return;
            const OnDevice current(calls_, *device);
            const auto made = heaps_.at_or_new(begin);
            made->second = Heap{begin, begin + nbytes, *device, nullptr, 0};
            if (calls_.heap_register(&made->second.handle, ptr, nbytes) == rt::Error_t::Success) {
                return decide(Listener::Checker);
            }
            heaps_.erase(made);
            if (listener() == Listener::Unknown) decide(Listener::None);
        });
    }

    void chunk_gone(void* ptr, std::size_t nbytes) noexcept {
        if (listener() != Listener::Checker) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        const std::uintptr_t begin = address(ptr);
        guarded([&] {
            Heap* const heap = heap_of(begin, begin + nbytes);
            if (heap == nullptr) return;
            const OnDevice current(calls_, heap->device);
            if (!is_all_of(*heap, begin, nbytes) || heap->chunks_within > 0) {
                if (is_all_of(*heap, begin, nbytes)) --heap->chunks_within;
                return include(*heap, begin, begin + nbytes);  // it is a block of another pool again, as before
            }
            exclude(*heap, begin, begin + nbytes);
            (void)calls_.heap_unregister(heap->handle);
            heaps_.erase(begin);
        });
    }

    void used(void* ptr, std::size_t nbytes) noexcept { change(&CheckedRegions::include, ptr, nbytes); }
    void unused(void* ptr, std::size_t nbytes) noexcept { change(&CheckedRegions::exclude, ptr, nbytes); }

  private:
    struct Heap {
        std::uintptr_t begin = 0;
        std::uintptr_t end = 0;
        int device = 0;
        rt::MemHeap_t handle = nullptr;
        int chunks_within = 0;  // of pools over this one's pool that cover all of it too
    };

    // Makes a device current for its scope.
    class OnDevice {
      public:
        OnDevice(const Calls& calls, int device) : calls_(calls) {
            check(calls_.push_device(device, &saved_), "SetDevice");
        }
        ~OnDevice() { (void)calls_.pop_device(saved_); }
        OnDevice(const OnDevice&) = delete;
        OnDevice& operator=(const OnDevice&) = delete;

      private:
        const Calls& calls_;
        rt::DeviceState_t saved_{};
    };

    using Regions = NumberTree;  // the end of each, by its beginning

    static std::uintptr_t address(const void* ptr) noexcept { return reinterpret_cast<std::uintptr_t>(ptr); }
    static const void* pointer(std::uintptr_t at) noexcept { return reinterpret_cast<const void*>(at); }

    // Returns the device of a chunk that is a whole allocation of the runtime's. The runtime may have rounded its size.
    static std::optional<int> device_of(const void* ptr, std::size_t nbytes) {
        const RelaxedCaptureMode beside;  // another stream may be captured
        rt::PointerAttributes found{};
        if (rt::PointerGetAttributes(&found, ptr) != rt::Error_t::Success) return std::nullopt;
        const bool whole = found.type == rt::MemoryType::Device && found.base == ptr && found.nbytes / 2 < nbytes;
        return whole ? std::optional<int>(found.device) : std::nullopt;
    }

    void decide(Listener listener) noexcept { listener_.store(listener, std::memory_order_release); }

    // Without host memory for the records some bytes stay unknown to the checker, which is no error.
    template <class Function>
    static void guarded(Function&& function) noexcept {
        try {
            function();
        } catch (const std::exception&) {
        }
    }

    void change(void (CheckedRegions::*how)(const Heap&, std::uintptr_t, std::uintptr_t), void* ptr,
                std::size_t nbytes) noexcept {
        if (listener() != Listener::Checker || nbytes == 0) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        const std::uintptr_t begin = address(ptr);
        guarded([&] {
            const Heap* heap = heap_of(begin, begin + nbytes);
            if (heap == nullptr) return;
            const OnDevice current(calls_, heap->device);
            (this->*how)(*heap, begin, begin + nbytes);
        });
    }

    static bool is_all_of(const Heap& heap, std::uintptr_t begin, std::size_t nbytes) noexcept {
        return heap.begin == begin && heap.end == begin + nbytes;
    }

    Heap* heap_of(std::uintptr_t begin, std::uintptr_t end) {
        auto after = heaps_.upper_bound(begin);
        if (after == heaps_.begin()) return nullptr;
        Heap& heap = (--after)->second;
        return end <= heap.end ? &heap : nullptr;
    }

    Regions::iterator first_within(std::uintptr_t begin) {
        const auto at = regions_.lower_bound(begin);
        return at != regions_.begin() && std::prev(at)->second > begin ? std::prev(at) : at;
    }

    void add(const Heap& heap, std::uintptr_t begin, std::uintptr_t end) {
        regions_.insert({begin, 0}).first->second = end;
        (void)calls_.register_region(heap.handle, pointer(begin), end - begin);
    }

    void resize(Regions::iterator region, std::uintptr_t end) {
        region->second = end;
        (void)calls_.resize(pointer(region->first), end - region->first);
    }

    // Makes a range one region. Regions of other blocks beyond its ends stay in use.
    void include(const Heap& heap, std::uintptr_t begin, std::uintptr_t end) {
        auto same = regions_.find(begin);
        if (same != regions_.end() && same->second == end) return;
        const std::uintptr_t rest = clear(begin, end, true);
        same = regions_.find(begin);
        if (same != regions_.end()) {
            resize(same, end);
        } else {
            add(heap, begin, end);
        }
        if (rest > end) add(heap, end, rest);
    }

    void exclude(const Heap& heap, std::uintptr_t begin, std::uintptr_t end) {
        const std::uintptr_t rest = clear(begin, end, false);
        if (rest > end) add(heap, end, rest);
    }

    // Takes a range out of all regions, except a region that begins with it where `keep_first` is set. Returns the end
    // of the region that reached beyond the range, whose rest is in no region then; 0 for none.
    std::uintptr_t clear(std::uintptr_t begin, std::uintptr_t end, bool keep_first) {
        std::uintptr_t rest = 0;
        for (auto at = first_within(begin); at != regions_.end() && at->first < end;) {
            if (at->second > end) rest = at->second;
            if (at->first < begin) {
                resize(at, begin);
                ++at;
            } else if (at->first == begin && keep_first) {
                ++at;
            } else {
                (void)calls_.unregister(pointer(at->first));
                at = regions_.erase(at);
            }
        }
        return rest;
    }

    const Calls calls_;
    std::atomic<Listener> listener_{Listener::Unknown};
    std::mutex mutex_;  // a leaf
    NumberMap<std::uintptr_t, Heap> heaps_;
    Regions regions_;
};

}  // namespace detail
PORTAMEM_CLOSE
