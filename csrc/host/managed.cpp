// SPDX-License-Identifier: MIT
// host/managed.cpp: prefetch and advice of memory that migrates, and attachment of managed memory.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "entry.hpp"
#include "kernel.hpp"
#include "order_hooks.hpp"
#include "pages.hpp"

namespace portamem::host {
namespace {

/// A range of managed memory, or of memory that the runtime did not give, where devices reach that.
struct MovableRange {
    std::shared_ptr<Allocation> record;  ///< null for memory that is not the runtime's
    ManagedRanges& ranges;
    std::size_t offset;
};

MovableRange pageable_range(State& state, const void* ptr, std::size_t size) {
    if (const auto other = state.allocations.overlapping(ptr, size))
        refuse(pmhErrorInvalidValue, "the %zu bytes at %p run into memory of the runtime at %p", size, ptr,
               static_cast<void*>(other->base));
    require(!state.virtual_memory.is_reserved(ptr, size), "the runtime has reserved these addresses");
    refuse_heap(state, "a prefetch or advice", ptr, size);
    if (!has_pages(ptr, size))
        refuse(pmhErrorInvalidValue, "not all of the %zu bytes at %p are memory that this process can read", size, ptr);
    return {nullptr, state.pageable, reinterpret_cast<std::uintptr_t>(ptr)};
}

MovableRange movable_range(State& state, const void* ptr, std::size_t size) {
    require(size != 0, "the range is empty");
    require(size - 1 <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(ptr), "the range wraps around");
    const auto record = state.allocations.holding(ptr);
    if (record == nullptr && state.config.pageable_is_device_accessible()) return pageable_range(state, ptr, size);
    if (record == nullptr || record->kind != Kind::Managed)
        refuse(pmhErrorInvalidValue, "%p is not managed memory", ptr);
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(ptr) - record->base);
    if (size > record->size - offset)
        refuse(pmhErrorInvalidValue, "%zu bytes at offset %zu leave the allocation of %zu bytes", size, offset,
               record->size);
    return {record, *record->ranges, offset};
}

// Returns the device ordinal of a location. Any node of the CPU is pmhCpuDeviceId.
int ordinal_of(State& state, pmhMemLocation location) {
    switch (location.type) {
        case pmhMemLocationTypeDevice:
            return device_of(state, location.id).ordinal;
        case pmhMemLocationTypeHost:
        case pmhMemLocationTypeHostNuma:
        case pmhMemLocationTypeHostNumaCurrent:
            return pmhCpuDeviceId;
        default:
            refuse(pmhErrorInvalidValue, "the location is neither a device nor the host");
    }
}

// Returns the value that all pages share, or `otherwise`.
template <class Get>
int shared_value(const std::vector<const PageState*>& pages, int otherwise, Get&& get) {
    const int first = get(*pages.front());
    const bool all =
        std::all_of(pages.begin(), pages.end(), [&](const PageState* page) { return get(*page) == first; });
    return all ? first : otherwise;
}

std::vector<int> shared_accessors(const std::vector<const PageState*>& pages) {
    std::vector<int> shared;
    for (const int device : pages.front()->accessed_by)
        if (std::all_of(pages.begin(), pages.end(), [&](auto* page) { return page->accessed_by.count(device) != 0; }))
            shared.push_back(device);
    return shared;
}

}  // namespace
}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhMemPrefetchAsync(const void* ptr, size_t size, pmhMemLocation location, unsigned flags,
                               pmhStream_t handle) {
    return enter("MemPrefetchAsync", [&](State& state, Hold&) {
        require(flags == 0, "unknown prefetch flags");
        const MovableRange range = movable_range(state, ptr, size);
        const int device = ordinal_of(state, location);
        forbid_progress_query(state, *stream_of(state, handle), "MemPrefetchAsync");
        // The attribute tells the latest request, not an effect, so that nothing is queued.
        range.ranges.change(range.offset, size, [&](PageState& page) { page.prefetched = device; });
        note_prefetch(ptr, size, *stream_of(state, handle));
    });
}

