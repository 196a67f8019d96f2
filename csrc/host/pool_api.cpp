// SPDX-License-Identifier: MIT
// host/pool_api.cpp: stream-ordered memory, and pools by handle.
#include <algorithm>
#include <utility>

#include "entry.hpp"
#include "memory.hpp"
#include "order_hooks.hpp"

namespace portamem::host {
namespace {

const std::shared_ptr<Pool>& pool_of(State& state, pmhMemPool_t handle) {
    const auto found = state.pools.find(handle);
    if (found == state.pools.end()) refuse(pmhErrorInvalidValue, "there is no pool %p", static_cast<void*>(handle));
    return found->second;
}

pmhMemPool_t handle_of(const std::shared_ptr<Pool>& pool) { return reinterpret_cast<pmhMemPool_t>(pool.get()); }

void* allocate(State& state, Hold& hold, std::size_t size, const std::shared_ptr<Pool>& pool, Stream& stream) {
    Block* block = pool->allocate(state, hold, size, stream);
    try {
        auto record = std::make_shared<Allocation>();
        record->kind = Kind::Pool;
        record->base = block->address();
        record->mapping = block->chunk->mapping;
        record->alias = record->mapping->alias() + block->offset;
        record->size = size;
        record->device = pool->device;
        record->pool = pool;
        record->block = block;
        state.allocations.insert(std::move(record));
    } catch (...) {
        pool->free(state, hold, block, stream.end());
        throw;
    }
    note_new(block->address(), size, &stream);
    return block->address();
}

bool read(const Pool& pool, int attribute, std::uint64_t& value) {
    switch (attribute) {
        case pmhMemPoolReuseFollowEventDependencies:
            value = pool.follow_events ? 1 : 0;
            return true;
        case pmhMemPoolReuseAllowOpportunistic:
            value = pool.opportunistic ? 1 : 0;
            return true;
        case pmhMemPoolReuseAllowInternalDependencies:
            value = pool.internal_dependencies ? 1 : 0;
            return true;
        case pmhMemPoolAttrReleaseThreshold:
            value = pool.threshold;
            return true;
        case pmhMemPoolAttrReservedMemCurrent:
            value = pool.reserved();
            return true;
        case pmhMemPoolAttrReservedMemHigh:
            value = pool.reserved_high();
            return true;
        case pmhMemPoolAttrUsedMemCurrent:
            value = pool.used();
            return true;
        case pmhMemPoolAttrUsedMemHigh:
            value = pool.used_high();
            return true;
        default:
            return false;
    }
}

}  // namespace
}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhMallocAsync(void** ptr, size_t size, pmhStream_t handle) {
    return enter("MallocAsync", [&](State& state, Hold& hold) {
        require(ptr != nullptr, "ptr is null");
        Stream& stream = *stream_of(state, handle);
        forbid_in_capture(state, stream, "MallocAsync");
        *ptr = size == 0 ? nullptr : allocate(state, hold, size, device_of(state, stream.device).current_pool, stream);
    });
}

pmhError_t pmhMallocFromPoolAsync(void** ptr, size_t size, pmhMemPool_t pool, pmhStream_t handle) {
    return enter("MallocFromPoolAsync", [&](State& state, Hold& hold) {
        require(ptr != nullptr, "ptr is null");
        Stream& stream = *stream_of(state, handle);
        forbid_in_capture(state, stream, "MallocFromPoolAsync");
        const std::shared_ptr<Pool>& from = pool_of(state, pool);
        *ptr = size == 0 ? nullptr : allocate(state, hold, size, from, stream);
    });
}

pmhError_t pmhFreeAsync(void* ptr, pmhStream_t handle) {
    return enter("FreeAsync", [&](State& state, Hold& hold) {
        Stream& stream = *stream_of(state, handle);
        if (ptr == nullptr) return;
        forbid_in_capture(state, stream, "FreeAsync");
        const auto record = state.allocations.starting_at(ptr);
        if (record == nullptr || record->is_host_memory() || record->kind == Kind::Virtual)
            refuse_free(state, ptr, "memory of MallocAsync");
        if (record->kind == Kind::Managed) refuse(pmhErrorNotSupported, "managed memory is freed by Free");
        hold.make_room();
        note_free(ptr, record->size, &stream);
        if (record->kind == Kind::Pool) {
            const Point freed = mark(state, stream);
            state.allocations.erase(*record);
            record->pool->free(state, hold, record->block, freed);
        } else {
            // Work that may still use the memory in stream order has been submitted by now, and holds the record.
            release_plain(state, hold, record);
        }
    });
}

pmhError_t pmhMemPoolCreate(pmhMemPool_t* handle, const pmhMemPoolProps* props) {
    return enter("MemPoolCreate", [&](State& state, Hold&) {
        require(handle != nullptr && props != nullptr, "pool or props is null");
        require(props->location.type == pmhMemLocationTypeDevice, "the pools of the host runtime are of device memory");
        require(props->location.id >= 0 && static_cast<std::size_t>(props->location.id) < state.devices.size(),
                "the pool's device does not exist");
        forbid_unsafe_call(state, "MemPoolCreate");
        const std::size_t max_size = round_up(props->maxSize, Pool::chunk_granule);
        auto pool = std::make_shared<Pool>(props->location.id, max_size);
        device_of(state, pool->device).pools.push_back(pool);
        *handle = handle_of(pool);
        state.pools.emplace(*handle, std::move(pool));
    });
}

