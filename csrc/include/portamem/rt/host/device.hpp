// SPDX-License-Identifier: MIT
// portamem/rt/host/device.hpp: devices, limits and peers. Contracts: rt/api/device.hpp.
#pragma once

#include <cstdio>

#include "portamem/rt/host/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(CpuDeviceId, pmhCpuDeviceId) && check::same(InvalidDeviceId, pmhInvalidDeviceId));
static_assert(check::same(Limit::StackSize, pmhLimitStackSize));
static_assert(check::same(Limit::PrintfFifoSize, pmhLimitPrintfFifoSize));
static_assert(check::same(Limit::MallocHeapSize, pmhLimitMallocHeapSize));

static_assert(check::same(DeviceAttr::MultiProcessorCount, pmhDevAttrMultiProcessorCount));
static_assert(check::same(DeviceAttr::ManagedMemory, pmhDevAttrManagedMemory));
static_assert(check::same(DeviceAttr::DirectDeviceMemAccessFromHost, pmhDevAttrDirectDeviceMemAccessFromHost));
static_assert(check::same(DeviceAttr::HostNumaId, pmhDevAttrHostNumaId));
static_assert(check::same(DeviceAttr::MemoryPoolSupportedHandleTypes, pmhDevAttrMemoryPoolSupportedHandleTypes));
static_assert(check::same(DeviceAttr::MallocHeapKind, pmhDevAttrMallocHeapKind));

inline Error_t GetDeviceCount(int* count) {
    if (count == nullptr) return Error_t::InvalidValue;
    *count = 0;
    return answer(pmhGetDeviceCount(count));
}

inline Error_t SetDevice(int device) { return answer(pmhSetDevice(device)); }

inline Error_t GetDevice(int* device) { return answer(pmhGetDevice(device)); }

inline Error_t PushDevice(int device, DeviceState_t* saved) {
    int current = InvalidDeviceId;
    *saved = DeviceState_t{};
    Error_t error = GetDevice(&current);
    if (error != Error_t::Success || current == device) return error;
    error = SetDevice(device);
    if (error == Error_t::Success) *saved = DeviceState_t{true, current};
    return error;
}

inline Error_t PopDevice(DeviceState_t saved) { return saved.switched ? SetDevice(saved.device) : Error_t::Success; }

inline Error_t DeviceGetAttribute(int* value, DeviceAttr attr, int device) {
    if (value == nullptr) return Error_t::InvalidValue;
    return answer(pmhDeviceGetAttribute(value, static_cast<int>(attr), device));
}

inline Error_t GetDeviceProperties(DeviceProperties* properties, int device) {
    if (properties == nullptr) return Error_t::InvalidValue;
    pmhDeviceProp native{};
    const Error_t error = answer(pmhGetDeviceProperties(&native, device));
    if (error != Error_t::Success) return error;
    *properties = DeviceProperties{};
    std::snprintf(properties->name, sizeof properties->name, "%s", native.name);
    std::snprintf(properties->arch, sizeof properties->arch, "%s", native.archName);
    properties->total_global_mem = native.totalGlobalMem;
    properties->compute_capability_major = native.major;
    properties->compute_capability_minor = native.minor;
    properties->multi_processor_count = native.multiProcessorCount;
    properties->warp_size = native.warpSize;
    return Error_t::Success;
}

inline Error_t DeviceGetUuid(unsigned char* uuid16, int device) {
    if (uuid16 == nullptr) return Error_t::InvalidValue;
    return answer(pmhDeviceGetUuid(uuid16, device));
}

inline Error_t DeviceGetPCIBusId(char* pci_bus_id, int length, int device) {
    return answer(pmhDeviceGetPCIBusId(pci_bus_id, length, device));
}

inline Error_t MemGetInfo(std::size_t* free, std::size_t* total) { return answer(pmhMemGetInfo(free, total)); }

inline Error_t DeviceSynchronize() { return answer(pmhDeviceSynchronize()); }

inline Error_t DeviceGetLimit(std::size_t* value, Limit limit) {
    return answer(pmhDeviceGetLimit(value, static_cast<int>(limit)));
}

inline Error_t DeviceSetLimit(Limit limit, std::size_t value) {
    return answer(pmhDeviceSetLimit(static_cast<int>(limit), value));
}

inline Error_t DeviceCanAccessPeer(int* can_access, int device, int peer) {
    return answer(pmhDeviceCanAccessPeer(can_access, device, peer));
}

inline Error_t DeviceEnablePeerAccess(int peer) { return answer(pmhDeviceEnablePeerAccess(peer, 0)); }

inline Error_t DeviceDisablePeerAccess(int peer) { return answer(pmhDeviceDisablePeerAccess(peer)); }

inline Error_t DeviceGetStreamPriorityRange(int* least, int* greatest) {
    return answer(pmhDeviceGetStreamPriorityRange(least, greatest));
}

PORTAMEM_RT_CLOSE
