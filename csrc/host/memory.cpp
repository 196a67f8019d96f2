// SPDX-License-Identifier: MIT
// host/memory.cpp: device, managed and pinned memory: allocate and free.
#include "memory.hpp"

#include <utility>

#include "entry.hpp"
#include "kernel.hpp"
#include "order_hooks.hpp"

namespace portamem::host {
namespace {

constexpr std::size_t pitch_granule = 512;

const char* describe(const Allocation& record) {
    switch (record.kind) {
        case Kind::Device:
            return "device memory";
        case Kind::Pool:
            return "device memory of a pool";
        case Kind::Pinned:
            return "pinned host memory";
        case Kind::Registered:
            return "registered host memory";
        case Kind::Managed:
            return "managed memory";
        case Kind::Virtual:
            return "virtual memory";
    }
    return "";
}

// Makes the record of new memory on the current device, and enters it into the map.
void* add(State& state, Kind kind, std::size_t size, unsigned flags, bool guarded) {
    const std::size_t bytes = round_up(size, page_size);
    if (bytes == 0) refuse(pmhErrorOutOfMemory, "%zu bytes are more than an address can count", size);
    auto record = std::make_shared<Allocation>();
    record->kind = kind;
    record->size = size;
    record->device = this_thread().device;
    record->flags = flags;
    record->mapping = std::make_shared<Mapping>(bytes, guarded);
    record->base = record->mapping->user();
    record->alias = record->mapping->alias();
    if (kind == Kind::Managed) record->ranges = std::make_unique<ManagedRanges>(size);
    void* base = record->base;
    state.allocations.insert(std::move(record));
    note_new(base, size);
    return base;
}

void* add_pinned_memory(State& state, std::size_t size, unsigned flags) {
    const std::size_t bytes = round_up(size, page_size);
    if (bytes < size) return add(state, Kind::Pinned, size, flags, false);  // the size overflows, and add() refuses it
    state.lock_pages(bytes);
    try {
        return add(state, Kind::Pinned, size, flags, false);
    } catch (...) {
        state.locked -= bytes;
        throw;
    }
}

void* add_device_memory(State& state, Hold& hold, std::size_t size) {
    Device& device = current_device(state);
    const std::size_t bytes = round_up(size, page_size);
    take_memory(state, hold, device, bytes, size);
    try {
        return add(state, Kind::Device, size, 0, state.config.guarded());
    } catch (...) {
        device.reserved -= bytes;
        throw;
    }
}

}  // namespace

void take_memory(State& state, Hold& hold, Device& device, std::size_t bytes, std::size_t asked) {
    if (bytes == 0 || !device.reserve(state, hold, bytes))
        refuse(pmhErrorOutOfMemory, "%zu bytes asked for; device %d has %zu of %zu reserved", asked, device.ordinal,
               device.reserved, device.capacity);
}

void refuse_free(State& state, const void* ptr, const char* wanted) {
    const auto holding = state.allocations.holding(ptr);
    if (state.virtual_memory.is_reserved(ptr, 1))
        refuse(pmhErrorInvalidValue, "%p is an address of virtual memory: use MemUnmap and MemAddressFree", ptr);
    if (holding == nullptr) refuse_heap(state, "a free", ptr, 1);
    if (holding == nullptr)
        refuse(pmhErrorInvalidValue, "%p is not in use: it was freed already, or the runtime never gave it", ptr);
    if (holding->base == ptr) refuse(pmhErrorInvalidValue, "%p is %s, not %s", ptr, describe(*holding), wanted);
    refuse(pmhErrorInvalidValue, "%p is %zu bytes inside %s that starts at %p", ptr,
           static_cast<std::size_t>(static_cast<const char*>(ptr) - holding->base), describe(*holding),
           static_cast<void*>(holding->base));
}

void release_plain(State& state, Hold& hold, const std::shared_ptr<Allocation>& record) {
    hold.release(record);  // first, because only this may need host memory: if it throws, nothing has changed
    state.allocations.erase(*record);
    if (record->kind == Kind::Device) device_of(state, record->device).reserved -= record->mapping->size();
    if (record->kind == Kind::Pinned) state.locked -= record->mapping->size();
}

}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhMalloc(void** ptr, size_t size) {
    return enter("Malloc", [&](State& state, Hold& hold) {
        require(ptr != nullptr, "ptr is null");
        forbid_unsafe_call(state, "Malloc");
        *ptr = size == 0 ? nullptr : add_device_memory(state, hold, size);
    });
}

