// SPDX-License-Identifier: MIT
// portamem/rt/cuda/device.hpp: devices, limits and peers. Contracts: rt/api/device.hpp.
#pragma once

#include <cstdio>

#include "portamem/rt/cuda/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(CpuDeviceId, cudaCpuDeviceId) && check::same(InvalidDeviceId, cudaInvalidDeviceId));
static_assert(check::same(Limit::StackSize, cudaLimitStackSize));
static_assert(check::same(Limit::PrintfFifoSize, cudaLimitPrintfFifoSize));
static_assert(check::same(Limit::MallocHeapSize, cudaLimitMallocHeapSize));
static_assert(check::same(MemHandleTypePosixFileDescriptor, cudaMemHandleTypePosixFileDescriptor));
static_assert(check::same(MemHandleTypeWin32, cudaMemHandleTypeWin32));
static_assert(check::same(MemHandleTypeWin32Kmt, cudaMemHandleTypeWin32Kmt));

/// The vendor's number of an attribute, or -1 where these headers have none.
constexpr int native_attribute(DeviceAttr attr) {
    switch (attr) {
        case DeviceAttr::MultiProcessorCount:
            return cudaDevAttrMultiProcessorCount;
        case DeviceAttr::WarpSize:
            return cudaDevAttrWarpSize;
        case DeviceAttr::ComputeCapabilityMajor:
            return cudaDevAttrComputeCapabilityMajor;
        case DeviceAttr::ComputeCapabilityMinor:
            return cudaDevAttrComputeCapabilityMinor;
        case DeviceAttr::L2CacheSize:
            return cudaDevAttrL2CacheSize;
        case DeviceAttr::TextureAlignment:
            return cudaDevAttrTextureAlignment;
        case DeviceAttr::AsyncEngineCount:
            return cudaDevAttrAsyncEngineCount;
        case DeviceAttr::Integrated:
            return cudaDevAttrIntegrated;
        case DeviceAttr::CanMapHostMemory:
            return cudaDevAttrCanMapHostMemory;
        case DeviceAttr::UnifiedAddressing:
            return cudaDevAttrUnifiedAddressing;
        case DeviceAttr::ManagedMemory:
            return cudaDevAttrManagedMemory;
        case DeviceAttr::ConcurrentManagedAccess:
            return cudaDevAttrConcurrentManagedAccess;
        case DeviceAttr::PageableMemoryAccess:
            return cudaDevAttrPageableMemoryAccess;
        case DeviceAttr::PageableMemoryAccessUsesHostPageTables:
            return cudaDevAttrPageableMemoryAccessUsesHostPageTables;
        case DeviceAttr::DirectManagedMemAccessFromHost:
            return cudaDevAttrDirectManagedMemAccessFromHost;
        case DeviceAttr::MemoryPoolsSupported:
            return cudaDevAttrMemoryPoolsSupported;
        case DeviceAttr::HostRegisterSupported:
            return cudaDevAttrHostRegisterSupported;
        case DeviceAttr::CanUseHostPointerForRegisteredMem:
            return cudaDevAttrCanUseHostPointerForRegisteredMem;
        case DeviceAttr::StreamPrioritiesSupported:
            return cudaDevAttrStreamPrioritiesSupported;
        // The driver's number: the runtime's enumeration leaves it out, and its call takes it all the same.
        case DeviceAttr::VirtualMemoryManagementSupported:
            return CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        // CUDA does not say. Host access to cudaMalloc's memory is outside its model even on coherent machines.
        case DeviceAttr::DirectDeviceMemAccessFromHost:
            return -1;
#if CUDART_VERSION >= 12020
        case DeviceAttr::HostNumaId:
            return cudaDevAttrHostNumaId;
#else
        case DeviceAttr::HostNumaId:
            return -1;
#endif
        case DeviceAttr::MemoryPoolSupportedHandleTypes:
            return cudaDevAttrMemoryPoolSupportedHandleTypes;
        // The driver's numbers again.
        case DeviceAttr::HandleTypePosixFileDescriptorSupported:
            return CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
#if CUDA_VERSION >= 12040
        case DeviceAttr::HandleTypeFabricSupported:
            return CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
#else
        case DeviceAttr::HandleTypeFabricSupported:
            return -1;
#endif
        // CUDA's manual names this one attribute as the test for handles of memory and of events.
        case DeviceAttr::IpcMemHandleSupported:
        case DeviceAttr::IpcEventSupport:
            return cudaDevAttrIpcEventSupport;
        case DeviceAttr::Xnack:
        case DeviceAttr::ManagedMemoryMigrates:
        case DeviceAttr::HostMallocCoherent:
        case DeviceAttr::HostMallocNonCoherent:
        case DeviceAttr::MallocHeapKind:
            return -1;
    }
    return -1;
}