pmhError_t pmhMemPoolDestroy(pmhMemPool_t handle) {
    return enter("MemPoolDestroy", [&](State& state, Hold& hold) {
        const std::shared_ptr<Pool> pool = pool_of(state, handle);
        Device& device = device_of(state, pool->device);
        require(pool != device.default_pool, "a default pool cannot be destroyed");
        forbid_unsafe_call(state, "MemPoolDestroy");
        if (device.current_pool == pool) device.current_pool = device.default_pool;
        state.pools.erase(handle);
        pool->destroyed = true;
        pool->threshold = 0;
        pool->trim(state, hold, 0);
        auto& all = device.pools;
        if (pool->is_empty()) all.erase(std::remove(all.begin(), all.end(), pool), all.end());
    });
}

pmhError_t pmhMemPoolTrimTo(pmhMemPool_t handle, size_t keep) {
    return enter("MemPoolTrimTo", [&](State& state, Hold& hold) {
        const std::shared_ptr<Pool>& pool = pool_of(state, handle);
        forbid_unsafe_call(state, "MemPoolTrimTo");
        pool->trim(state, hold, keep);
    });
}

pmhError_t pmhMemPoolSetAttribute(pmhMemPool_t handle, int attribute, uint64_t value) {
    return enter("MemPoolSetAttribute", [&](State& state, Hold&) {
        Pool& pool = *pool_of(state, handle);
        switch (attribute) {
            case pmhMemPoolReuseFollowEventDependencies:
                pool.follow_events = value != 0;
                return;
            case pmhMemPoolReuseAllowOpportunistic:
                pool.opportunistic = value != 0;
                return;
            case pmhMemPoolReuseAllowInternalDependencies:
                pool.internal_dependencies = value != 0;
                return;
            case pmhMemPoolAttrReleaseThreshold:
                pool.threshold = value;
                return;
            case pmhMemPoolAttrReservedMemHigh:
            case pmhMemPoolAttrUsedMemHigh:
                require(value == 0, "a high-water mark can only be reset, by setting it to 0");
                return attribute == pmhMemPoolAttrUsedMemHigh ? pool.reset_used_high() : pool.reset_reserved_high();
            default:
                refuse(pmhErrorInvalidValue, "attribute %d of a pool cannot be set", attribute);
        }
    });
}

pmhError_t pmhMemPoolGetAttribute(pmhMemPool_t handle, int attribute, uint64_t* value) {
    return enter("MemPoolGetAttribute", [&](State& state, Hold&) {
        require(value != nullptr, "value is null");
        if (!read(*pool_of(state, handle), attribute, *value))
            refuse(pmhErrorInvalidValue, "%d is not an attribute of a pool", attribute);
    });
}

pmhError_t pmhMemPoolSetAccess(pmhMemPool_t handle, pmhMemLocation location, int flags) {
    return enter("MemPoolSetAccess", [&](State& state, Hold&) {
        Pool& pool = *pool_of(state, handle);
        require(flags == pmhMemAccessFlagsProtNone || flags == pmhMemAccessFlagsProtRead ||
                    flags == pmhMemAccessFlagsProtReadWrite,
                "unknown access flags");
        require(location.type == pmhMemLocationTypeDevice, "access is given to devices");
        const int device = device_of(state, location.id).ordinal;
        if (device != pool.device) {
            pool.access[device] = flags;
        } else if (flags != pmhMemAccessFlagsProtReadWrite) {
            refuse(pmhErrorInvalidDevice, "a pool's own device always has access");
        }
    });
}

pmhError_t pmhMemPoolGetAccess(int* flags, pmhMemPool_t handle, pmhMemLocation location) {
    return enter("MemPoolGetAccess", [&](State& state, Hold&) {
        require(flags != nullptr, "flags is null");
        const Pool& pool = *pool_of(state, handle);
        require(location.type == pmhMemLocationTypeDevice, "access is given to devices");
        require(location.id >= 0 && static_cast<std::size_t>(location.id) < state.devices.size(),
                "the device does not exist");
        *flags = pool.access_of(location.id);
    });
}

pmhError_t pmhDeviceGetDefaultMemPool(pmhMemPool_t* pool, int device) {
    return enter("DeviceGetDefaultMemPool", [&](State& state, Hold&) {
        require(pool != nullptr, "pool is null");
        *pool = handle_of(device_of(state, device).default_pool);
    });
}

pmhError_t pmhDeviceGetMemPool(pmhMemPool_t* pool, int device) {
    return enter("DeviceGetMemPool", [&](State& state, Hold&) {
        require(pool != nullptr, "pool is null");
        *pool = handle_of(device_of(state, device).current_pool);
    });
}

pmhError_t pmhDeviceSetMemPool(int ordinal, pmhMemPool_t handle) {
    return enter("DeviceSetMemPool", [&](State& state, Hold&) {
        Device& device = device_of(state, ordinal);
        const std::shared_ptr<Pool>& pool = pool_of(state, handle);
        require(pool->device == ordinal, "the pool is of another device");
        forbid_unsafe_call(state, "DeviceSetMemPool");
        device.current_pool = pool;
    });
}
