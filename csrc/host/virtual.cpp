// SPDX-License-Identifier: MIT
// host/virtual.cpp: the calls of virtual memory.
#include "entry.hpp"

namespace portamem::host {
namespace {

void require_whole(std::size_t size, const char* what) {
    if (size == 0 || size % VirtualMemory::granule != 0)
        refuse(pmhErrorInvalidValue, "%s of %zu bytes is no multiple of %zu", what, size, VirtualMemory::granule);
}

void require_whole_range(const void* ptr, std::size_t size) {
    require(ptr != nullptr, "the address is null");
    if (reinterpret_cast<std::uintptr_t>(ptr) % VirtualMemory::granule != 0)
        refuse(pmhErrorInvalidValue, "%p is no multiple of %zu", ptr, VirtualMemory::granule);
    require_whole(size, "a range");
}

Device& device_at(State& state, pmhMemLocation location) {
    require(location.type == pmhMemLocationTypeDevice, "the location is no device");
    return device_of(state, location.id);
}

}  // namespace
}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhMemGetAllocationGranularity(size_t* granularity, pmhMemLocation location, int option) {
    return enter("MemGetAllocationGranularity", [&](State& state, Hold&) {
        require(granularity != nullptr, "granularity is null");
        require(option == pmhMemAllocationGranularityMinimum || option == pmhMemAllocationGranularityRecommended,
                "unknown granularity");
        (void)device_at(state, location);
        *granularity =
            option == pmhMemAllocationGranularityMinimum ? VirtualMemory::granule : VirtualMemory::recommended_granule;
    });
}

pmhError_t pmhMemAddressReserve(void** ptr, size_t size, size_t alignment, void*) {
    return enter("MemAddressReserve", [&](State& state, Hold&) {
        require(ptr != nullptr, "ptr is null");
        require_whole(size, "a range");
        require((alignment & (alignment - 1)) == 0, "an alignment is a power of two, or 0");
        *ptr = state.virtual_memory.reserve(size, alignment, state.config.guarded());
    });
}

pmhError_t pmhMemAddressFree(void* ptr, size_t size) {
    return enter("MemAddressFree", [&](State& state, Hold& hold) {
        require_whole_range(ptr, size);
        state.virtual_memory.free(hold, ptr, size);
    });
}

pmhError_t pmhMemCreate(pmhMemGenericAllocationHandle_t* handle, size_t size, pmhMemLocation location) {
    return enter("MemCreate", [&](State& state, Hold& hold) {
        require(handle != nullptr, "handle is null");
        require_whole(size, "memory");
        *handle = state.virtual_memory.create(state, hold, device_at(state, location), size);
    });
}

pmhError_t pmhMemRelease(pmhMemGenericAllocationHandle_t handle) {
    return enter("MemRelease", [&](State& state, Hold& hold) { state.virtual_memory.release(state, hold, handle); });
}

pmhError_t pmhMemMap(void* ptr, size_t size, size_t offset, pmhMemGenericAllocationHandle_t handle) {
    return enter("MemMap", [&](State& state, Hold&) {
        require_whole_range(ptr, size);
        require(offset == 0, "memory is mapped from its beginning: the offset is 0");
        state.virtual_memory.map(state, ptr, size, handle);
    });
}

pmhError_t pmhMemUnmap(void* ptr, size_t size) {
    return enter("MemUnmap", [&](State& state, Hold& hold) {
        require_whole_range(ptr, size);
        state.virtual_memory.unmap(state, hold, ptr, size);
    });
}

pmhError_t pmhMemSetAccess(void* ptr, size_t size, pmhMemLocation location, int flags) {
    return enter("MemSetAccess", [&](State& state, Hold&) {
        require_whole_range(ptr, size);
        require(flags == pmhMemAccessFlagsProtNone || flags == pmhMemAccessFlagsProtReadWrite,
                "access is none, or to read and write");
        const int device = device_at(state, location).ordinal;
        state.virtual_memory.set_access(state, ptr, size, device, flags == pmhMemAccessFlagsProtReadWrite);
    });
}

pmhError_t pmhMemGetAccess(int* flags, pmhMemLocation location, void* ptr) {
    return enter("MemGetAccess", [&](State& state, Hold&) {
        require(flags != nullptr, "flags is null");
        const int device = device_at(state, location).ordinal;
        if (!state.virtual_memory.is_mapped(ptr)) refuse(pmhErrorInvalidValue, "no memory is mapped at %p", ptr);
        *flags =
            state.virtual_memory.has_access(ptr, device) ? pmhMemAccessFlagsProtReadWrite : pmhMemAccessFlagsProtNone;
    });
}
