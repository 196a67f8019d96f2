// SPDX-License-Identifier: MIT
// portamem/detail/small_copy.hpp: small copies between ordinary host memory and a device, through pinned blocks.
//
// A runtime's own call for such a copy takes longer than its call for pinned memory and a copy on the CPU: on an H200,
// from 64 bytes to 64 KiB, by a third to the host and by a sixth to the device. AMD's may wait for the stream's work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "portamem/detail/small_blocks.hpp"
#include "portamem/detail/small_sources.hpp"
#include "portamem/detail/staged_copy.hpp"
#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

/// Returns whether portamem carries copies of ordinary host memory itself. It does not where PORTAMEM_COPY_THREADS
/// cannot be read; a large copy refuses that.
inline bool stages_copies() noexcept {
    static const bool is_on = [] {
        const char* unreadable = nullptr;
        return portamem_copy_threads(rt::StagesSlowly ? 1 : 0, &unreadable) > 0;
    }();
    return is_on;
}

/// Copies device memory to ordinary host memory through a block, and waits until the bytes are there. Returns false,
/// with nothing done, where all blocks are in use. `memory`: from 1 to kBlockBytes bytes. Where a signal ends the wait,
/// the copy goes on into the block, and the device memory is kept meanwhile. Throws Error where the runtime fails.
inline bool carry_small(void* dst, const Span& memory, const Stream& on, SmallBlocks& blocks) {
    SmallBlocks::Block* const block = blocks.take();
    if (block == nullptr) return false;
    bool is_queued = false;
    bool is_marked = false;
    try {
        const DeclaredSoFar so_far = on.declared_so_far();
        check(rt::MemcpyAsync(block->memory, memory.ptr, memory.nbytes, rt::MemcpyKind::DeviceToHost, on.handle()),
              "MemcpyAsync");
        is_queued = true;
        check(rt::EventRecord(block->behind, on.handle()), "EventRecord");
        is_marked = true;
        auto has_happened = [&] { return check_ready(rt::EventQuery(block->behind), "EventSynchronize"); };
        if (!hear_until(has_happened)) check(rt::EventSynchronize(block->behind), "EventSynchronize");
        so_far.note_run();
    } catch (const Error&) {
        if (is_queued) (void)rt::StreamSynchronize(on.handle());
        blocks.give_back(*block, false);
        throw;
    } catch (...) {  // the wait ended early, or there is no host memory for an error
        if (is_queued && !is_marked) (void)rt::StreamSynchronize(on.handle());
        if (is_marked) keep_while_it_runs(std::const_pointer_cast<Stream>(on.shared_from_this()), memory, Span{});
        blocks.give_back(*block, is_marked);
        throw;
    }
    std::memcpy(dst, block->memory, memory.nbytes);
    blocks.give_back(*block, false);
    return true;
}

/// Returns whether host memory is ordinary at both ends: a part of it may be registered.
inline bool is_ordinary_throughout(const Span& span) {
    constexpr std::uintptr_t kPage = 4096;
    const Span last = Span::host(static_cast<char*>(span.ptr) + span.nbytes - 1, 1);
    const auto page_of = [](const void* ptr) { return reinterpret_cast<std::uintptr_t>(ptr) / kPage; };
    return is_ordinary_host_memory(span) && (page_of(span.ptr) == page_of(last.ptr) || is_ordinary_host_memory(last));
}

/// Carries a small copy from memory of a device alone to ordinary host memory, as carry_small does. Returns false, with
/// nothing done, where the copy is too large or its ends are others.
inline bool copy_small_to_host(const Span& dst, const Span& src, const Stream& on) {
    if (src.nbytes == 0 || src.nbytes > SmallBlocks::kBlockBytes || !stages_copies()) return false;
    if (!is_memory_of_device_alone(src) || is_memory_of_device_alone(dst) || !is_ordinary_throughout(dst)) return false;
    return carry_small(dst.ptr, src, on, SmallBlocks::of(on.device()));
}

/// Returns room for a small copy on a stream from ordinary host memory to memory of a device alone. The copy reads the
/// source during the call, before the work that the stream holds. So there is room only where the runtime itself reads
/// such a source during its call, and where no kernel of the device reaches the source.
inline SmallSources::Room room_for_source(const Span& dst, const Span& src, const Stream& on) {
    constexpr std::size_t kMost = std::min(rt::StagedAtOnce, SmallSources::kBlockBytes);
    const bool is_small = src.nbytes != 0 && src.nbytes <= kMost && stages_copies();
    if (!is_small || src.allocation || !is_memory_of_device_alone(dst) || !is_ordinary_throughout(src)) return {};
    SmallSources& sources = SmallSources::of(on.device());
    if (sources.kernels_reach_host()) return {};
    return {sources, src.nbytes};
}

/// Queues the copy of the source through its room.
inline void submit_small(const Span& dst, const Span& src, const SmallSources::Room& room, const Stream& on) {
    std::memcpy(room.memory(), src.ptr, src.nbytes);
    check(rt::MemcpyAsync(dst.ptr, room.memory(), src.nbytes, rt::MemcpyKind::HostToDevice, on.handle()),
          "MemcpyAsync");
}

}  // namespace detail

PORTAMEM_CLOSE