inline Error_t attribute_by_number(int* value, int native, int device) {
    const Error_t error = answer(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(native), device));
    // With a place to write to, InvalidValue means that the driver is older than the attribute.
    return error == Error_t::InvalidValue ? Error_t::NotSupported : error;
}

/// A value that is the same for every device; the ordinal is checked all the same.
inline Error_t attribute_of_all(int* value, int constant, int device) {
    int warp_size = 0;
    const Error_t error = attribute_by_number(&warp_size, cudaDevAttrWarpSize, device);
    if (error == Error_t::Success) *value = constant;
    return error;
}

inline Error_t managed_memory_migrates(int* value, int device) {
    int concurrent = 0;
    int integrated = 0;
    Error_t error = attribute_by_number(&concurrent, cudaDevAttrConcurrentManagedAccess, device);
    if (error == Error_t::Success) error = attribute_by_number(&integrated, cudaDevAttrIntegrated, device);
    if (error == Error_t::Success) *value = concurrent != 0 && integrated == 0;
    return error;
}

inline Error_t GetDeviceCount(int* count) {
    if (count == nullptr) return Error_t::InvalidValue;
    *count = 0;
    return answer(cudaGetDeviceCount(count));
}

inline Error_t SetDevice(int device) { return answer(cudaSetDevice(device)); }

inline Error_t GetDevice(int* device) { return answer(cudaGetDevice(device)); }

inline Error_t PushDevice(int device, DeviceState_t* saved) { return driver::push_device(device, saved); }

inline Error_t PopDevice(DeviceState_t saved) { return driver::pop_device(saved); }

inline Error_t DeviceGetAttribute(int* value, DeviceAttr attr, int device) {
    if (value == nullptr) return Error_t::InvalidValue;
    if (attr == DeviceAttr::ManagedMemoryMigrates) return managed_memory_migrates(value, device);
    if (attr == DeviceAttr::HostMallocCoherent) return attribute_of_all(value, 1, device);
    if (attr == DeviceAttr::HostMallocNonCoherent) return attribute_of_all(value, 0, device);
    if (attr == DeviceAttr::MallocHeapKind) {
        return attribute_of_all(value, static_cast<int>(MallocHeapKind::Limit), device);
    }
    const int native = native_attribute(attr);
    return native < 0 ? Error_t::NotSupported : attribute_by_number(value, native, device);
}

inline Error_t GetDeviceProperties(DeviceProperties* properties, int device) {
    if (properties == nullptr) return Error_t::InvalidValue;
    cudaDeviceProp native{};
    const Error_t error = answer(cudaGetDeviceProperties(&native, device));
    if (error != Error_t::Success) return error;
    *properties = DeviceProperties{};
    std::snprintf(properties->name, sizeof properties->name, "%s", native.name);
    std::snprintf(properties->arch, sizeof properties->arch, "sm_%d%d", native.major, native.minor);
    properties->total_global_mem = native.totalGlobalMem;
    properties->compute_capability_major = native.major;
    properties->compute_capability_minor = native.minor;
    properties->multi_processor_count = native.multiProcessorCount;
    properties->warp_size = native.warpSize;
    return Error_t::Success;
}

inline Error_t DeviceGetUuid(unsigned char* uuid16, int device) {
    if (uuid16 == nullptr) return Error_t::InvalidValue;
    return driver::device_get_uuid(uuid16, device);
}

inline Error_t DeviceGetPCIBusId(char* pci_bus_id, int length, int device) {
    return answer(cudaDeviceGetPCIBusId(pci_bus_id, length, device));
}

inline Error_t MemGetInfo(std::size_t* free, std::size_t* total) { return answer(cudaMemGetInfo(free, total)); }

inline Error_t DeviceSynchronize() { return answer(cudaDeviceSynchronize()); }

inline Error_t DeviceGetLimit(std::size_t* value, Limit limit) {
    return answer(cudaDeviceGetLimit(value, static_cast<cudaLimit>(limit)));
}

inline Error_t DeviceSetLimit(Limit limit, std::size_t value) {
    return answer(cudaDeviceSetLimit(static_cast<cudaLimit>(limit), value));
}

inline Error_t DeviceCanAccessPeer(int* can_access, int device, int peer) {
    return answer(cudaDeviceCanAccessPeer(can_access, device, peer));
}

inline Error_t DeviceEnablePeerAccess(int peer) { return answer(cudaDeviceEnablePeerAccess(peer, 0)); }

inline Error_t DeviceDisablePeerAccess(int peer) { return answer(cudaDeviceDisablePeerAccess(peer)); }

inline Error_t DeviceGetStreamPriorityRange(int* least, int* greatest) {
    return answer(cudaDeviceGetStreamPriorityRange(least, greatest));
}

PORTAMEM_RT_CLOSE
