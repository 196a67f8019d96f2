// SPDX-License-Identifier: MIT
// portamem/probe.hpp: capabilities that no runtime reports, and that portamem finds out by trying.
#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>

#include "portamem/detail/number_map.hpp"
#include "portamem/device.hpp"

PORTAMEM_OPEN

/// Holds what probe() found. An unknown answer means that it could not be tried here, or that there is nothing to try
/// it on.
struct ProbedCapabilities {
    Answer pool_threshold_accepted;   ///< a pool's release threshold reads back as it was set
    Answer pool_threshold_effective;  ///< the threshold is obeyed too: memory is kept at a synchronize, or goes back
    Answer stream_capture;            ///< work on a stream can be captured into a graph
    Answer host_register;             ///< host memory of the program's own can be page-locked
    Answer registered_pointer_is_device_pointer;
    Answer malloc_heap_settable;  ///< the device heap's limit can be set; with CUDA not once a kernel has used the heap
};

namespace detail {

// Represents one run of the probes on the current device, under a relaxed capture mode. It makes a pool, a stream, some
// MiB of memory and one page of host memory, and destroys them at the end.
class Prober {
  public:
    explicit Prober(int device) : device_(device) {
        made_ = done(rt::StreamCreateWithPriority(&stream_, rt::StreamNonBlocking, 0));
    }
    ~Prober() {
        if (made_) (void)rt::StreamDestroy(stream_);
    }
    Prober(const Prober&) = delete;
    Prober& operator=(const Prober&) = delete;

    ProbedCapabilities run() {
        ProbedCapabilities found;
        if (!made_) return found;
        try_threshold(found);
        try_capture(found);
        try_registration(found);
        try_heap_limit(found);
        return found;
    }

    /// Returns false where a probe was refused for a reason that may go away, such as no memory or another capture.
    bool is_complete() const noexcept { return complete_; }

  private:
    static constexpr std::uint64_t kKeepAll = std::numeric_limits<std::uint64_t>::max();
    static constexpr std::size_t kNbytes = std::size_t{4} << 20;

    bool done(rt::Error_t answer) noexcept {
        const bool success = answer == rt::Error_t::Success;
        if (!success && answer != rt::Error_t::NotSupported) complete_ = false;
        return success;
    }

    bool threshold_reads_back(rt::MemPool_t pool, std::uint64_t value) {
        std::uint64_t seen = 0;
        return rt::MemPoolSetAttribute(pool, rt::MemPoolAttr::ReleaseThreshold, value) == rt::Error_t::Success &&
               rt::MemPoolGetAttribute(pool, rt::MemPoolAttr::ReleaseThreshold, &seen) == rt::Error_t::Success &&
               seen == value;
    }

    // Returns the bytes that the pool holds once memory was taken, given back and synchronized with.
    std::optional<std::uint64_t> reserved_after_use(rt::MemPool_t pool) {
        void* ptr = nullptr;
        std::uint64_t reserved = 0;
        if (!done(rt::MallocFromPoolAsync(&ptr, kNbytes, pool, stream_))) return std::nullopt;
        const bool freed = done(rt::FreeAsync(ptr, stream_));
        const bool ran = done(rt::StreamSynchronize(stream_));
        if (!freed || !ran) return std::nullopt;
        if (!done(rt::MemPoolGetAttribute(pool, rt::MemPoolAttr::ReservedMemCurrent, &reserved))) return std::nullopt;
        return reserved;
    }

    void try_threshold(ProbedCapabilities& found) {
        if (!detail::answer(rt::DeviceAttr::MemoryPoolsSupported, device_)) return;
        rt::MemPool_t pool{};
        if (!done(rt::MemPoolCreate(&pool, {{rt::LocationType::Device, device_}, 0}))) return;
        const bool keeps_all = threshold_reads_back(pool, kKeepAll);
        const auto kept = reserved_after_use(pool);
        const bool keeps_none = threshold_reads_back(pool, 0);
        const auto left = reserved_after_use(pool);
        found.pool_threshold_accepted = keeps_all && keeps_none;
        if (kept && left) found.pool_threshold_effective = *kept >= kNbytes && *left == 0;
        (void)rt::MemPoolDestroy(pool);
    }

