// SPDX-License-Identifier: MIT
// coherence.cpp: the shadows, and what is in them.
#include "coherence.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace standin {
namespace {

struct Shadow {
    std::size_t size;
    char* cached;
};

struct Shadows {
    std::mutex mutex;
    std::map<char*, Shadow, std::less<>> by_base;
    std::vector<CachedWrite> writes;

    // The entry that holds an address, or the end.
    auto holding(const void* ptr) {
        char* address = static_cast<char*>(const_cast<void*>(ptr));
        auto after = by_base.upper_bound(address);
        if (after == by_base.begin()) return by_base.end();
        const auto found = std::prev(after);
        return static_cast<std::size_t>(address - found->first) < found->second.size ? found : by_base.end();
    }
};

Shadows& shadows() {
    static Shadows& all = *new Shadows;
    return all;
}

int device_of(hipStream_t stream) {
    int device = 0;
    (void)pmhStreamGetDevice(native(stream), &device);
    return device;
}

template <class Wanted>
std::vector<CachedWrite> take(Wanted&& wanted) {
    const std::lock_guard<std::mutex> lock(shadows().mutex);
    auto& all = shadows().writes;
    const auto first = std::stable_partition(all.begin(), all.end(), [&](auto& write) { return !wanted(write); });
    std::vector<CachedWrite> taken(first, all.end());
    all.erase(first, all.end());
    return taken;
}

bool is_legacy(hipStream_t stream) { return stream == nullptr || native(stream) == pmhStreamLegacy; }

}  // namespace

bool add_shadow(void* base, std::size_t size) {
    void* cached = nullptr;
    if (pmhHostMalloc(&cached, size, 0) != pmhSuccess) return false;
    const std::lock_guard<std::mutex> lock(shadows().mutex);
    shadows().by_base[static_cast<char*>(base)] = {size, static_cast<char*>(cached)};
    return true;
}

void forget_shadow(void* base) {
    char* cached = nullptr;
    {
        const std::lock_guard<std::mutex> lock(shadows().mutex);
        const auto found = shadows().by_base.find(base);
        if (found == shadows().by_base.end()) return;
        cached = found->second.cached;
        const char* end = found->first + found->second.size;
        auto& all = shadows().writes;
        const auto inside = [&](auto& write) { return write.target >= base && write.target < end; };
        all.erase(std::remove_if(all.begin(), all.end(), inside), all.end());
        shadows().by_base.erase(found);
    }
    (void)pmhHostFree(cached);
}

void* device_side(void* target, std::size_t size) {
    const std::lock_guard<std::mutex> lock(shadows().mutex);
    const auto found = shadows().holding(target);
    if (found == shadows().by_base.end()) return target;
    const auto offset = static_cast<std::size_t>(static_cast<char*>(target) - found->first);
    return size <= found->second.size - offset ? found->second.cached + offset : target;
}

void note_write(void* target, std::size_t size, hipStream_t stream) {
    const char* cached = static_cast<const char*>(device_side(target, size));
    if (cached == target) return;
    const int device = device_of(stream);
    const std::lock_guard<std::mutex> lock(shadows().mutex);
    shadows().writes.push_back({stream, device, static_cast<char*>(target), cached, size});
}

void settle_before_read(const void* source, hipStream_t stream) {
    {
        const std::lock_guard<std::mutex> lock(shadows().mutex);
        if (shadows().holding(source) == shadows().by_base.end()) return;
    }
    auto writes = std::make_unique<std::vector<CachedWrite>>(cached_writes(stream));
    if (writes->empty()) return;
    const auto run = [](void* data) {
        const std::unique_ptr<std::vector<CachedWrite>> queued(static_cast<std::vector<CachedWrite>*>(data));
        publish(*queued);
    };
    if (pmhLaunchHostFunc(native(stream), run, writes.get()) == pmhSuccess) (void)writes.release();
}

std::vector<CachedWrite> cached_writes(hipStream_t stream) {
    if (is_legacy(stream)) return cached_writes_of_device();
    return take([&](const CachedWrite& write) { return write.stream == stream; });
}

std::vector<CachedWrite> cached_writes_of_device() {
    int device = 0;
    (void)pmhGetDevice(&device);
    return take([&](const CachedWrite& write) { return write.device == device; });
}

void publish(const std::vector<CachedWrite>& writes) {
    for (const CachedWrite& write : writes) std::memcpy(write.target, write.cached, write.size);
}

}  // namespace standin
