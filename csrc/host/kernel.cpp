// SPDX-License-Identifier: MIT
// host/kernel.cpp: launches kernels, and serves their requests while they run.
#include "kernel.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "copy.hpp"
#include "entry.hpp"

namespace portamem::host {
namespace {

using Records = std::vector<std::shared_ptr<Allocation>>;

/// A kernel that is queued or runs.
struct Launch {
    pmhKernelFn_t function = nullptr;
    unsigned blocks = 0;
    unsigned threads = 0;
    std::vector<std::uint64_t> arguments;
    int device = 0;
    std::shared_ptr<Heap> heap;  ///< null for a kernel that does not use it
    Records records;             ///< memory that the arguments point to, and memory that the kernel has touched

    void run();
};

thread_local Launch* running = nullptr;

// Whether a kernel reaches memory of another device: pool memory that the pool has opened to its device, virtual memory
// that its device was given access to, and plain memory of its device's peers.
bool reaches(const State& state, int device, const Allocation& record) {
    if (!record.is_device_memory() || record.device == device) return true;
    if (record.kind == Kind::Virtual) return state.virtual_memory.has_access(record.base, device);
    if (record.kind != Kind::Pool)
        return state.devices[static_cast<std::size_t>(device)]->peers.count(record.device) != 0;
    const auto access = record.pool->access.find(device);
    return access != record.pool->access.end() && access->second == pmhMemAccessFlagsProtReadWrite;
}

char* inside(const Allocation& record, const void* ptr, std::size_t size) {
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(ptr) - record.base);
    return offset < record.size && size <= record.size - offset ? record.alias + offset : nullptr;
}

void Launch::run() {
    running = this;
    this_thread().in_host_function = true;
    for (unsigned index = 0; index < blocks; ++index) {
        const pmhKernelBlock block{index, blocks, threads, device, arguments.data()};
        function(&block);
    }
    this_thread().in_host_function = false;
    running = nullptr;
}

}  // namespace

void reserve_heap(State& state, Hold& hold, Device& device) {
    if (device.heap != nullptr) return;
    const std::size_t limit = device.limits[pmhLimitMallocHeapSize];
    const std::size_t bytes = heap_bytes(limit);
    if (bytes == 0 || !device.reserve(state, hold, bytes))
        refuse(pmhErrorOutOfMemory, "the heap of kernels is to have %zu bytes; device %d has %zu of %zu reserved",
               limit, device.ordinal, device.reserved, device.capacity);
    try {
        device.heap = std::make_shared<Heap>(limit);
    } catch (...) {
        device.reserved -= bytes;
        throw;
    }
}

bool is_heap_memory(const State& state, const void* ptr, std::size_t size) {
    return std::any_of(state.devices.begin(), state.devices.end(), [&](const auto& device) {
        return device->heap != nullptr && device->heap->overlaps(ptr, size);
    });
}

void refuse_heap(const State& state, const char* call, const void* ptr, std::size_t size) {
    if (is_heap_memory(state, ptr, size))
        refuse(pmhErrorInvalidValue, "%s at %p, which is in a heap of kernels: kernels alone copy, fill and free it",
               call, ptr);
}

}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhLaunchKernel(pmhKernelFn_t function, unsigned blocks, unsigned threads, const uint64_t* arguments,
                           size_t count, unsigned flags, pmhStream_t handle) {
    return enter("LaunchKernel", [&](State& state, Hold& hold) {
        require(function != nullptr, "the kernel is null");
        require(blocks != 0 && threads != 0, "a launch needs a block and a thread at least");
        require(arguments != nullptr || count == 0, "arguments is null");
        require((flags & ~static_cast<unsigned>(pmhLaunchUsesHeap)) == 0, "unknown launch flags");
        Device& device = current_device(state);
        const std::shared_ptr<Stream> stream = stream_of(state, handle);
        if (stream->device != device.ordinal)
            refuse(pmhErrorInvalidHandle, "the stream is of device %d, and device %d is current", stream->device,
                   device.ordinal);
        auto launch = std::make_shared<Launch>();
        launch->function = function;
        launch->blocks = blocks;
        launch->threads = threads;
        launch->device = device.ordinal;
        launch->arguments.assign(arguments, arguments + count);
        if ((flags & pmhLaunchUsesHeap) != 0) {
            if (device.heap == nullptr) forbid_unsafe_call(state, "LaunchKernel");
            reserve_heap(state, hold, device);
            launch->heap = device.heap;
        }
        if (take(state, *stream, "LaunchKernel")) return;
        for (const std::uint64_t word : launch->arguments)
            if (auto record = state.allocations.holding(reinterpret_cast<const void*>(word));
                record != nullptr && reaches(state, device.ordinal, *record))
                launch->records.push_back(std::move(record));
        (void)submit(state, *stream, [launch = std::move(launch)] { launch->run(); });
    });
}

void* pmhKernelAddress(const void* ptr, size_t size) {
    if (running == nullptr || ptr == nullptr) return nullptr;
    for (const auto& record : running->records) {
        if (static_cast<const char*>(ptr) < record->base) continue;
        if (char* found = inside(*record, ptr, size); found != nullptr) return found;
    }
    if (running->heap != nullptr)
        if (char* found = running->heap->find(ptr, size); found != nullptr) return found;
    State& state = portamem::host::state();
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (const auto record = state.allocations.holding(ptr)) {
        const Records held = state.allocations.holding_all(ptr, size);
        const auto is_reached = [&](const auto& each) { return reaches(state, running->device, *each); };
        if (held.empty() || !std::all_of(held.begin(), held.end(), is_reached)) return nullptr;
        running->records.push_back(record);  // of adjacent pieces, it keeps the addresses of all
        return inside(*record, ptr, 0);
    }
    const bool unknown = state.allocations.overlapping(ptr, size) == nullptr && !is_unused_memory(state, ptr) &&
                         !state.virtual_memory.is_reserved(ptr, size) && !is_heap_memory(state, ptr, size);
    return unknown && state.config.pageable_is_device_accessible() ? const_cast<void*>(ptr) : nullptr;
}

void* pmhKernelMalloc(size_t size) { return pmhKernelMallocAligned(Heap::alignment, size); }

void* pmhKernelMallocAligned(size_t align, size_t size) {
    return running == nullptr || running->heap == nullptr ? nullptr : running->heap->allocate(size, align);
}

void pmhKernelFree(void* ptr) {
    if (running != nullptr && running->heap != nullptr && ptr != nullptr) running->heap->free(ptr);
}