    void try_capture(ProbedCapabilities& found) {
        const rt::Error_t begun = rt::StreamBeginCapture(stream_, rt::StreamCaptureMode::Relaxed);
        if (begun == rt::Error_t::NotSupported) found.stream_capture = false;
        if (!done(begun)) return;
        rt::Graph_t graph{};
        if (done(rt::StreamEndCapture(stream_, &graph))) found.stream_capture = true;
        if (graph != rt::Graph_t{}) (void)rt::GraphDestroy(graph);
    }

    // Tries only where the runtime does not say, because undoing a registration may wait for the device.
    void try_registration(ProbedCapabilities& found) {
        found.host_register = answer(rt::DeviceAttr::HostRegisterSupported, device_);
        found.registered_pointer_is_device_pointer = answer(rt::DeviceAttr::CanUseHostPointerForRegisteredMem, device_);
        if (found.host_register.is_no()) return;
        if (found.host_register.is_known() && found.registered_pointer_is_device_pointer.is_known()) return;
        alignas(4096) static unsigned char page[4096];
        static std::mutex one_at_a_time;
        const std::lock_guard<std::mutex> lock(one_at_a_time);
        void* ptr = nullptr;
        const rt::Error_t answer = rt::HostRegister(page, sizeof page, rt::HostRegisterMapped);
        if (answer == rt::Error_t::NotSupported) found.host_register = false;
        if (!done(answer)) return;
        found.host_register = true;
        if (done(rt::HostGetDevicePointer(&ptr, page))) found.registered_pointer_is_device_pointer = ptr == page;
        (void)rt::HostUnregister(page);
    }

    // Sets the limit to its present value. It does not where the limit is the size that the heap begins with: HIP
    // before 6.3 reports all of the device's memory there, and setting that would make the heap begin with all of it.
    void try_heap_limit(ProbedCapabilities& found) {
        const auto kind = known_attribute(rt::DeviceAttr::MallocHeapKind, device_);
        if (!kind || *kind == static_cast<int>(rt::MallocHeapKind::Initial)) return;
        std::size_t value = 0;
        if (rt::DeviceGetLimit(&value, rt::Limit::MallocHeapSize) != rt::Error_t::Success) return;
        found.malloc_heap_settable = rt::DeviceSetLimit(rt::Limit::MallocHeapSize, value) == rt::Error_t::Success;
    }

    const int device_;
    rt::Stream_t stream_{};
    bool made_ = false;
    bool complete_ = true;
};

}  // namespace detail

/// Tries what no runtime reports, once per device of this process; later calls return what was found.
/// - It creates the device's context, takes some MiB for a moment from a pool and a stream of its own, and leaves all
///   settings as they were.
/// - It never waits for other work, except where undoing a registration does (HIP before 6.0).
/// - Throws std::invalid_argument while a stream is captured.
inline ProbedCapabilities probe(const Device& device) {
    struct Found {
        std::mutex mutex;
        detail::NumberMap<int, ProbedCapabilities> of;
    };
    static auto* leaked = new Found;
    refuse_forked();
    {
        const std::lock_guard<std::mutex> lock(leaked->mutex);
        if (const auto known = leaked->of.find(device.ordinal()); known != leaked->of.end()) return known->second;
    }
    detail::refuse_in_capture("probing a device");
    const RelaxedCapture beside(device.ordinal());
    detail::watch_exit();
    detail::Prober prober(device.ordinal());
    const ProbedCapabilities found = prober.run();
    if (prober.is_complete()) {
        const std::lock_guard<std::mutex> lock(leaked->mutex);
        leaked->of[device.ordinal()] = found;
    }
    return found;
}

PORTAMEM_CLOSE
