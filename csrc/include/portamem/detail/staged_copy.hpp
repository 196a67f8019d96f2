// SPDX-License-Identifier: MIT
// portamem/detail/staged_copy.hpp: large copies between ordinary host memory and a device, through pinned blocks.
//
// The vendors carry such a copy on one thread through small blocks of their own, at a fraction of the bus's rate.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "portamem/detail/staging_lane.hpp"
#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

/// Returns how many threads carry a large copy; 0 means that the runtime's own call does it. Throws
/// std::invalid_argument where PORTAMEM_COPY_THREADS cannot be read.
inline int copy_threads() {
    const char* unreadable = nullptr;
    const int threads = portamem_copy_threads(rt::StagesSlowly ? 1 : 0, &unreadable);
    if (threads >= 0) return threads;
    throw std::invalid_argument("PORTAMEM_COPY_THREADS=" + std::string(unreadable) +
                                " is no number of threads: give a number from 0 to 64, or off");
}

/// Copies of fewer bytes are the runtime's: below that, its own way is as fast.
inline constexpr std::size_t kStagedFrom = std::size_t{4} << 20;

inline bool is_ordinary_host_memory(const Span& span) {
    if (span.allocation) return span.allocation->traits().pageable;
    rt::PointerAttributes attributes;
    return rt::PointerGetAttributes(&attributes, span.ptr) == rt::Error_t::Success &&
           attributes.type == rt::MemoryType::Unregistered;
}

inline bool is_memory_of_device_alone(const Span& span) {
    if (!span.allocation) return false;
    const MemoryTraits& traits = span.allocation->traits();
    return !traits.host_accessible && !traits.may_be_of_host && !traits.is_host_memory &&
           traits.kind != ResourceKind::Managed;
}

/// Returns whether a device reads ordinary host memory by the host's own page tables, at the rate of their link.
inline bool shares_page_tables(int device) {
    int shares = 0;
    return rt::DeviceGetAttribute(&shares, rt::DeviceAttr::PageableMemoryAccessUsesHostPageTables, device) ==
               rt::Error_t::Success &&
           shares != 0;
}

/// Copies between host memory and memory of a device alone, as StagingLane does. Once the call has ended, also with an
/// exception, the host's memory is not in use any more.
/// - The stream's work runs first, as it does for the runtime's own large copy (CUDA runtime API, API synchronization
///   behavior): the threads read a source on the CPU, at once, and queued work may write it.
/// - Where the runtime fails in a part, the parts before it run to their end: the target may have another owner once
///   the call failed. Where a signal ends the wait, they go on, and the device's memory is kept meanwhile.
inline bool carry_staged(const Span& memory, const DeviceBox& device, const portamem_host_runs& host,
                         std::size_t nbytes, bool to_device, const Stream& on, int threads) {
    on.wait_for_work();
    StagingLane& lane = StagingLane::of(on.device());
    try {
        return to_device ? lane.to_device(device, host, nbytes, on.handle(), threads)
                         : lane.to_host(host, device, nbytes, on.handle(), threads);
    } catch (const Error&) {
        (void)rt::StreamSynchronize(on.handle());
        throw;
    } catch (...) {
        keep_while_it_runs(std::const_pointer_cast<Stream>(on.shared_from_this()), memory, Span{});
        throw;
    }
}

/// Returns how many threads carry a copy between two such ends; 0 means that the runtime's own call does it.
inline int threads_between(const Span& dst, const Span& src, std::size_t nbytes, const Stream& on) {
    if (nbytes < kStagedFrom) return 0;
    const bool to_device = is_memory_of_device_alone(dst);
    if (to_device == is_memory_of_device_alone(src)) return 0;
    const int threads = copy_threads();
    if (threads == 0 || !is_ordinary_host_memory(to_device ? src : dst) || shares_page_tables(on.device())) return 0;
    return threads;
}

/// Copies through pinned blocks where that is faster than the runtime's own call. Returns false, with nothing done,
/// where it is not.
inline bool copy_staged(const Span& dst, const Span& src, const Stream& on) {
    const int threads = threads_between(dst, src, src.nbytes, on);
    if (threads == 0) return false;
    const bool to_device = is_memory_of_device_alone(dst);
    const Span& memory = to_device ? dst : src;
    const portamem_host_runs host{to_device ? src.ptr : dst.ptr, src.nbytes, 0, nullptr, nullptr};
    return carry_staged(memory, {static_cast<char*>(memory.ptr)}, host, src.nbytes, to_device, on, threads);
}

/// Says where the rows and slices of one end of a box begin, in bytes from each other.
struct BoxEnd {
    std::size_t pitch = 0;
    std::size_t slice = 0;
};

/// Describes an end in device memory with as few slices as it can, because each slice costs a call of the runtime:
/// slices of one row become rows, and slices without a gap between them become one.
inline DeviceBox device_box(void* first, const BoxEnd& end, std::size_t width, std::size_t height, std::size_t depth) {
    constexpr std::size_t kMostPitch = (std::size_t{1} << 31) - 1;  // CUDA runtime API, cudaDeviceProp::memPitch
    DeviceBox box{static_cast<char*>(first), width, end.pitch, height, end.slice};
    if (height == 1 && end.slice <= kMostPitch) {
        box.pitch = end.slice;
        box.height = depth;
    } else if (depth == 1 || end.slice == height * end.pitch) {
        box.height = height * depth;
    }
    if (box.height == height * depth && (box.height == 1 || box.pitch == width)) box.width = 0;
    return box;
}

/// Copies `depth` slices of `height` rows of `width` bytes, none of which is 0, through pinned blocks where that is
/// faster than the runtime's own call. Returns false, with nothing done, where it is not.
inline bool copy_box_staged(const Span& dst, const BoxEnd& dst_end, const Span& src, const BoxEnd& src_end,
                            std::size_t width, std::size_t height, std::size_t depth, const Stream& on) {
    constexpr std::size_t kLeastOfCall = std::size_t{64} << 10;  // the runtime moves less in the time of a call
    const std::size_t nbytes = width * height * depth;
    const int threads = threads_between(dst, src, nbytes, on);
    if (threads == 0) return false;
    const bool to_device = is_memory_of_device_alone(dst);
    const Span& memory = to_device ? dst : src;
    const DeviceBox box = device_box(memory.ptr, to_device ? dst_end : src_end, width, height, depth);
    if (box.width != 0 && box.width * box.height < kLeastOfCall) return false;
    const BoxEnd& here = to_device ? src_end : dst_end;
    const std::size_t counts[] = {depth, height};
    const std::ptrdiff_t strides[] = {static_cast<std::ptrdiff_t>(here.slice), static_cast<std::ptrdiff_t>(here.pitch)};
    const portamem_host_runs host{to_device ? src.ptr : dst.ptr, width, 2, counts, strides};
    return carry_staged(memory, box, host, nbytes, to_device, on, threads);
}

}  // namespace detail

PORTAMEM_CLOSE
