// SPDX-License-Identifier: MIT
// pools.cpp: stream-ordered memory and its pools.
#include <algorithm>
#include <map>
#include <mutex>

#include "../../csrc/host/entry.hpp"
#include "../../csrc/host/memory.hpp"
#include "ipc.hpp"
#include "records.hpp"
#include "standin.hpp"

using namespace standin;
using portamem::host::Hold;
using portamem::host::Kind;
using portamem::host::State;

namespace {

// Facts that the quirks need to remember.
struct Notes {
    std::mutex mutex;
    std::map<void*, pmhStream_t> allocated_on;
    std::map<pmhMemPool_t, std::uint64_t> threshold_asked;
};

Notes& notes() {
    static Notes& all = *new Notes;
    return all;
}

bool is_boolean(hipMemPoolAttr attribute) {
    return attribute == hipMemPoolReuseFollowEventDependencies || attribute == hipMemPoolReuseAllowOpportunistic ||
           attribute == hipMemPoolReuseAllowInternalDependencies;
}

// The chunks that were mapped before one could not be. A request beyond the device's size fails earlier.
void keep_what_there_was(std::size_t size, hipStream_t stream) {
    int device = 0;
    if (pmhStreamGetDevice(native(stream), &device) != pmhSuccess) return;
    State& state = portamem::host::state();
    const Hold hold(state.mutex);
    auto& owner = portamem::host::device_of(state, device);
    if (size > owner.capacity || owner.reserved > owner.capacity) return;
    owner.reserved += std::min(size, owner.capacity - owner.reserved);
}

template <class Allocate>
hipError_t allocate(void** ptr, std::size_t size, hipStream_t stream, Allocate&& call) {
    if (ptr == nullptr) return hipErrorInvalidValue;
    if (size == 0 && has(Quirk::AsyncZeroRefused)) return hipErrorInvalidValue;
    if (size != 0 && size < 8 && has(Quirk::TinyPoolAllocation)) return hipErrorOutOfMemory;
    const pmhError_t error = call();
    if (error == pmhErrorOutOfMemory && has(Quirk::FailedAllocationKeepsMemory)) keep_what_there_was(size, stream);
    if (error == pmhSuccess && *ptr != nullptr) {
        const std::lock_guard<std::mutex> lock(notes().mutex);
        notes().allocated_on[*ptr] = native(stream);
    }
    return translate(error);
}

pmhStream_t forget_origin(void* ptr, hipStream_t otherwise) {
    const std::lock_guard<std::mutex> lock(notes().mutex);
    const auto found = notes().allocated_on.find(ptr);
    if (found == notes().allocated_on.end()) return native(otherwise);
    const pmhStream_t stream = found->second;
    notes().allocated_on.erase(found);
    return stream;
}

// Gives a block back as if nothing on the stream could still use it.
pmhError_t free_at_once(void* ptr, hipStream_t handle) {
    return portamem::host::enter("FreeAsync", [&](State& state, Hold& hold) {
        portamem::host::forbid_in_capture(state, *portamem::host::stream_of(state, native(handle)), "FreeAsync");
        const auto record = state.allocations.starting_at(ptr);
        if (record == nullptr) portamem::host::refuse_free(state, ptr, "memory of MallocAsync");
        state.allocations.erase(*record);
        record->pool->free(state, hold, record->block, {});
    });
}

}  // namespace

hipError_t hipMallocAsync(void** ptr, std::size_t size, hipStream_t stream) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    return answer(allocate(ptr, size, stream, [&] { return pmhMallocAsync(ptr, size, native(stream)); }));
}

hipError_t hipMallocFromPoolAsync(void** ptr, std::size_t size, hipMemPool_t pool, hipStream_t stream) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    const auto call = [&] { return pmhMallocFromPoolAsync(ptr, size, native(pool), native(stream)); };
    const hipError_t error = allocate(ptr, size, stream, call);
    if (error != hipErrorOutOfMemory || !has(Quirk::PoolExhaustionUnseen)) return answer(error);
    *ptr = nullptr;
    return answer(hipSuccess);
}

hipError_t hipFreeAsync(void* ptr, hipStream_t stream) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    if (ptr == nullptr && has(Quirk::FreeAsyncNullRefused)) return answer(hipErrorInvalidValue);
    const auto memory = known(ptr);
    if (memory && !memory->is_freeable) return answer(hipErrorInvalidValue);
    if (memory && memory->kind == Kind::Device) stop_sharing(ptr);
    const bool from_pool = memory && memory->kind == Kind::Pool && memory->base == ptr;
    if (from_pool && forget_origin(ptr, stream) != native(stream) && has(Quirk::FreeOnOtherStream))
        return answer(free_at_once(ptr, stream));
    return answer(pmhFreeAsync(ptr, native(stream)));
}

hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps* props) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    if (pool == nullptr || props == nullptr || props->allocType != hipMemAllocationTypePinned ||
        props->location.type != hipMemLocationTypeDevice)
        return answer(hipErrorInvalidValue);
    pmhMemPoolProps host{on_device(props->location.id), 0};
#if HIP_VERSION >= 60400000
    host.maxSize = props->maxSize;
#endif
    return answer(pmhMemPoolCreate(native(pool), &host));
}

hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    const pmhError_t error = pmhMemPoolDestroy(native(pool));
    if (error == pmhSuccess) {
        const std::lock_guard<std::mutex> lock(notes().mutex);
        notes().threshold_asked.erase(native(pool));
    }
    return answer(error);
}

hipError_t hipMemPoolTrimTo(hipMemPool_t pool, std::size_t keep) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    return answer(pmhMemPoolTrimTo(native(pool), keep));
}

hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    if (pool == nullptr || value == nullptr) return answer(hipErrorInvalidValue);
    const std::uint64_t asked = is_boolean(attribute) ? static_cast<std::uint64_t>(*static_cast<int*>(value) != 0)
                                                      : *static_cast<std::uint64_t*>(value);
    if (attribute == hipMemPoolAttrReleaseThreshold && has(Quirk::ReleaseThresholdIgnored)) {
        const std::lock_guard<std::mutex> lock(notes().mutex);
        notes().threshold_asked[native(pool)] = asked;
        return answer(hipSuccess);
    }
    return answer(pmhMemPoolSetAttribute(native(pool), static_cast<int>(attribute), asked));
}

hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    if (pool == nullptr || value == nullptr) return answer(hipErrorInvalidValue);
    std::uint64_t found = 0;
    const pmhError_t error = pmhMemPoolGetAttribute(native(pool), static_cast<int>(attribute), &found);
    if (error != pmhSuccess) return answer(error);
    if (attribute == hipMemPoolAttrReleaseThreshold && has(Quirk::ReleaseThresholdIgnored)) {
        const std::lock_guard<std::mutex> lock(notes().mutex);
        const auto asked = notes().threshold_asked.find(native(pool));
        if (asked != notes().threshold_asked.end()) found = asked->second;
    }
    if (is_boolean(attribute)) {
        *static_cast<int*>(value) = found != 0;
    } else {
        *static_cast<std::uint64_t*>(value) = found;
    }
    return answer(hipSuccess);
}

hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc* descriptions, std::size_t count) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    if (pool == nullptr || descriptions == nullptr) return answer(hipErrorInvalidValue);
    for (std::size_t i = 0; i < count; ++i) {
        const hipMemAccessDesc& each = descriptions[i];
        if (each.location.type != hipMemLocationTypeDevice) return answer(hipErrorInvalidValue);
        const pmhError_t error =
            pmhMemPoolSetAccess(native(pool), on_device(each.location.id), static_cast<int>(each.flags));
        if (error != pmhSuccess) return answer(error);
    }
    return answer(hipSuccess);
}

hipError_t hipMemPoolGetAccess(hipMemAccessFlags* flags, hipMemPool_t pool, hipMemLocation* location) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    if (flags == nullptr || pool == nullptr || location == nullptr || location->type != hipMemLocationTypeDevice)
        return answer(hipErrorInvalidValue);
    int found = 0;
    const pmhError_t error = pmhMemPoolGetAccess(&found, native(pool), on_device(location->id));
    if (error == pmhSuccess) *flags = static_cast<hipMemAccessFlags>(found);
    return answer(error);
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    return answer(pmhDeviceGetDefaultMemPool(native(pool), device));
}

hipError_t hipDeviceGetMemPool(hipMemPool_t* pool, int device) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    return answer(pmhDeviceGetMemPool(native(pool), device));
}

hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    return answer(pmhDeviceSetMemPool(device, native(pool)));
}

// The stand-in shares no pools under any version; early on HIP did not either (ROCm/clr commit 04b696abee92,
// hipamd/src/hip_mempool.cpp, hipMemPoolExportToShareableHandle).
hipError_t hipMemPoolExportToShareableHandle(void* handle, hipMemPool_t pool, hipMemAllocationHandleType, unsigned) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    return answer(handle == nullptr || pool == nullptr ? hipErrorInvalidValue : hipErrorNotSupported);
}

hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t* pool, void* handle, hipMemAllocationHandleType, unsigned) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    return answer(handle == nullptr || pool == nullptr ? hipErrorInvalidValue : hipErrorNotSupported);
}

hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData* data, void* ptr) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    return answer(data == nullptr || ptr == nullptr ? hipErrorInvalidValue : hipErrorNotSupported);
}

hipError_t hipMemPoolImportPointer(void** ptr, hipMemPool_t pool, hipMemPoolPtrExportData* data) {
    if (has(Quirk::PoolsNotSupported)) return answer(hipErrorNotSupported);
    return answer(ptr == nullptr || pool == nullptr || data == nullptr ? hipErrorInvalidValue : hipErrorNotSupported);
}