pmhError_t pmhMemAdvise(const void* ptr, size_t size, int advice, pmhMemLocation location) {
    return enter("MemAdvise", [&](State& state, Hold&) {
        const MovableRange range = movable_range(state, ptr, size);
        forbid_unsafe_call(state, "MemAdvise");
        const auto advise = [&](auto&& apply) { range.ranges.change(range.offset, size, apply); };
        switch (advice) {
            case pmhMemAdviseSetReadMostly:
                return advise([](PageState& page) { page.read_mostly = true; });
            case pmhMemAdviseUnsetReadMostly:
                return advise([](PageState& page) { page.read_mostly = false; });
            case pmhMemAdviseSetPreferredLocation:
                return advise([device = ordinal_of(state, location)](PageState& page) { page.preferred = device; });
            case pmhMemAdviseUnsetPreferredLocation:
                return advise([](PageState& page) { page.preferred = pmhInvalidDeviceId; });
            case pmhMemAdviseSetAccessedBy:
                return advise(
                    [device = ordinal_of(state, location)](PageState& page) { page.accessed_by.insert(device); });
            case pmhMemAdviseUnsetAccessedBy:
                return advise(
                    [device = ordinal_of(state, location)](PageState& page) { page.accessed_by.erase(device); });
            default:
                refuse(pmhErrorInvalidValue, "%d is no advice", advice);
        }
    });
}

pmhError_t pmhMemRangeGetAttribute(void* data, size_t data_size, int attribute, const void* ptr, size_t size) {
    return enter("MemRangeGetAttribute", [&](State& state, Hold&) {
        require(data != nullptr, "data is null");
        const MovableRange range = movable_range(state, ptr, size);
        const auto pages = range.ranges.states(range.offset, size);
        const auto store = [&](int value) {
            require(data_size == sizeof value, "the attribute is one int");
            std::memcpy(data, &value, sizeof value);
        };
        switch (attribute) {
            case pmhMemRangeAttributeReadMostly:
                return store(shared_value(pages, 0, [](auto& page) { return page.read_mostly ? 1 : 0; }));
            case pmhMemRangeAttributePreferredLocation:
                return store(shared_value(pages, pmhInvalidDeviceId, [](auto& page) { return page.preferred; }));
            case pmhMemRangeAttributeLastPrefetchLocation:
                return store(shared_value(pages, pmhInvalidDeviceId, [](auto& page) { return page.prefetched; }));
            case pmhMemRangeAttributeAccessedBy: {
                require(data_size != 0 && data_size % sizeof(int) == 0, "the attribute is an array of int");
                std::vector<int> devices = shared_accessors(pages);
                devices.resize(data_size / sizeof(int), pmhInvalidDeviceId);
                std::memcpy(data, devices.data(), data_size);
                return;
            }
            default:
                refuse(pmhErrorInvalidValue, "%d is not an attribute of a range", attribute);
        }
    });
}

pmhError_t pmhStreamAttachMemAsync(pmhStream_t handle, void* ptr, size_t size, unsigned flags) {
    return enter("StreamAttachMemAsync", [&](State& state, Hold&) {
        const std::shared_ptr<Stream>& stream = stream_of(state, handle);
        const auto record = state.allocations.starting_at(ptr);
        if (record == nullptr || record->kind != Kind::Managed)
            refuse(pmhErrorInvalidValue, "%p does not start managed memory", ptr);
        require(size == 0 || size == record->size, "only a whole allocation can be attached");
        require(flags == pmhMemAttachGlobal || flags == pmhMemAttachHost || flags == pmhMemAttachSingle,
                "an attachment is to all, to the host or to one stream");
        require(flags != pmhMemAttachSingle || stream->role == Stream::Role::Created,
                "memory cannot be attached to a default stream");
        forbid_progress_query(state, *stream, "StreamAttachMemAsync");
        record->flags = flags;
    });
}
