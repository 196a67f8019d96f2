// SPDX-License-Identifier: MIT
// python/plugs/graph_memory.cpp: parts of a library's memory, and the streams that stand in for captured ones.
#include "graph_memory.hpp"

#include <algorithm>

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

GraphMemory::Part* GraphMemory::find(int device, Id id) {
    const auto found = std::find_if(parts_.begin(), parts_.end(),
                                    [&](const Part& part) { return part.device == device && part.id == id; });
    return found == parts_.end() ? nullptr : &*found;
}

void GraphMemory::begin(int device, Id id, Filter filter) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Part* part = find(device, id);
    if (part == nullptr) {
        parts_.push_back({device, id, {}, {}});
        part = &parts_.back();
    }
    if (!part->filter) open_.fetch_add(1, std::memory_order_release);
    part->filter = std::move(filter);
}

void GraphMemory::end(int device, Id id) {
    Filter ended;  // dropped without the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    Part* const part = find(device, id);
    if (part == nullptr || !part->filter) return;
    ended.swap(part->filter);
    open_.fetch_sub(1, std::memory_order_release);
}

void GraphMemory::release(int device, Id id) {
    end(device, id);
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (Part* const part = find(device, id)) {
            released_.push_back(std::move(*part));
            parts_.erase(parts_.begin() + (part - parts_.data()));
        }
    }
    give_back_released();
}

// The last replay may still run, on any stream, so the device has to be idle. A capture allows no such wait.
void GraphMemory::give_back_released() {
    if (is_open()) return;
    std::vector<Part> idle;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        idle.swap(released_);
    }
    try {
        for (const Part& part : idle) {
            if (!part.pools.empty()) Device(part.device).synchronize();
        }
    } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (Part& part : idle) released_.push_back(std::move(part));  // until the next call
    }
}

std::optional<GraphMemory::Source> GraphMemory::source(int device, const std::shared_ptr<Stream>& stream,
                                                       const std::shared_ptr<MemoryResource>& over) {
    const rt::Stream_t handle = stream->handle();
    const bool is_captured = stream->capture_status() != rt::StreamCaptureStatus::None;
    const auto named = is_captured ? stand_in(device, handle) : stream;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Part& part : parts_) {
        if (part.device != device || !part.filter || !part.filter(handle)) continue;
        auto& pool = part.pools[handle];
        if (!pool) {
            PoolOptions options;
            options.host_access = false;
            options.shares_idle = false;
            pool = PoolMemoryResource::create(over, std::move(options));
        }
        return Source{pool, named};
    }
    return std::nullopt;
}

std::shared_ptr<Stream> GraphMemory::stand_in(int device, rt::Stream_t handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& found = stand_ins_[{device, handle}];
    if (!found) {
        const RelaxedCapture beside(device);
        found = Stream::create(device);
    }
    return found;
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
