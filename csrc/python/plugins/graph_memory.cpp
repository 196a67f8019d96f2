// SPDX-License-Identifier: MIT
// python/plugins/graph_memory.cpp: parts of a library's memory, and the streams that stand in for captured ones.
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

// The last replay may still run, on any stream, so the device has to be idle. A capture allows no such wait. Until then
// the parts count as kept.
void GraphMemory::give_back_released() {
    if (is_open()) return;
    std::vector<Part> idle;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        idle = released_;
    }
    try {
        for (const Part& part : idle) {
            if (!part.pools.empty()) Device(part.device).synchronize();
        }
    } catch (const std::exception&) {
        return;  // a later call does it
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto is_idle = [&](const Part& part) {
        return std::any_of(idle.begin(), idle.end(),
                           [&](const Part& each) { return each.device == part.device && each.id == part.id; });
    };
    released_.erase(std::remove_if(released_.begin(), released_.end(), is_idle), released_.end());
}  // here the pools go, without the lock

// The library's filters run without the lock.
std::shared_ptr<MemoryResource> GraphMemory::pool_for(int device, rt::Stream_t handle,
                                                      const std::shared_ptr<MemoryResource>& over) {
    std::vector<std::pair<Id, Filter>> open;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const Part& part : parts_) {
            if (part.device == device && part.filter) open.emplace_back(part.id, part.filter);
        }
    }
    const auto named = std::find_if(open.begin(), open.end(), [&](const auto& part) { return part.second(handle); });
    if (named == open.end()) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    Part* const part = find(device, named->first);
    if (part == nullptr) return nullptr;  // it was released meanwhile
    auto& pool = part->pools[handle];
    if (!pool) {
        PoolOptions options;
        options.host_access = false;
        options.shares_idle = false;
        pool = PoolMemoryResource::create(over, std::move(options));
    }
    return pool;
}

bool GraphMemory::keeps(const MemoryResource& resource) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto* parts : {&parts_, &released_}) {
        for (const Part& part : *parts) {
            const auto is_it = [&](const auto& pool) { return pool.second.get() == &resource; };
            if (std::any_of(part.pools.begin(), part.pools.end(), is_it)) return true;
        }
    }
    return false;
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