pmhError_t pmhExtMallocWithFlags(void** ptr, size_t size, unsigned flags) {
    return enter("ExtMallocWithFlags", [&](State& state, Hold& hold) {
        require(ptr != nullptr, "ptr is null");
        require(flags == pmhDeviceMallocDefault || flags == pmhDeviceMallocFinegrained, "unknown device memory flags");
        forbid_unsafe_call(state, "ExtMallocWithFlags");
        *ptr = size == 0 ? nullptr : add_device_memory(state, hold, size);
    });
}

pmhError_t pmhMallocPitch(void** ptr, size_t* pitch, size_t width, size_t height) {
    return enter("MallocPitch", [&](State& state, Hold& hold) {
        require(ptr != nullptr && pitch != nullptr, "ptr or pitch is null");
        forbid_unsafe_call(state, "MallocPitch");
        const bool empty = width == 0 || height == 0;
        const std::size_t row = empty ? 0 : round_up(width, pitch_granule);
        std::size_t size = 0;
        if (!empty && (row == 0 || __builtin_mul_overflow(row, height, &size)))
            refuse(pmhErrorOutOfMemory, "%zu rows of %zu bytes are more than an address can count", height, width);
        *ptr = empty ? nullptr : add_device_memory(state, hold, size);
        *pitch = row;
    });
}

pmhError_t pmhMallocManaged(void** ptr, size_t size, unsigned flags) {
    return enter("MallocManaged", [&](State& state, Hold&) {
        require(ptr != nullptr, "ptr is null");
        require(flags == pmhMemAttachGlobal || flags == pmhMemAttachHost,
                "managed memory starts attached to all or host");
        forbid_unsafe_call(state, "MallocManaged");
        *ptr = size == 0 ? nullptr : add(state, Kind::Managed, size, flags, false);
    });
}

pmhError_t pmhHostMalloc(void** ptr, size_t size, unsigned flags) {
    return enter("HostMalloc", [&](State& state, Hold&) {
        require(ptr != nullptr, "ptr is null");
        constexpr unsigned known = pmhHostMallocPortable | pmhHostMallocMapped | pmhHostMallocWriteCombined;
        require((flags & ~known) == 0, "unknown pinned memory flags");
        forbid_unsafe_call(state, "HostMalloc");
        *ptr = size == 0 ? nullptr : add_pinned_memory(state, size, flags);
    });
}

pmhError_t pmhFree(void* ptr) {
    return enter("Free", [&](State& state, Hold& hold) {
        if (ptr == nullptr) return;
        forbid_unsafe_call(state, "Free");
        const auto record = state.allocations.starting_at(ptr);
        if (record == nullptr || record->is_host_memory() || record->kind == Kind::Virtual)
            refuse_free(state, ptr, "memory of Malloc");
        hold.make_room();
        note_free(ptr, record->size);
        if (record->kind == Kind::Pool) {
            state.allocations.erase(*record);
            record->pool->free(state, hold, record->block, {});
        } else {
            release_plain(state, hold, record);
        }
    });
}

pmhError_t pmhHostFree(void* ptr) {
    return enter("HostFree", [&](State& state, Hold& hold) {
        if (ptr == nullptr) return;
        forbid_unsafe_call(state, "HostFree");
        const auto record = state.allocations.starting_at(ptr);
        if (record == nullptr || record->kind != Kind::Pinned) refuse_free(state, ptr, "memory of HostMalloc");
        hold.make_room();
        note_free(ptr, record->size);
        release_plain(state, hold, record);
    });
}
